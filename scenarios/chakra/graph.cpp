#include "scenarios/chakra/graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>

namespace stepcast::scenarios::chakra {
namespace {

using ChakraProtoMsg::Node;
using sim::Instruction;
using sim::Meeting;
using sim::Opcode;
using sim::TimelineOp;
using sim::Work;

constexpr Ticks ticks_per_micro = 1000000;

struct Named {
  std::string_view name;
  ChakraProtoMsg::CollectiveCommType type;
};
// By Work::collective. "send_receive" of a group is a ring hop: a send and a receive.
constexpr std::array<Named, 7> collective_types = {{{"all_reduce", ChakraProtoMsg::ALL_REDUCE},
                                                    {"all_gather", ChakraProtoMsg::ALL_GATHER},
                                                    {"reduce_scatter", ChakraProtoMsg::REDUCE_SCATTER},
                                                    {"all_to_all", ChakraProtoMsg::ALL_TO_ALL},
                                                    {"dispatch", ChakraProtoMsg::ALL_TO_ALL},
                                                    {"combine", ChakraProtoMsg::ALL_TO_ALL},
                                                    {"broadcast", ChakraProtoMsg::BROADCAST}}};

ChakraProtoMsg::CollectiveCommType collective_type(const std::string& collective) {
  const auto* found = std::find_if(collective_types.begin(), collective_types.end(),
                                   [&](const Named& n) { return n.name == collective; });
  STEPCAST_ASSERT(found != collective_types.end());
  return found->type;
}

ChakraProtoMsg::AttributeProto& attribute(Node& node, const char* name) {
  ChakraProtoMsg::AttributeProto& added = *node.add_attr();
  added.set_name(name);
  return added;
}

// Bytes of each message, by channel and execution: a receive moves what its send says.
std::vector<std::vector<double>> message_bytes(const sim::Program& program) {
  std::vector<std::vector<double>> bytes(program.channels.size());
  for (const sim::Cohort& cohort : program.cohorts) {
    for (const sim::Call& call : cohort.calls) {
      for (const Instruction& in : cohort.bodies[call.body].instructions) {
        if (in.op == Opcode::send) bytes[in.target].push_back(cohort.works[in.work].payload_bytes);
      }
    }
  }
  return bytes;
}

bool is_ring_hop(const Instruction& in, const Work& work) {
  return in.op == Opcode::collective && work.collective == "send_receive";
}

}  // namespace

Graph::Graph(const sim::Program& program, const sim::Timeline& timeline)
    : program_(program),
      timeline_(timeline),
      dependencies_(sim::dependencies(program, timeline)),
      meetings_(sim::meetings(program, timeline)) {
  origin_ = timeline.step_begin;
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    const TimelineOp& op = timeline.ops[i];
    if (i == 0 || op.rank != timeline.ops[i - 1].rank) first_op_.push_back(i);
    const sim::Cohort& cohort = program.cohorts[static_cast<std::size_t>(op.cohort)];
    const bool issued =
        (sim::instruction_of(program, op).flags & sim::flag_no_launch) == 0;  // the once-a-step work comes before
    origin_ = std::min({origin_, op.begin, issued ? op.host - cohort.launch_ticks - cohort.step_host_ticks : op.begin});
  }
  first_op_.push_back(timeline.ops.size());
  find_groups();
  find_sizes();
}

// A communicator is a kind of group and its members: two kinds with the same members order their calls apart.
void Graph::find_groups() {
  using Key = std::tuple<Meeting::Kind, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Key, int> of_meeting;
  std::map<std::pair<std::string, std::vector<RankId>>, int> known;
  group_of_op_.assign(meetings_.size(), 0);
  for (std::size_t i = 0; i < meetings_.size(); ++i) {
    const Meeting& m = meetings_[i];
    if (m.kind != Meeting::Kind::collective && m.kind != Meeting::Kind::join) continue;
    const TimelineOp& op = timeline_.ops[i];
    if (is_ring_hop(sim::instruction_of(program_, op), sim::work_of(program_, op))) continue;
    const Key key{m.kind, m.cohort, m.target, m.group};
    auto found = of_meeting.find(key);
    if (found == of_meeting.end()) {
      const bool join = m.kind == Meeting::Kind::join;
      std::string name = join ? program_.joins[m.target].name : program_.cohorts[m.cohort].groups[m.target].name;
      std::vector<RankId> ranks = sim::members(program_, m);
      std::sort(ranks.begin(), ranks.end());
      const auto [place, added] = known.try_emplace({name, ranks}, static_cast<int>(groups_.size()) + 1);
      if (added) groups_.push_back({std::move(name), std::move(ranks)});
      found = of_meeting.emplace(key, place->second).first;
    }
    group_of_op_[i] = found->second;
  }
}

// ASTRA-sim counts a collective's size as the input buffer of a rank, nccl-tests (and Work) an all-gather's as its
// output; and it wants one size of all members, so that it is the mean of those that are here.
void Graph::find_sizes() {
  std::map<Meeting, std::pair<double, int>> sums;
  std::vector<double> own(meetings_.size(), 0);
  const std::vector<std::vector<double>> messages = message_bytes(program_);
  for (std::size_t i = 0; i < meetings_.size(); ++i) {
    const Meeting& m = meetings_[i];
    if (m.kind == Meeting::Kind::none) continue;
    const TimelineOp& op = timeline_.ops[i];
    own[i] = m.kind == Meeting::Kind::message ? messages[m.target][m.execution] : payload(op);
    if (group_of_op_[i] == 0) continue;
    if (sim::work_of(program_, op).collective == "all_gather") {
      own[i] /= static_cast<double>(groups_[static_cast<std::size_t>(group_of_op_[i] - 1)].ranks.size());
    }
    auto& [sum, count] = sums[meetings_[i]];
    sum += own[i];
    ++count;
  }
  comm_size_.assign(meetings_.size(), 0);
  for (std::size_t i = 0; i < meetings_.size(); ++i) {
    double size = own[i];
    if (group_of_op_[i] != 0) {
      const auto& [sum, count] = sums.at(meetings_[i]);
      size = sum / count;
      unequal_sizes_ = unequal_sizes_ || std::llround(size) != std::llround(own[i]);
    }
    comm_size_[i] = std::llround(size);
  }
}

double Graph::payload(const TimelineOp& op) const {
  const Work& work = sim::work_of(program_, op);
  return work.payload_bytes + work.payload_per_row * static_cast<double>(op.rows);
}

class Graph::Builder {
 public:
  Builder(const Graph& graph, std::size_t index)
      : graph_(graph), first_(graph.first_op_[index]), last_(graph.first_op_[index + 1]), ends_(last_ - first_) {
    const auto before = [](const sim::Dependency& d, std::size_t op) { return d.to < op; };
    dependency_ = std::lower_bound(graph.dependencies_.begin(), graph.dependencies_.end(), first_, before);
  }

  std::vector<Node> run() {
    for (std::size_t i = first_; i < last_; ++i) op_nodes(i);
    return std::move(nodes_);
  }

 private:
  // Nodes that end when the op ends: two of a ring hop.
  struct Ends {
    std::uint64_t id = 0, second = 0;
  };

  Node& add(const std::string& name, ChakraProtoMsg::NodeType type, Ticks begin, Ticks end, bool on_host) {
    Node& node = nodes_.emplace_back();
    node.set_id(nodes_.size());
    node.set_name(name);
    node.set_type(type);
    // Rounded at both ends, so that what follows each other without a gap still does.
    node.set_start_time_micros(micros(begin));
    node.set_duration_micros(micros(end) - micros(begin));
    attribute(node, "is_cpu_op").set_bool_val(on_host);
    attribute(node, "begin_ps").set_int64_val(begin - graph_.origin_);
    attribute(node, "end_ps").set_int64_val(end - graph_.origin_);
    return node;
  }
  [[nodiscard]] std::uint64_t micros(Ticks t) const {
    return static_cast<std::uint64_t>((t - graph_.origin_ + ticks_per_micro / 2) / ticks_per_micro);
  }

  void host_node(const std::string& name, Ticks begin, Ticks end) {
    Node& node = add(name, ChakraProtoMsg::COMP_NODE, begin, end, true);
    if (host_ != 0) node.add_data_deps(host_);
    host_ = node.id();
  }

  void op_nodes(std::size_t i) {
    const TimelineOp& op = graph_.timeline_.ops[i];
    const Instruction& in = sim::instruction_of(graph_.program_, op);
    const Work& work = sim::work_of(graph_.program_, op);
    const sim::Cohort& cohort = graph_.program_.cohorts[static_cast<std::size_t>(op.cohort)];
    const bool sync = in.op == Opcode::host_sync;
    const bool issued = !sync && (in.flags & sim::flag_no_launch) == 0;
    const Ticks launch = issued ? cohort.launch_ticks : 0;
    if ((sync || issued) && !host_began_) {
      host_began_ = true;
      if (cohort.step_host_ticks > 0) {
        host_node("data, logging", op.host - launch - cohort.step_host_ticks, op.host - launch);
      }
    }
    if (launch > 0) host_node("issue " + work.name, op.host - launch, op.host);
    std::vector<std::uint64_t> waits = waits_of(i);
    if ((sync || issued) && host_ != 0) waits.push_back(host_);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());

    const std::size_t first = nodes_.size();
    switch (in.op) {
      case Opcode::compute: {
        Node& node = add(work.name, ChakraProtoMsg::COMP_NODE, op.begin, op.end, false);
        const double flops = work.executed_flops + work.flops_per_row * static_cast<double>(op.rows);
        attribute(node, "num_ops").set_int64_val(std::llround(flops));
        break;
      }
      case Opcode::host_sync:
        host_ = add(work.name, ChakraProtoMsg::COMP_NODE, op.begin, op.end, true).id();
        break;
      case Opcode::send:
      case Opcode::receive: {
        const std::vector<RankId> ends = sim::members(graph_.program_, graph_.meetings_[i]);
        const auto tag = graph_.meetings_[i].execution * graph_.program_.channels.size() + in.target;
        message(work.name, in.op == Opcode::send, i, ends.front(), ends.back(), 2 * tag);
        break;
      }
      case Opcode::collective:
      case Opcode::join:
        is_ring_hop(in, work) ? ring_hop(i, work) : collective(i, work);
        break;
    }
    for (std::size_t n = first; n < nodes_.size(); ++n) {
      for (const std::uint64_t wait : waits) nodes_[n].add_data_deps(wait);
      describe(nodes_[n], i);
    }
    ends_[i - first_] = {nodes_[first].id(), nodes_.size() > first + 1 ? nodes_[first + 1].id() : 0};
  }

  // Within the rank; what the host says is added by its own nodes, and other ranks are met by tag and group.
  std::vector<std::uint64_t> waits_of(std::size_t i) {
    std::vector<std::uint64_t> waits;
    for (; dependency_ != graph_.dependencies_.end() && dependency_->to == i; ++dependency_) {
      if (dependency_->kind != sim::Dependency::Kind::stream && dependency_->kind != sim::Dependency::Kind::wait) {
        continue;
      }
      const Ends& ends = ends_[dependency_->from - first_];
      waits.push_back(ends.id);
      if (ends.second != 0) waits.push_back(ends.second);
    }
    return waits;
  }

  void message(const std::string& name, bool sends, std::size_t i, RankId from, RankId to, std::uint64_t tag) {
    const TimelineOp& op = graph_.timeline_.ops[i];
    const auto type = sends ? ChakraProtoMsg::COMM_SEND_NODE : ChakraProtoMsg::COMM_RECV_NODE;
    Node& node = add(name, type, op.begin, op.end, false);
    attribute(node, "comm_size").set_int64_val(graph_.comm_size_[i]);
    attribute(node, "comm_src").set_int32_val(from.value);
    attribute(node, "comm_dst").set_int32_val(to.value);
    attribute(node, "comm_tag").set_int32_val(static_cast<std::int32_t>(tag));
  }

  void ring_hop(std::size_t i, const Work& work) {
    const std::vector<RankId> ranks = sim::members(graph_.program_, graph_.meetings_[i]);
    const RankId own = graph_.timeline_.ops[i].rank;
    const auto at = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), own) - ranks.begin());
    const std::uint64_t tag = 2 * graph_.meetings_[i].execution + 1;
    message(work.name, true, i, own, ranks[(at + 1) % ranks.size()], tag);
    message(work.name, false, i, ranks[(at + ranks.size() - 1) % ranks.size()], own, tag);
  }

  void collective(std::size_t i, const Work& work) {
    const TimelineOp& op = graph_.timeline_.ops[i];
    Node& node = add(work.name, ChakraProtoMsg::COMM_COLL_NODE, op.begin, op.end, false);
    attribute(node, "comm_type").set_int64_val(collective_type(work.collective));
    attribute(node, "comm_size").set_int64_val(graph_.comm_size_[i]);
    attribute(node, "pg_name").set_string_val(std::to_string(graph_.group_of_op_[i]));
    attribute(node, "group").set_string_val(graph_.groups_[static_cast<std::size_t>(graph_.group_of_op_[i] - 1)].name);
    attribute(node, "collective").set_string_val(work.collective);
  }

  void describe(Node& node, std::size_t i) const {
    const TimelineOp& op = graph_.timeline_.ops[i];
    const Instruction& in = sim::instruction_of(graph_.program_, op);
    const Work& work = sim::work_of(graph_.program_, op);
    attribute(node, "ready_ps").set_int64_val(op.ready - graph_.origin_);
    attribute(node, "stream").set_string_val(in.op == Opcode::host_sync ? "host" : sim::name(in.stream));
    if (in.op == Opcode::compute) attribute(node, "category").set_string_val(sim::name(work.category));
    if (in.op != Opcode::compute && in.op != Opcode::host_sync) {
      attribute(node, "payload_bytes").set_int64_val(std::llround(graph_.payload(op)));
    }
    if (op.instance >= 0) attribute(node, "microbatch").set_int64_val(op.instance);
    if (work.layer >= 0) attribute(node, "layer").set_int64_val(work.layer);
    if (in.load != sim::none16) attribute(node, "rows").set_int64_val(std::llround(op.rows));
  }

  const Graph& graph_;
  std::size_t first_, last_;
  std::vector<Ends> ends_;  // by op of the rank
  std::vector<sim::Dependency>::const_iterator dependency_;
  std::vector<Node> nodes_;
  std::uint64_t host_ = 0;  // the host's last node
  bool host_began_ = false;
};

std::vector<Node> Graph::nodes(std::size_t index) const { return Builder(*this, index).run(); }

}  // namespace stepcast::scenarios::chakra
