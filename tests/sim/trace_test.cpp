// Traces and op DAGs, read back by a strict parser.

#include "sim/record/trace.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "random_program.h"
#include "sim/record/dependencies.h"
#include "small_pipelines.h"

using namespace stepcast;
using namespace stepcast::sim;
using namespace stepcast::sim::test;
using nlohmann::json;

namespace {

// A folder of its own, removed with its files.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stepcast-trace-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

// Reads plain files as well.
std::string contents(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text;
  char buffer[65536];
  for (int n = 0; (n = gzread(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  gzclose(file);
  return text;
}

struct Recorded {
  Program program;
  StepReport report;
  Timeline timeline;
};

Recorded pipeline(const std::vector<RankId>& ranks) {
  PipelineShape shape;
  shape.stages = 3;
  shape.microbatches = 4;
  shape.lanes = 2;
  shape.forward = 1e6 + 1234;
  shape.backward = 2e6 + 567;
  shape.transfer = 3e5 + 89;
  shape.join = true;
  Recorded r{one_f_one_b(shape), {}, {}};
  r.program.cohorts[1].works[0].name = "forward \"odd\\name\"\n";
  const RecordOptions options{3, 1, true};
  auto report = record_step(r.program, {}, options);
  auto timeline = record_timeline(r.program, {}, options, ranks);
  REQUIRE(report.ok());
  REQUIRE(timeline.ok());
  r.report = *report;
  r.timeline = *timeline;
  return r;
}

std::int64_t nanoseconds(const json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

// What every reader relies on.
void check_trace(const json& trace, const Program& program) {
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;
  std::map<std::int64_t, std::vector<std::string>> flows;
  std::set<int> named;
  std::int64_t last = 0;
  for (const json& e : trace.at("traceEvents")) {
    const std::string phase = e.at("ph");
    REQUIRE(e.at("pid").is_number_integer());
    const int pid = e.at("pid");
    if (phase == "M") {
      if (e.at("name") == "process_name") CHECK(named.insert(pid).second);
      continue;
    }
    CHECK(named.count(pid) == 1);
    const std::int64_t at = nanoseconds(e.at("ts"));
    CHECK(at >= 0);
    if (pid != program.ranks) CHECK(at >= last);
    if (pid != program.ranks) last = at;
    if (phase == "X") tracks[{pid, e.at("tid")}].emplace_back(at, at + nanoseconds(e.at("dur")));
    if (phase == "s" || phase == "f") flows[e.at("id")].push_back(phase);
    if (phase == "f") CHECK(e.at("bp") == "e");
    if (phase == "C") {
      for (const auto& [key, value] : e.at("args").items()) CHECK(value.get<double>() >= 0);
    }
  }
  for (const auto& [track, slices] : tracks) {
    std::int64_t free_at = 0;
    for (const auto& [begin, end] : slices) {
      CHECK(begin >= free_at);
      CHECK(end >= begin);
      free_at = end;
    }
  }
  for (const auto& [id, phases] : flows) CHECK(phases == std::vector<std::string>{"s", "f"});
}

}  // namespace

TEST_CASE("a trace is strict JSON with one track a stream, paired flows and no overlaps") {
  const TemporaryFolder folder;
  const Recorded r = pipeline({RankId(0), RankId(2), RankId(4), RankId(5)});
  const auto file = folder.path / "step.json";
  REQUIRE(write_trace(r.program, {}, r.timeline, file).ok());
  const std::string text = contents(file);
  const json trace = json::parse(text);
  check_trace(trace, r.program);

  int kernels = 0, messages = 0, joins = 0;
  double largest = 0;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "X" && e.value("cat", "") == "gemm") ++kernels;
    if (e["ph"] == "s" && e["name"] == "message") ++messages;
    if (e["ph"] == "s" && e["name"] == "group") ++joins;
    if (e["ph"] == "C" && e["pid"] == 0 && e["name"] == "memory") {
      largest = std::max(largest, e["args"]["gib"].get<double>());
    }
  }
  CHECK(kernels == 4 * 4);
  CHECK(messages == 4 * 4);  // four microbatches over two boundaries of one pipeline, both ways
  CHECK(joins == 3);         // the slowest of the four ranks to the others
  CHECK(largest == Approx(r.report.memory.peak_by_rank[0] / 1073741824.0).margin(1e-6));
  const double estimate = static_cast<double>(estimate_trace_bytes(r.program, r.timeline));
  CHECK(estimate == Approx(static_cast<double>(text.size())).epsilon(0.2));

  const auto packed = folder.path / "step.json.gz";
  REQUIRE(write_trace(r.program, {}, r.timeline, packed).ok());
  CHECK(contents(packed) == text);
  CHECK(std::filesystem::file_size(packed) < text.size() / 3);
  const auto files = std::filesystem::directory_iterator(folder.path);
  CHECK(std::distance(begin(files), end(files)) == 2);  // no temporary file is left
}

TEST_CASE("a trace counts each rank's use of links and its experts' rows") {
  const TemporaryFolder folder;
  int busy = 0, rows = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Program program = testing::random_program(seed, false);
    for (Cohort& cohort : program.cohorts) {
      for (std::size_t w = 0; w < cohort.works.size(); ++w) {
        Work& work = cohort.works[w];
        if (!work.collective.empty()) work.wire_bytes = 1e6 + 1e5 * static_cast<double>(w);
        work.nic_share = 0.25;
        if (work.collective.empty()) work.category = Category::grouped_gemm;
      }
    }
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.loads = &loads;
    const auto timeline = record_timeline(program, conditions, {1, 1, false}, {RankId(0), RankId(program.ranks - 1)});
    REQUIRE(timeline.ok());
    const auto file = folder.path / "counters.json";
    REQUIRE(write_trace(program, conditions, *timeline, file).ok());
    // The area below a rank's curve is what it put on links.
    std::map<int, std::pair<double, double>> last, area;
    std::map<int, double> at, expected;
    for (const TimelineOp& op : timeline->ops) {
      const Opcode kind = instruction_of(program, op).op;
      const Work& work = work_of(program, op);
      if (kind == Opcode::compute || kind == Opcode::host_sync || kind == Opcode::receive || op.end == op.begin)
        continue;
      expected[op.rank.value] += work.wire_bytes + work.wire_per_row * static_cast<double>(op.rows);
    }
    const json trace = json::parse(contents(file));
    for (const json& e : trace.at("traceEvents")) {
      if (e.at("ph") != "C") continue;
      rows += e.at("name") == "experts' rows" && e.at("args").at("rows").get<double>() > 0;
      if (e.at("name") != "link use") continue;
      const int pid = e.at("pid");
      const double now = e.at("ts").get<double>() * 1e-6;
      area[pid].first += last[pid].first * (now - at[pid]);
      area[pid].second += last[pid].second * (now - at[pid]);
      last[pid] = {e.at("args").at("nvlink_gb_per_s").get<double>(), e.at("args").at("nic_gb_per_s").get<double>()};
      at[pid] = now;
    }
    for (const auto& [pid, bytes] : expected) {
      // Times are nanoseconds: transfers of a few of them are not seen exactly.
      if (timeline->step_end - timeline->step_begin < Ticks{1000000000}) continue;
      CHECK(area[pid].first * 1e9 == Approx(0.75 * bytes).epsilon(0.01));
      CHECK(area[pid].second * 1e9 == Approx(0.25 * bytes).epsilon(0.01));
      ++busy;
    }
    for (const auto& [pid, rates] : last) CHECK(rates == std::pair<double, double>{0, 0});
  }
  CHECK(busy > 0);
  CHECK(rows > 0);
}

TEST_CASE("traces of random programs hold for every reader") {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const Program program = testing::random_program(seed, false);
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.loads = &loads;
    std::vector<RankId> ranks;
    for (int r = 0; r < program.ranks; r += 1 + static_cast<int>(seed % 3)) ranks.emplace_back(r);
    const auto timeline = record_timeline(program, conditions, {seed % 3, 1, false}, ranks);
    REQUIRE(timeline.ok());
    const auto file = folder.path / "random.json";
    REQUIRE(write_trace(program, conditions, *timeline, file).ok());
    check_trace(json::parse(contents(file)), program);
    for (const Dependency& d : dependencies(program, *timeline)) {
      const TimelineOp& from = timeline->ops[d.from];
      const TimelineOp& to = timeline->ops[d.to];
      if (d.kind == Dependency::Kind::group) {
        CHECK(from.begin == to.begin);
      } else if (d.kind == Dependency::Kind::message) {
        CHECK(from.end <= to.end);
      } else {
        CHECK(from.end <= to.ready);
      }
    }
  }
}

TEST_CASE("the op DAG marks the critical path and its edges exist") {
  const TemporaryFolder folder;
  std::vector<RankId> ranks;
  for (int r = 0; r < 6; ++r) ranks.emplace_back(r);
  const Recorded r = pipeline(ranks);
  const auto file = folder.path / "step.json";
  REQUIRE(write_dag(r.program, r.timeline, r.report.critical_path, file).ok());
  const json dag = json::parse(contents(file));
  std::size_t critical = 0;
  Ticks length = 0;
  for (const json& node : dag.at("nodes")) {
    if (!node.at("critical").get<bool>()) continue;
    ++critical;
    length += node.at("end_ps").get<Ticks>() - node.at("begin_ps").get<Ticks>();
  }
  CHECK(critical == r.report.critical_path.size());
  CHECK(length == r.report.duration);
  for (const json& edge : dag.at("edges")) {
    CHECK(edge.at("from").get<std::size_t>() < dag.at("nodes").size());
    CHECK(edge.at("to").get<std::size_t>() < dag.at("nodes").size());
  }
  REQUIRE(write_dag(r.program, r.timeline, r.report.critical_path, folder.path / "step.dot").ok());
  const std::string dot = contents(folder.path / "step.dot");
  CHECK(dot.rfind("digraph", 0) == 0);
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
}

TEST_CASE("faults of the output are errors and leave nothing behind") {
  const TemporaryFolder folder;
  const Recorded r = pipeline({RankId(0)});
  const auto missing = write_trace(r.program, {}, r.timeline, folder.path / "no" / "step.json");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.errors()[0].code == ErrorCode::unwritable);
  CHECK_FALSE(write_trace(r.program, {}, r.timeline, folder.path).ok());
  if (std::filesystem::exists("/dev/full")) CHECK_FALSE(write_trace(r.program, {}, r.timeline, "/dev/full").ok());
  CHECK(write_trace(r.program, {}, r.timeline, "/dev/null").ok());
  const auto extension = write_dag(r.program, r.timeline, {}, folder.path / "step.txt");
  REQUIRE_FALSE(extension.ok());
  CHECK(extension.errors()[0].code == ErrorCode::usage);
  CHECK(std::filesystem::is_empty(folder.path));
  const auto rank = record_timeline(r.program, {}, {}, {RankId(6)});
  REQUIRE_FALSE(rank.ok());
  CHECK(rank.errors()[0].message.find("rank 6") != std::string::npos);
}
