// Chakra traces parsed back with the schema: what they say is what the engine recorded, and enough to compute it again.
#include "scenarios/chakra/chakra.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

#include <et_def.pb.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <catch2/catch.hpp>

#include "parallelism/lower.h"
#include "sim/record/dependencies.h"
#include "sim/record/meetings.h"
#include "tests/scenarios/load.h"

using namespace stepcast;
using namespace stepcast::scenarios;

namespace {

struct Recorded {
  parallelism::LoweredStep lowered;
  sim::Timeline timeline;
};

// Step 0 begins with nothing before it, so that a graph of it is whole.
Recorded recorded(const std::string& text, std::vector<int> ranks = {}, std::uint64_t step = 0) {
  const Scenario scenario = loaded(text);
  auto lowered = parallelism::lower(scenario.spec);
  REQUIRE(lowered.ok());
  sim::Conditions conditions;
  const auto slow = lowered->slow_factors(scenario.spec, 0);
  conditions.seed = scenario.spec.seed;
  conditions.slow_by_rank = slow;
  conditions.loads = lowered->routing.get();
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(lowered->program.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::vector<RankId> ids;
  for (const int rank : ranks) ids.emplace_back(rank);
  sim::RecordOptions options;
  options.step = step;
  auto timeline = sim::record_timeline(lowered->program, conditions, options, ids);
  REQUIRE(timeline.ok());
  return {std::move(*lowered), std::move(*timeline)};
}

struct Parsed {
  ChakraProtoMsg::GlobalMetadata metadata;
  std::vector<ChakraProtoMsg::Node> nodes;
};

Parsed parsed(std::istream& in) {
  google::protobuf::io::IstreamInputStream stream(&in);
  Parsed file;
  bool ended = false;
  REQUIRE(google::protobuf::util::ParseDelimitedFromZeroCopyStream(&file.metadata, &stream, &ended));
  for (;;) {
    ChakraProtoMsg::Node node;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&node, &stream, &ended)) break;
    file.nodes.push_back(std::move(node));
  }
  CHECK(ended);  // and not in the middle of a message
  return file;
}

Parsed parsed(const std::string& bytes) {
  std::istringstream in(bytes);
  return parsed(in);
}

const ChakraProtoMsg::AttributeProto* attribute(const ChakraProtoMsg::Node& node, const std::string& name) {
  for (const auto& attr : node.attr()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}
std::int64_t integer(const ChakraProtoMsg::Node& node, const std::string& name) {
  const auto* found = attribute(node, name);
  CAPTURE(node.name(), name);
  REQUIRE(found != nullptr);
  if (found->value_case() == ChakraProtoMsg::AttributeProto::kInt32Val) return found->int32_val();
  REQUIRE(found->value_case() == ChakraProtoMsg::AttributeProto::kInt64Val);
  return found->int64_val();
}
std::string text(const ChakraProtoMsg::Node& node, const std::string& name) {
  const auto* found = attribute(node, name);
  REQUIRE(found != nullptr);
  return found->string_val();
}
bool on_host(const ChakraProtoMsg::Node& node) { return attribute(node, "is_cpu_op")->bool_val(); }

// Nodes of the engine's ops, in its order: without what only the host does, and the receive of a ring hop's pair.
std::vector<std::size_t> nodes_of_ops(const Parsed& file) {
  std::vector<std::size_t> of_op;
  for (std::size_t n = 0; n < file.nodes.size(); ++n) {
    if (attribute(file.nodes[n], "ready_ps") == nullptr) continue;  // "issue ...", "data, logging"
    const bool second = n > 0 && file.nodes[n].type() == ChakraProtoMsg::COMM_RECV_NODE &&
                        file.nodes[n - 1].name() == file.nodes[n].name() &&
                        file.nodes[n - 1].type() == ChakraProtoMsg::COMM_SEND_NODE;
    if (!second) of_op.push_back(n);
  }
  return of_op;
}

// One rank's file against the record: ops in order with their times, and the dependencies within the rank.
void check_against_record(const Recorded& r, const chakra::Traces& traces) {
  const auto edges = sim::dependencies(r.lowered.program, r.timeline);
  const auto meet = sim::meetings(r.lowered.program, r.timeline);
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < r.timeline.ranks.size(); ++rank) {
    const Parsed file = parsed(traces.text(rank));
    const std::vector<std::size_t> of_op = nodes_of_ops(file);
    std::size_t last = first;
    while (last < r.timeline.ops.size() && r.timeline.ops[last].rank == r.timeline.ranks[rank]) ++last;
    REQUIRE(of_op.size() == last - first);
    const Ticks origin = r.timeline.ops[first].begin - integer(file.nodes[of_op.front()], "begin_ps");
    std::vector<std::set<std::uint64_t>> expected(last - first);
    for (const sim::Dependency& edge : edges) {
      if (edge.to < first || edge.to >= last) continue;
      using Kind = sim::Dependency::Kind;
      if (edge.kind == Kind::stream || edge.kind == Kind::wait) {
        const std::size_t n = of_op[edge.from - first];
        expected[edge.to - first].insert(file.nodes[n].id());
        const bool pair = n + 1 < file.nodes.size() && attribute(file.nodes[n + 1], "ready_ps") != nullptr &&
                          std::find(of_op.begin(), of_op.end(), n + 1) == of_op.end();
        if (pair) expected[edge.to - first].insert(file.nodes[n + 1].id());
      }
    }
    int wrong = 0;
    for (std::size_t i = first; i < last; ++i) {
      const sim::TimelineOp& op = r.timeline.ops[i];
      const ChakraProtoMsg::Node& node = file.nodes[of_op[i - first]];
      const sim::Work& work = sim::work_of(r.lowered.program, op);
      std::set<std::uint64_t> found;
      for (const std::uint64_t id : node.data_deps()) {
        const bool host = on_host(file.nodes[id - 1]);
        if (!host || expected[i - first].count(id) > 0) found.insert(id);
      }
      wrong += found != expected[i - first];
      wrong += node.name() != work.name;
      wrong += integer(node, "begin_ps") != op.begin - origin || integer(node, "end_ps") != op.end - origin;
      wrong +=
          std::abs(static_cast<double>(node.duration_micros()) - 1e-6 * static_cast<double>(op.end - op.begin)) > 1;
      if (meet[i].kind != sim::Meeting::Kind::none) {
        const double bytes = work.payload_bytes + work.payload_per_row * static_cast<double>(op.rows);
        wrong += integer(node, "payload_bytes") != std::llround(bytes);
      } else if (!on_host(node)) {
        const double flops = work.executed_flops + work.flops_per_row * static_cast<double>(op.rows);
        wrong += integer(node, "num_ops") != std::llround(flops);
      }
    }
    CAPTURE(rank);
    CHECK(wrong == 0);
    first = last;
  }
}

// Times of all nodes from the files alone: edges, groups by name and order, messages by tag.
void check_evaluation(const std::vector<Parsed>& files) {
  using Place = std::pair<std::size_t, std::size_t>;  // file, node
  std::map<std::pair<std::string, int>, std::vector<Place>> collectives;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::pair<Place, Place>> messages;
  std::map<Place, std::pair<std::string, int>> group_of;
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::map<std::string, int> calls;
    for (std::size_t n = 0; n < files[f].nodes.size(); ++n) {
      const auto& node = files[f].nodes[n];
      if (node.type() == ChakraProtoMsg::COMM_COLL_NODE) {
        const std::string group = text(node, "pg_name");
        const std::pair<std::string, int> key{group, calls[group]++};
        collectives[key].push_back({f, n});
        group_of[{f, n}] = key;
      } else if (node.type() == ChakraProtoMsg::COMM_SEND_NODE || node.type() == ChakraProtoMsg::COMM_RECV_NODE) {
        auto& ends = messages[{integer(node, "comm_src"), integer(node, "comm_dst"), integer(node, "comm_tag")}];
        (node.type() == ChakraProtoMsg::COMM_SEND_NODE ? ends.first : ends.second) = {f, n};
      }
    }
  }
  std::vector<std::vector<Ticks>> ready(files.size()), end(files.size());
  std::vector<std::size_t> next(files.size(), 0);
  for (std::size_t f = 0; f < files.size(); ++f) {
    ready[f].assign(files[f].nodes.size(), -1);
    end[f].assign(files[f].nodes.size(), -1);
  }
  const auto length = [&](Place p) {
    const auto& node = files[p.first].nodes[p.second];
    return integer(node, "end_ps") - integer(node, "begin_ps");
  };
  int wrong = 0, done = 0, all = 0;
  for (const Parsed& file : files) all += static_cast<int>(file.nodes.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t f = 0; f < files.size(); ++f) {
      for (std::size_t n = 0; n < files[f].nodes.size(); ++n) {
        const auto& node = files[f].nodes[n];
        if (end[f][n] >= 0) continue;
        Ticks at = 0;
        bool known = true;
        for (const std::uint64_t id : node.data_deps()) {
          known = known && end[f][id - 1] >= 0;
          at = std::max(at, end[f][id - 1]);
        }
        if (!known) continue;
        ready[f][n] = at;
        Ticks begin = at, until = 0;
        if (node.type() == ChakraProtoMsg::COMM_COLL_NODE) {
          bool here = true;
          for (const auto& [g, m] : collectives.at(group_of.at({f, n}))) {
            here = here && ready[g][m] >= 0;
            begin = std::max(begin, ready[g][m]);
          }
          if (!here) continue;
          until = begin + length({f, n});
        } else if (node.type() == ChakraProtoMsg::COMM_RECV_NODE) {
          const auto& [sent, received] =
              messages.at({integer(node, "comm_src"), integer(node, "comm_dst"), integer(node, "comm_tag")});
          if (end[sent.first][sent.second] < 0) continue;
          until = std::max(at, end[sent.first][sent.second]);
        } else {
          until = begin + length({f, n});
        }
        end[f][n] = until;
        wrong += begin != integer(node, "begin_ps") || until != integer(node, "end_ps");
        ++done;
        moved = true;
      }
    }
  }
  CHECK(done == all);
  CHECK(wrong == 0);
}

void check_ids(const Parsed& file) {
  int wrong = 0;
  for (std::size_t n = 0; n < file.nodes.size(); ++n) {
    wrong += file.nodes[n].id() != n + 1;
    std::set<std::uint64_t> seen;
    for (const std::uint64_t id : file.nodes[n].data_deps()) wrong += id == 0 || id > n || !seen.insert(id).second;
  }
  CHECK(wrong == 0);
}

const std::string pipeline = R"({"model": {"name": "mixtral-8x7b", "layers": 4}, "cluster": "h100:16",
    "parallelism": {"tp": 2, "pp": 2, "ep": 4, "sharding": "zero1"}, "routing": {"skew": "zipf:0.5"},
    "workload": {"sequence_length": 2048, "global_batch": 16, "micro_batch": 1}, "noise": {"device_sigma": 0.02},
    "software": "megatron-core-2024"})";

}  // namespace

TEST_CASE("chakra: files parse with the schema and say what the engine recorded") {
  const Recorded r = recorded(pipeline);
  const chakra::Traces traces(r.lowered.program, r.timeline, "test");
  std::vector<Parsed> files;
  std::int64_t bytes = 0;
  for (std::size_t rank = 0; rank < 16; ++rank) {
    const std::string text = traces.text(rank);
    bytes += static_cast<std::int64_t>(text.size());
    files.push_back(parsed(text));
    CHECK(files.back().metadata.version() == "0.0.4");
    CHECK(files.back().nodes.size() > 500);
    check_ids(files.back());
  }
  CHECK(bytes == traces.bytes());
  check_against_record(r, traces);
  check_evaluation(files);
}

TEST_CASE("chakra: other schedules and groups give back the engine's times from the files alone") {
  const auto check = [](const std::string& text) {
    const Recorded r = recorded(text);
    const chakra::Traces traces(r.lowered.program, r.timeline, "test");
    std::vector<Parsed> files;
    for (std::size_t rank = 0; rank < r.timeline.ranks.size(); ++rank) files.push_back(parsed(traces.text(rank)));
    check_against_record(r, traces);
    check_evaluation(files);
  };
  SECTION("both ways through the pipeline") {
    check(R"({"model": {"name": "deepseek-v3", "layers": 8, "mtp_layers": 0}, "cluster": "h800:16",
        "parallelism": {"pp": 4, "ep": 4, "schedule": "dualpipe"}, "routing": {"skew": "zipf:0.3"},
        "workload": {"sequence_length": 1024, "global_batch": 32}, "software": "deepseek-hai-llm-2024"})");
  }
  SECTION("a ring of attention") {
    check(R"({"model": {"name": "llama-3-8b", "layers": 2}, "cluster": "h100:8",
        "parallelism": {"cp": 4, "tp": 2, "cp_kind": "ring"},
        "workload": {"sequence_length": 8192, "global_batch": 2}, "software": "megatron-core-2024"})");
  }
  SECTION("sharded parameters") {
    check(R"({"model": {"name": "olmoe-1b-7b", "layers": 4}, "cluster": "h100:8",
        "parallelism": {"ep": 8, "sharding": "zero3"}, "workload": {"sequence_length": 2048, "global_batch": 8},
        "software": "torchtitan-2025"})");
  }
}

TEST_CASE("chakra: communication has the attributes that ASTRA-sim reads") {
  const Recorded r = recorded(pipeline);
  const chakra::Traces traces(r.lowered.program, r.timeline, "test");
  const auto groups = traces.groups();
  std::map<std::pair<std::string, int>, std::set<std::int64_t>> sizes;
  std::set<std::int64_t> types;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> sent, received;
  for (std::size_t rank = 0; rank < 16; ++rank) {
    std::map<std::string, int> calls;
    for (const auto& node : parsed(traces.text(rank)).nodes) {
      if (node.type() == ChakraProtoMsg::COMM_COLL_NODE) {
        const std::string group = text(node, "pg_name");
        REQUIRE(groups.contains(group));
        const std::vector<int> ranks = groups[group];
        CHECK(std::find(ranks.begin(), ranks.end(), static_cast<int>(rank)) != ranks.end());
        sizes[{group, calls[group]++}].insert(integer(node, "comm_size"));
        types.insert(integer(node, "comm_type"));
        if (text(node, "collective") == "all_gather") {
          CHECK(std::abs(integer(node, "comm_size") * static_cast<std::int64_t>(ranks.size()) -
                         integer(node, "payload_bytes")) <= static_cast<std::int64_t>(ranks.size()));
        }
      } else if (node.type() == ChakraProtoMsg::COMM_SEND_NODE || node.type() == ChakraProtoMsg::COMM_RECV_NODE) {
        const bool sends = node.type() == ChakraProtoMsg::COMM_SEND_NODE;
        CHECK(integer(node, sends ? "comm_src" : "comm_dst") == static_cast<std::int64_t>(rank));
        auto& messages = sends ? sent : received;
        CHECK(
            messages.insert({integer(node, "comm_src"), integer(node, "comm_dst"), integer(node, "comm_tag")}).second);
        CHECK(integer(node, "comm_size") > 0);
      }
    }
  }
  CHECK(sent == received);
  CHECK_FALSE(sent.empty());
  CHECK(types == std::set<std::int64_t>{ChakraProtoMsg::ALL_REDUCE, ChakraProtoMsg::ALL_GATHER,
                                        ChakraProtoMsg::ALL_TO_ALL, ChakraProtoMsg::REDUCE_SCATTER});
  for (const auto& [call, of_members] : sizes) CHECK(of_members.size() == 1);
}

TEST_CASE("chakra: chosen ranks are written with their groups, and notes say what is missing") {
  const Recorded r = recorded(pipeline, {3, 9}, 1);
  const chakra::Traces traces(r.lowered.program, r.timeline, "test");
  const auto prefix = write_file("chakra", "");
  const auto exported = traces.write(prefix);
  REQUIRE(exported.ok());
  REQUIRE(exported->traces.size() == 2);
  for (const chakra::TraceFile& trace : exported->traces) {
    CHECK(trace.file == prefix.string() + "." + std::to_string(trace.rank) + ".et");
    std::ifstream in(trace.file, std::ios::binary);
    const Parsed file = parsed(in);
    CHECK(static_cast<std::int64_t>(file.nodes.size()) == trace.nodes);
    CHECK(static_cast<std::int64_t>(std::filesystem::file_size(trace.file)) == trace.bytes);
    check_ids(file);
    for (const auto& node : file.nodes) CHECK(integer(node, "begin_ps") >= 0);
  }
  check_against_record(r, traces);
  CHECK(std::filesystem::exists(exported->groups_file));
  REQUIRE_FALSE(exported->notes.empty());
  CHECK(exported->notes.front().find("2 of 16 ranks") != std::string::npos);
  CHECK_FALSE(traces.write(prefix.parent_path() / "nowhere" / "x").ok());
}
