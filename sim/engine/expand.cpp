// From a program to a stored graph, instruction by instruction and lane by lane.

#include <algorithm>

#include "sim/engine/oracle.h"
#include "sim/engine/split.h"

namespace stepcast::sim {
namespace {

constexpr std::uint32_t nobody = 0xffffffff;

// One cohort's ranks while its instructions are turned into ops: who wrote last what the next one reads.
struct Writers {
  std::vector<std::uint32_t> streams, slots;  // op of lane 0; nobody: never written
  std::uint32_t host = nobody;
  Ticks host_add = 0;  // issued since
};

class Expander {
 public:
  Expander(const Program& program, const Conditions& conditions, const RunOptions& options)
      : program_(program), conditions_(conditions), options_(options) {}

  Result<Expansion> run() && {
    if (!separable(program_)) {
      return make_error(ErrorCode::unsupported, "units of a cohort that send to several units of another");
    }
    builder_.set_links(program_.link_capacity, program_.flow_rule);
    std::vector<Writers> writers(program_.cohorts.size());
    for (std::size_t c = 0; c < writers.size(); ++c) {
      writers[c].streams.assign(stream_count, nobody);
      writers[c].slots.assign(static_cast<std::size_t>(program_.cohorts[c].slots), nobody);
      writers[c].host = add_lanes(c);
      out_.host_start.push_back(writers[c].host);
    }
    for (int i = 0; i < options_.steps; ++i) {
      step_ = options_.first_step + static_cast<std::uint64_t>(i);
      out_.first.emplace_back(program_.cohorts.size());
      sends_.assign(program_.channels.size(), {});
      receives_.assign(program_.channels.size(), {});
      joins_.assign(program_.joins.size(), {});
      for (std::size_t j = 0; j < joins_.size(); ++j) joins_[j].resize(program_.joins[j].cohorts.size());
      for (std::size_t c = 0; c < writers.size(); ++c) expand_step(c, writers[c]);
      connect_messages();
      connect_joins();
    }
    auto graph = std::move(builder_).build();
    if (!graph) return graph.errors();
    out_.graph = *std::move(graph);
    return std::move(out_);
  }

 private:
  struct Member {
    std::uint32_t first;
    bool largest;
    const LinkUse* use;  // null: not on shared links
    PortTicks ports;
    std::uint64_t key;
  };

  [[nodiscard]] std::uint64_t key(std::size_t c, std::uint64_t unit, std::uint64_t ordinal) const {
    return flow_key(step_ - options_.first_step, static_cast<int>(c), unit, ordinal);
  }

  // One bundle a unit, or one in all when the group class spans units. rows_ are the instruction's.
  void share(std::size_t c, const Instruction& in, std::uint32_t op, std::uint64_t ordinal) {
    const Cohort& cohort = program_.cohorts[c];
    const LinkUse& use = cohort.uses[in.cost];
    const LinkPattern& pattern = program_.patterns[static_cast<std::size_t>(use.pattern)];
    const bool spans = in.op == Opcode::collective && !inside_units(cohort, cohort.groups[in.target]);
    const std::size_t units = spans ? 1 : static_cast<std::size_t>(cohort.units);
    std::vector<std::uint32_t> bundles;
    for (std::size_t u = 0; u < units; ++u) {
      FlowDemand demand;
      demand.follow(pattern, u);
      demand.rows_leave = use.rows_leave;
      bundles.push_back(builder_.add_bundle(key(c, spans ? whole_cohort : u, ordinal), demand));
      if (demand.cuttable() && in.load != none16 && !spans) builder_.set_volume(bundles.back(), volume(cohort, use, u));
    }
    for (std::uint32_t i = 0; i < lanes(c); ++i) {
      const std::size_t unit = units == 1 ? 0 : static_cast<std::size_t>(cohort.unit_of_lane[i]);
      builder_.set_bundle(op + i, bundles[unit]);
      builder_.raise_ports(bundles[unit], port_ticks(use, in.load == none16 ? nullptr : &rows_[i], 1));
    }
  }

  [[nodiscard]] std::vector<float> volume(const Cohort& cohort, const LinkUse& use, std::size_t unit) const {
    std::vector<float> rows;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (cohort.units == 1 || static_cast<std::size_t>(cohort.unit_of_lane[i]) == unit) rows.push_back(rows_[i]);
    }
    return lane_volumes(use, rows.data(), rows.size());
  }

  [[nodiscard]] std::size_t lanes(std::size_t c) const { return program_.cohorts[c].ranks.size(); }

  std::uint32_t add_lanes(std::size_t c) {
    const std::uint32_t first = builder_.add_op(0);
    for (std::size_t i = 1; i < lanes(c); ++i) builder_.add_op(0);
    return first;
  }

  // Host time lost at the step's begin: an op a lane between the host's last one and its next.
  void stall(std::size_t c, Writers& w) {
    if (conditions_.stall_by_rank.empty() || step_ != conditions_.stall_step) return;
    std::uint32_t first = nobody;
    for (const RankId rank : program_.cohorts[c].ranks) {
      const std::uint32_t op = builder_.add_op(conditions_.stall_by_rank[static_cast<std::size_t>(rank.value)]);
      if (first == nobody) first = op;
    }
    connect_lanes(c, w.host, first, w.host_add);
    w.host = first;
    w.host_add = 0;
  }

  void expand_step(std::size_t c, Writers& w) {
    const Cohort& cohort = program_.cohorts[c];
    w.host_add += cohort.step_host_ticks;
    stall(c, w);
    bool first = true;
    std::uint64_t ordinal = 0;
    for (const Call& call : cohort.calls) {
      for (const Instruction& in : cohort.bodies[call.body].instructions) {
        const int instance = (in.flags & flag_second_instance) != 0 ? call.second_instance : call.instance;
        const std::uint32_t op = add_ops(c, in, instance, ordinal);
        if (first) out_.first.back()[c] = op;
        first = false;
        depend(c, in, op, w);
        meet(c, in, op, ordinal);
        if ((in.flags & flag_shared) != 0 && (in.op == Opcode::collective || in.op == Opcode::send)) {
          share(c, in, op, ordinal);
        }
        ++ordinal;
      }
    }
  }

  // One op a lane, with its duration.
  std::uint32_t add_ops(std::size_t c, const Instruction& in, int instance, std::uint64_t ordinal) {
    const Cohort& cohort = program_.cohorts[c];
    rows_.assign(lanes(c), 0.0F);
    if (in.load != none16) conditions_.loads->rows(step_, in.load, static_cast<int>(c), instance, rows_);
    std::uint32_t first = nobody;
    for (std::size_t i = 0; i < lanes(c); ++i) {
      Ticks duration = 0;
      if (in.op == Opcode::host_sync) {
        duration = cohort.sync_ticks;
      } else if (in.op != Opcode::receive) {
        const RankId rank = cohort.ranks[i];
        const double slow = factor_of(conditions_.slow_by_rank, rank);
        const double link = factor_of(conditions_.link_slow_by_rank, rank);
        double noise = 1.0;
        if (conditions_.kernel_sigma > 0) {
          noise = noise_factor(noise_key(conditions_.seed, step_, rank), ordinal, conditions_.kernel_sigma);
        }
        duration = duration_ticks(cohort.costs[in.cost], static_cast<double>(rows_[i]), slow, noise, link);
      }
      const std::uint32_t op = builder_.add_op(duration);
      if (i == 0) first = op;
    }
    return first;
  }

  void connect_lanes(std::size_t c, std::uint32_t from, std::uint32_t to, Ticks delay = 0) {
    if (from == nobody) return;
    for (std::uint32_t i = 0; i < lanes(c); ++i) builder_.add_edge(from + i, to + i, delay);
  }

  void depend(std::size_t c, const Instruction& in, std::uint32_t op, Writers& w) {
    const bool sync = in.op == Opcode::host_sync;
    for (std::size_t s = 0; s < stream_count; ++s) {
      const bool own = !sync && s == static_cast<std::size_t>(in.stream);
      if (own || ((in.wait_streams >> s) & 1U) != 0) connect_lanes(c, w.streams[s], op);
    }
    if (in.wait_slot != none16) connect_lanes(c, w.slots[in.wait_slot], op);
    if (sync) {
      connect_lanes(c, w.host, op, w.host_add);
      w.host = op;
      w.host_add = 0;
    } else {
      if ((in.flags & flag_no_launch) == 0) {
        w.host_add += program_.cohorts[c].launch_ticks;
        connect_lanes(c, w.host, op, w.host_add);
      }
      w.streams[static_cast<std::size_t>(in.stream)] = op;
    }
    if (in.record_slot != none16) w.slots[in.record_slot] = op;
  }

  void meet(std::size_t c, const Instruction& in, std::uint32_t op, std::uint64_t ordinal) {
    const bool largest = (in.flags & flag_largest) != 0;
    if (in.op == Opcode::send) sends_[in.target].push_back(op);
    if (in.op == Opcode::receive) receives_[in.target].push_back(op);
    if (in.op == Opcode::collective) {
      const GroupClass& group = program_.cohorts[c].groups[in.target];
      const auto size = static_cast<std::size_t>(group.group_size);
      for (std::size_t i = 0; i < group.lanes.size(); ++i) {
        builder_.set_group(op + static_cast<std::uint32_t>(group.lanes[i]),
                           next_group_ + static_cast<std::uint32_t>(i / size), largest);
      }
      next_group_ += static_cast<std::uint32_t>(group.lanes.size() / size);
    }
    if (in.op == Opcode::join) {
      const auto& cohorts = program_.joins[in.target].cohorts;
      const auto member = std::find(cohorts.begin(), cohorts.end(), static_cast<std::int32_t>(c)) - cohorts.begin();
      const bool shared = (in.flags & flag_shared) != 0;
      const LinkUse* use = shared ? &program_.cohorts[c].uses[in.cost] : nullptr;
      const float* rows = in.load == none16 ? nullptr : rows_.data();
      joins_[in.target][static_cast<std::size_t>(member)].push_back(
          {op, largest, use, shared ? port_ticks(*use, rows, lanes(c)) : PortTicks{}, key(c, whole_cohort, ordinal)});
    }
  }

  void connect_messages() {
    for (std::size_t i = 0; i < sends_.size(); ++i) {
      const Channel& channel = program_.channels[i];
      for (std::size_t k = 0; k < sends_[i].size(); ++k) {
        for (std::uint32_t lane = 0; lane < lanes(static_cast<std::size_t>(channel.to)); ++lane) {
          const auto from = channel.from_lane.empty() ? lane : static_cast<std::uint32_t>(channel.from_lane[lane]);
          builder_.add_edge(sends_[i][k] + from, receives_[i][k] + lane, 0, true);
        }
      }
    }
  }

  void connect_joins() {
    for (std::size_t j = 0; j < joins_.size(); ++j) {
      const JoinClass& join = program_.joins[j];
      std::uint32_t groups = 1;
      for (const auto& group_of_lane : join.group_of_lane) {
        for (std::int32_t group : group_of_lane) groups = std::max(groups, static_cast<std::uint32_t>(group) + 1);
      }
      for (std::size_t k = 0; k < joins_[j][0].size(); ++k) {
        share_join(j, k);
        for (std::size_t m = 0; m < join.cohorts.size(); ++m) {
          const Member& member = joins_[j][m][k];
          for (std::uint32_t i = 0; i < lanes(static_cast<std::size_t>(join.cohorts[m])); ++i) {
            const auto group = join.group_of_lane.empty() ? 0U : static_cast<std::uint32_t>(join.group_of_lane[m][i]);
            builder_.set_group(member.first + i, next_group_ + group, member.largest);
          }
        }
        next_group_ += groups;
      }
    }
  }

  // Meeting k of the join as one flow, by the key and the way of its first member.
  void share_join(std::size_t j, std::size_t k) {
    const Member* first = nullptr;
    for (const auto& member : joins_[j]) {
      if (member[k].use != nullptr && (first == nullptr || member[k].key < first->key)) first = &member[k];
    }
    if (first == nullptr) return;
    FlowDemand demand;
    demand.follow(program_.patterns[static_cast<std::size_t>(first->use->pattern)], 0);
    const std::uint32_t bundle = builder_.add_bundle(first->key, demand);
    for (std::size_t m = 0; m < joins_[j].size(); ++m) {
      builder_.raise_ports(bundle, joins_[j][m][k].ports);
      for (std::uint32_t i = 0; i < lanes(static_cast<std::size_t>(program_.joins[j].cohorts[m])); ++i) {
        builder_.set_bundle(joins_[j][m][k].first + i, bundle);
      }
    }
  }

  const Program& program_;
  const Conditions& conditions_;
  const RunOptions& options_;
  std::uint64_t step_ = 0;
  OpGraphBuilder builder_;
  Expansion out_;
  std::vector<std::vector<std::uint32_t>> sends_, receives_;  // by channel: ops of lane 0, in this step
  std::vector<std::vector<std::vector<Member>>> joins_;       // by class and member
  std::vector<float> rows_;
  std::uint32_t next_group_ = 0;
};

}  // namespace

Result<Expansion> expand(const Program& program, const Conditions& conditions, const RunOptions& options) {
  return Expander(program, conditions, options).run();
}

}  // namespace stepcast::sim
