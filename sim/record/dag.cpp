// The op DAG of a timeline, for graphviz and for programs.

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/record/dependencies.h"
#include "sim/record/output_file.h"
#include "sim/record/trace.h"

namespace stepcast::sim {
namespace {

// Backslash escapes of JSON are those of a DOT string as well.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* track_of(const Instruction& in) { return in.op == Opcode::host_sync ? "host" : name(in.stream); }

// By op: whether the critical path passes through it. A hop carries its op's rank, name and end.
std::vector<bool> on_path(const Program& program, const Timeline& timeline, const std::vector<CriticalHop>& path) {
  std::set<std::tuple<RankId, Ticks, std::string>> hops;
  for (const CriticalHop& hop : path) hops.emplace(hop.rank, hop.end, hop.name);
  std::vector<bool> critical(timeline.ops.size(), false);
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    const TimelineOp& op = timeline.ops[i];
    critical[i] = op.end > op.begin && hops.count({op.rank, op.end, work_of(program, op).name}) > 0;
  }
  return critical;
}

class DagWriter {
 public:
  DagWriter(const Program& program, const Timeline& timeline, const std::vector<CriticalHop>& path)
      : program_(program),
        timeline_(timeline),
        critical_(on_path(program, timeline, path)),
        edges_(dependencies(program, timeline)) {}

  void json(OutputFile& file) const {
    file.write(
        fmt::format("{{\"schema\":\"stepcast.dag/1\",\"step\":{},\"step_begin_ps\":{},\"step_end_ps\":{},\n\"nodes\":[",
                    timeline_.step, timeline_.step_begin, timeline_.step_end));
    for (std::size_t i = 0; i < timeline_.ops.size(); ++i) {
      const TimelineOp& op = timeline_.ops[i];
      const Instruction& in = instruction_of(program_, op);
      const Work& work = work_of(program_, op);
      file.write(
          fmt::format("{}\n{{\"id\":{},\"rank\":{},\"op\":\"{}\",\"stream\":\"{}\",\"name\":{},\"category\":\"{}\","
                      "\"microbatch\":{},\"layer\":{},\"ready_ps\":{},\"begin_ps\":{},\"end_ps\":{},\"critical\":{}}}",
                      i == 0 ? "" : ",", i, op.rank.value, name(in.op), track_of(in), quoted(work.name),
                      name(work.category), op.instance, work.layer, op.ready, op.begin, op.end, critical_[i]));
    }
    file.write("],\n\"edges\":[");
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      file.write(fmt::format("{}\n{{\"from\":{},\"to\":{},\"kind\":\"{}\"}}", e == 0 ? "" : ",", edges_[e].from,
                             edges_[e].to, name(edges_[e].kind)));
    }
    file.write("]}\n");
  }

  void dot(OutputFile& file) const {
    file.write("digraph step {\nrankdir=LR;\nnode [shape=box, fontsize=9];\n");
    std::size_t i = 0;
    for (RankId rank : timeline_.ranks) {
      file.write(fmt::format("subgraph cluster_{0} {{\nlabel=\"rank {0}\";\n", rank.value));
      for (; i < timeline_.ops.size() && timeline_.ops[i].rank == rank; ++i) dot_node(file, i);
      file.write("}\n");
    }
    for (const Dependency& edge : edges_) {
      const bool between = edge.kind == Dependency::Kind::message || edge.kind == Dependency::Kind::group;
      const bool critical = critical_[edge.from] && critical_[edge.to];
      file.write(fmt::format("n{} -> n{} [{}{}];\n", edge.from, edge.to, between ? "style=dashed" : "style=solid",
                             critical ? ", color=red" : ""));
    }
    file.write("}\n");
  }

 private:
  void dot_node(OutputFile& file, std::size_t i) const {
    const TimelineOp& op = timeline_.ops[i];
    const std::string times = fmt::format("{:.3f} us at {:.3f}", 1e-6 * static_cast<double>(op.end - op.begin),
                                          1e-6 * static_cast<double>(op.begin - timeline_.step_begin));
    const std::string instance = op.instance >= 0 ? fmt::format(" mb {}", op.instance) : "";
    file.write(fmt::format("n{} [label={}{}];\n", i, quoted(work_of(program_, op).name + instance + "\n" + times),
                           critical_[i] ? ", color=red" : ""));
  }

  const Program& program_;
  const Timeline& timeline_;
  std::vector<bool> critical_;
  std::vector<Dependency> edges_;
};

}  // namespace

Status write_dag(const Program& program, const Timeline& timeline, const std::vector<CriticalHop>& critical_path,
                 const std::filesystem::path& file) {
  const std::filesystem::path bare = file.extension() == ".gz" ? file.stem() : file.filename();
  const bool dot = bare.extension() == ".dot";
  if (!dot && bare.extension() != ".json") {
    return make_error(ErrorCode::usage,
                      fmt::format("the op DAG is written as .dot or .json, not '{}'", bare.extension().string()),
                      file.string());
  }
  OutputFile out(file);
  const DagWriter writer(program, timeline, critical_path);
  dot ? writer.dot(out) : writer.json(out);
  return out.close();
}

}  // namespace stepcast::sim
