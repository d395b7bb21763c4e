#include "random_program.h"

#include <algorithm>
#include <numeric>
#include <string>

#include <fmt/core.h>

namespace stepcast::sim::testing {

void HashedLoads::rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const {
  const RngKey key = RngKey(seed_, step, Purpose::routing_fresh)
                         .with(static_cast<std::uint64_t>(load))
                         .with(static_cast<std::uint64_t>(cohort))
                         .with(static_cast<std::uint64_t>(instance));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t bits = key.with(i).bits;
    rows[i] = bits % 7 == 0 ? 0.0F : static_cast<float>(bits >> 52);
  }
}

namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, bool reordered) : draws_(seed), reordered_(reordered) {}

  Program run() {
    add_cohorts();
    add_channels();
    add_joins();
    program_.loads = 3;
    program_.memory_parts = {"activations"};
    scripts_.resize(program_.cohorts.size());
    const int length = 10 + draws_.below(50);
    for (int i = 0; i < length; ++i) draw_instruction();
    while (!open_.empty()) receive(0);
    if (reordered_) reorder();
    cut();
    return std::move(program_);
  }

 private:
  void add_cohorts() {
    static constexpr std::array<int, 9> sizes = {1, 2, 3, 5, 8, 12, 16, 24, 64};
    const int n = 1 + draws_.below(4);
    for (int c = 0; c < n; ++c) {
      Cohort cohort;
      cohort.name = fmt::format("stage {}", c);
      const int lanes = sizes[static_cast<std::size_t>(draws_.below(sizes.size()))];
      for (int i = 0; i < lanes; ++i) cohort.ranks.emplace_back(program_.ranks++);
      cohort.slots = draws_.below(6);
      if (draws_.chance(60)) cohort.launch_ticks = draws_.below(5000);
      if (draws_.chance(60)) cohort.sync_ticks = draws_.below(20000);
      if (draws_.chance(60)) cohort.step_host_ticks = draws_.below(100000);
      for (int i = 0; i < 6; ++i) {
        Cost cost;
        cost.base_ticks = draws_.chance(20) ? 0 : draws_.below(100000) + 0.25 * draws_.below(4);
        if (draws_.chance(40)) cost.per_row_ticks = draws_.below(100) / 7.0;
        if (draws_.chance(30)) cost.floor_ticks = draws_.below(60000);
        if (draws_.chance(3)) cost.base_ticks += 5e9;  // longer than the stored graph's short form
        cost.noise = draws_.chance(60) ? NoiseKind::kernel : NoiseKind::none;
        cohort.costs.push_back(cost);
      }
      cohort.works.resize(1);
      cohort.static_bytes = {0};
      add_groups(cohort);
      program_.cohorts.push_back(std::move(cohort));
    }
  }

  void add_groups(Cohort& cohort) {
    const int lanes = static_cast<int>(cohort.ranks.size());
    for (int i = 0; i < 4; ++i) {
      GroupClass group;
      group.name = fmt::format("groups {}", i);
      std::vector<int> divisors;
      for (int d = 1; d <= lanes; ++d) {
        if (lanes % d == 0) divisors.push_back(d);
      }
      group.group_size = divisors[static_cast<std::size_t>(draws_.below(static_cast<int>(divisors.size())))];
      group.lanes.resize(static_cast<std::size_t>(lanes));
      const int groups = lanes / group.group_size;
      std::iota(group.lanes.begin(), group.lanes.end(), 0);
      if (i == 1) {  // strided
        for (int l = 0; l < lanes; ++l) {
          group.lanes[static_cast<std::size_t>((l % groups) * group.group_size + l / groups)] = l;
        }
      } else if (i == 2) {  // any
        for (int l = lanes - 1; l > 0; --l) {
          std::swap(group.lanes[static_cast<std::size_t>(l)],
                    group.lanes[static_cast<std::size_t>(draws_.below(l + 1))]);
        }
      } else if (i == 3) {  // strided within contiguous halves, when that divides
        const int inner = draws_.chance(50) ? 2 : 4;
        if (groups % inner == 0) {
          const int block = inner * group.group_size;
          for (int l = 0; l < lanes; ++l) {
            const int in = l % block;
            const int g = (l / block) * inner + in % inner;
            group.lanes[static_cast<std::size_t>(g * group.group_size + in / inner)] = l;
          }
        }
      }
      cohort.groups.push_back(std::move(group));
    }
  }

  void add_channels() {
    const int n = draws_.below(5);
    const int cohorts = static_cast<int>(program_.cohorts.size());
    for (int i = 0; i < n; ++i) {
      Channel channel;
      channel.name = fmt::format("channel {}", i);
      channel.from = draws_.below(cohorts);
      channel.to = draws_.below(cohorts);
      const int from = lanes(channel.from);
      const int to = lanes(channel.to);
      if (from != to || draws_.chance(30)) {
        for (int l = 0; l < to; ++l) channel.from_lane.push_back(draws_.below(from));
      }
      program_.channels.push_back(std::move(channel));
    }
  }

  void add_joins() {
    const int n = draws_.below(3);
    for (int i = 0; i < n; ++i) {
      JoinClass join;
      join.name = fmt::format("join {}", i);
      for (std::size_t c = 0; c < program_.cohorts.size(); ++c) {
        if (draws_.chance(60)) join.cohorts.push_back(static_cast<std::int32_t>(c));
      }
      if (join.cohorts.empty()) join.cohorts.push_back(0);
      if (draws_.chance(70)) {
        // A group that lacks a cohort could go ahead without it; lockstep, which meets cohort by cohort, would not.
        int most = reordered_ ? 4 : std::min(4, program_.ranks);
        for (std::int32_t c : join.cohorts) most = reordered_ ? std::min(most, lanes(c)) : most;
        const int groups = 1 + draws_.below(most);
        for (std::int32_t c : join.cohorts) {
          auto& of_lane = join.group_of_lane.emplace_back();
          for (int l = 0; l < lanes(c); ++l) of_lane.push_back(reordered_ && l < groups ? l : draws_.below(groups));
        }
      }
      program_.joins.push_back(std::move(join));
    }
  }

  [[nodiscard]] int lanes(std::int32_t cohort) const {
    return static_cast<int>(program_.cohorts[static_cast<std::size_t>(cohort)].ranks.size());
  }

  Instruction draw(int cohort, Opcode op) {
    const Cohort& c = program_.cohorts[static_cast<std::size_t>(cohort)];
    Instruction in;
    in.op = op;
    in.stream = static_cast<Stream>(draws_.chance(60) ? 0 : draws_.below(stream_count));
    if (draws_.chance(40)) in.wait_streams = static_cast<std::uint8_t>(1U << static_cast<unsigned>(draws_.below(8)));
    if (draws_.chance(15)) in.wait_streams = static_cast<std::uint8_t>(draws_.below(256));
    if (draws_.chance(20)) in.flags |= flag_no_launch;
    if (draws_.chance(50)) in.flags |= flag_largest;
    if (draws_.chance(20)) in.flags |= flag_second_instance;
    if (c.slots > 0 && draws_.chance(25)) in.wait_slot = static_cast<std::uint16_t>(draws_.below(c.slots));
    if (c.slots > 0 && draws_.chance(25)) in.record_slot = static_cast<std::uint16_t>(draws_.below(c.slots));
    in.cost = static_cast<std::uint16_t>(draws_.below(static_cast<int>(c.costs.size())));
    if (draws_.chance(30)) in.load = static_cast<std::uint16_t>(draws_.below(program_.loads));
    return in;
  }

  void draw_instruction() {
    const int cohorts = static_cast<int>(program_.cohorts.size());
    const int cohort = draws_.below(cohorts);
    auto& script = scripts_[static_cast<std::size_t>(cohort)];
    const int kind = draws_.below(100);
    if (kind < 10) {
      script.push_back(draw(cohort, Opcode::host_sync));
    } else if (kind < 30) {
      Instruction in = draw(cohort, Opcode::collective);
      in.target = static_cast<std::uint16_t>(draws_.below(4));
      script.push_back(in);
    } else if (kind < 45 && !program_.channels.empty()) {
      const int i = draws_.below(static_cast<int>(program_.channels.size()));
      const Channel& channel = program_.channels[static_cast<std::size_t>(i)];
      Instruction in = draw(channel.from, Opcode::send);
      in.target = static_cast<std::uint16_t>(i);
      scripts_[static_cast<std::size_t>(channel.from)].push_back(in);
      open_.push_back(i);
    } else if (kind < 60 && !open_.empty()) {
      receive(static_cast<std::size_t>(draws_.below(static_cast<int>(open_.size()))));
    } else if (kind < 66 && !program_.joins.empty()) {
      const int i = draws_.below(static_cast<int>(program_.joins.size()));
      for (std::int32_t c : program_.joins[static_cast<std::size_t>(i)].cohorts) {
        Instruction in = draw(c, Opcode::join);
        in.target = static_cast<std::uint16_t>(i);
        scripts_[static_cast<std::size_t>(c)].push_back(in);
      }
    } else {
      script.push_back(draw(cohort, Opcode::compute));
    }
  }

  void receive(std::size_t which) {
    const int i = open_[which];
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    const std::int32_t to = program_.channels[static_cast<std::size_t>(i)].to;
    Instruction in = draw(to, Opcode::receive);
    in.target = static_cast<std::uint16_t>(i);
    scripts_[static_cast<std::size_t>(to)].push_back(in);
  }

  // Receives and joins move forward past a few others, as prefetched communication does.
  void reorder() {
    for (auto& script : scripts_) {
      for (std::size_t i = 1; i < script.size(); ++i) {
        if (script[i].op != Opcode::receive && script[i].op != Opcode::join) continue;
        script[i].wait_streams = 0;
        script[i].wait_slot = none16;
        if (draws_.chance(70)) {
          script[i].stream = script[i].op == Opcode::receive ? Stream::pp_receive : Stream::dp;
        }
        int moves = draws_.below(8);
        for (std::size_t at = i; at > 0 && moves > 0; --at, --moves) {
          const bool same = script[at].op == script[at - 1].op && script[at].target == script[at - 1].target;
          if (same) break;
          std::swap(script[at], script[at - 1]);
        }
      }
    }
  }

  // Scripts become bodies; the whole is called several times.
  void cut() {
    const int rounds = 1 + draws_.below(4);
    for (std::size_t c = 0; c < scripts_.size(); ++c) {
      Cohort& cohort = program_.cohorts[c];
      std::size_t at = 0;
      while (at < scripts_[c].size()) {
        const std::size_t n = std::min(scripts_[c].size() - at, static_cast<std::size_t>(1 + draws_.below(12)));
        Body body;
        body.name = fmt::format("body {}", cohort.bodies.size());
        body.instructions.assign(scripts_[c].begin() + static_cast<std::ptrdiff_t>(at),
                                 scripts_[c].begin() + static_cast<std::ptrdiff_t>(at + n));
        cohort.bodies.push_back(std::move(body));
        at += n;
      }
      for (int r = 0; r < rounds; ++r) {
        for (std::size_t b = 0; b < cohort.bodies.size(); ++b) {
          cohort.calls.push_back({static_cast<std::uint16_t>(b), r, (r + 1) % rounds});
        }
      }
    }
  }

  Draws draws_;
  bool reordered_;
  Program program_;
  std::vector<std::vector<Instruction>> scripts_;
  std::vector<int> open_;  // channels with messages not yet received
};

}  // namespace

Program random_program(std::uint64_t seed, bool reordered) { return Generator(seed, reordered).run(); }

void KeepingSink::on_instruction(const InstructionEvent& event) {
  const auto copy = [](auto span) { return std::vector(span.begin(), span.end()); };
  Seen s;
  s.event = event;
  s.host = copy(event.host);
  s.ready = copy(event.ready);
  s.begin = copy(event.begin);
  s.end = copy(event.end);
  s.rows.assign(event.rows.begin(), event.rows.end());
  seen.push_back(std::move(s));
}

void KeepingSink::on_step_end(std::uint64_t, int, std::span<const Ticks> end) {
  step_ends.emplace_back(end.begin(), end.end());
}

std::string first_difference(const KeepingSink& a, const KeepingSink& b) {
  if (a.seen.size() != b.seen.size()) return fmt::format("{} and {} events", a.seen.size(), b.seen.size());
  for (std::size_t i = 0; i < a.seen.size(); ++i) {
    const Seen& x = a.seen[i];
    const Seen& y = b.seen[i];
    const bool same_place = x.event.step == y.event.step && x.event.cohort == y.event.cohort &&
                            x.event.call == y.event.call && x.event.pc == y.event.pc &&
                            x.event.ordinal == y.event.ordinal && x.event.instruction == y.event.instruction &&
                            x.event.instance == y.event.instance && x.event.work == y.event.work;
    const char* what = nullptr;
    if (!same_place)
      what = "place";
    else if (x.host != y.host)
      what = "host";
    else if (x.ready != y.ready)
      what = "ready";
    else if (x.begin != y.begin)
      what = "begin";
    else if (x.end != y.end)
      what = "end";
    else if (x.rows != y.rows)
      what = "rows";
    if (what == nullptr) continue;
    return fmt::format("{} of cohort {} call {} pc {} ({})", what, x.event.cohort, x.event.call, x.event.pc,
                       name(x.event.instruction->op));
  }
  return a.step_ends == b.step_ends ? "" : "step ends";
}

}  // namespace stepcast::sim::testing
