// Running, resuming, sharding and merging sweeps: always the same bytes.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "scenarios/sweep/sweep_run.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

namespace fs = std::filesystem;

// Small enough that a point takes milliseconds: two layers, one box, and points that fail on purpose.
constexpr const char* tiny = R"({
  "name": "tiny",
  "scenario": {"model": {"name": "olmoe-1b-7b", "layers": 2}, "cluster": "h100:8", "parallelism": {"ep": 2},
               "workload": {"sequence_length": 256, "global_batch": 16, "micro_batch": 1, "steps": 1},
               "software": "megatron-core-2025"},
  "vary": [{"parallelism.tp": [1, 3, 2]},
           {"workload.micro_batch": [1, 2]},
           {"seed": {"from": 1, "to": 2}}]})";

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Bench {
  Sweep sweep;
  fs::path folder;

  explicit Bench(const std::string& name, const std::string& text = tiny) {
    folder = write_file(name + ".json", text).parent_path() / name;
    fs::remove_all(folder);
    fs::create_directories(folder);
    SweepRequest request;
    request.file = write_file(name + ".json", text);
    request.catalog_root = source_dir;
    request.version = "test";
    auto loaded_sweep = load_sweep(request);
    INFO((loaded_sweep ? std::string() : shown(loaded_sweep.errors())));
    REQUIRE(loaded_sweep.ok());
    sweep = std::move(*loaded_sweep);
  }

  [[nodiscard]] SweepOptions options(const std::string& prefix, Shard shard = {}, int threads = 2) const {
    SweepOptions o;
    o.files.prefix = folder / prefix;
    o.shard = shard;
    o.threads = threads;
    return o;
  }

  SweepSummary run(const SweepOptions& o) const {
    auto summary = run_sweep(sweep, o);
    INFO((summary ? std::string() : shown(summary.errors())));
    REQUIRE(summary.ok());
    return std::move(*summary);
  }
};

bool fails(const Errors& errors, const std::string& part) { return shown(errors).find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a sweep writes a line and a row a point, whatever the threads") {
  const Bench bench("threads");
  const SweepSummary one = bench.run(bench.options("one", {}, 1));
  const SweepSummary two = bench.run(bench.options("two", {}, 2));
  const SweepSummary many = bench.run(bench.options("many", {}, 7));
  CHECK(one.points == 12);
  CHECK(one.run == 12);
  CHECK(one.counts.done == 8);
  CHECK(one.counts.failed.at("invalid") == 4);  // tp 3 divides nothing
  REQUIRE(!one.counts.best.empty());
  const std::string lines = content(one.lines);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 12);
  CHECK(content(two.lines) == lines);
  CHECK(content(many.lines) == lines);
  const std::string table = content(one.table);
  CHECK(table.starts_with("point,parallelism.tp,workload.micro_batch,seed,devices,step_time_s,"));
  CHECK(std::count(table.begin(), table.end(), '\n') == 13);
  CHECK(content(two.table) == table);
}

TEST_CASE("results that no forecast has are named") {
  std::string text = tiny;
  text.replace(text.rfind('}'), 1, R"(, "results": ["utilisation.mfu", "step_time.mean_s"]})");
  const Bench bench("nowhere", text);
  CHECK(bench.run(bench.options("all")).counts.nowhere == std::vector<std::string>{"step_time.mean_s"});
}

TEST_CASE("results of a sweep stand beside the fixed columns, which they cannot replace") {
  std::string text = tiny;
  text.replace(text.rfind('}'), 1,
               R"(, "results": ["step_time_s", "utilisation.mfu", "tokens_per_s", "utilisation.mfu", "step_time"]})");
  const Bench bench("fixed", text);
  const auto options = bench.options("all");
  const SweepSummary whole = bench.run(options);
  CHECK(whole.counts.done == 8);
  CHECK(whole.counts.nowhere == std::vector<std::string>{"step_time"});
  const std::string table = content(whole.table);
  CHECK(table.find(",seed,step_time_s,tokens_per_s,utilisation.mfu,step_time,error,message\n") != std::string::npos);
  const SweepSummary again = bench.run(options);  // every line is taken for what it is
  CHECK(again.resumed == 12);
  CHECK(again.run == 0);
  CHECK(content(again.table) == table);
}

TEST_CASE("a result that only some points have is one that the sweep has") {
  const std::string text = R"({"name": "some", "ignore_memory": true, "results": ["moe.imbalance"],
    "scenario": {"model": "olmoe-1b-7b", "cluster": "h100:8", "parallelism": {"tp": 8},
                 "workload": {"sequence_length": 256, "global_batch": 8, "steps": 1}},
    "vary": [{"model": ["olmoe-1b-7b", "llama-3-8b"]}]})";
  const Bench bench("some", text);
  const auto options = bench.options("all");
  const SweepSummary whole = bench.run(options);
  CHECK(whole.counts.done == 2);
  CHECK(whole.counts.nowhere.empty());
  CHECK(bench.run(options).resumed == 2);
  // The shard that holds the dense point alone does not have it.
  CHECK(bench.run(bench.options("part", {1, 2, {}})).counts.nowhere == std::vector<std::string>{"moe.imbalance"});
}

TEST_CASE("a sweep goes on where it was killed") {
  const Bench bench("resume");
  const std::string whole = content(bench.run(bench.options("whole")).lines);
  const auto options = bench.options("part");
  for (const std::size_t left :
       {std::size_t{0}, std::size_t{1}, whole.find('\n') + 1, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(options.files.lines(), std::ios::binary | std::ios::trunc) << whole.substr(0, left);
    const SweepSummary summary = bench.run(options);
    CHECK(summary.resumed + summary.run == 12);
    CHECK(summary.resumed == std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(left), '\n'));
    CHECK(content(options.files.lines()) == whole);
  }
  const SweepSummary again = bench.run(options);
  CHECK(again.run == 0);
  CHECK(again.counts.done == 8);
  auto restart = options;
  restart.restart = true;
  CHECK(bench.run(restart).run == 12);
  CHECK(content(options.files.lines()) == whole);
}

TEST_CASE("an interrupted sweep leaves the beginning of the complete file") {
  const Bench bench("interrupt");
  const std::string whole = content(bench.run(bench.options("whole")).lines);
  auto options = bench.options("cut");
  std::atomic<int> written{0};
  options.progress = [&](std::int64_t done, std::int64_t, std::int64_t) { written = static_cast<int>(done); };
  options.cancelled = [&] { return written >= 3; };
  const SweepSummary summary = bench.run(options);
  CHECK(summary.interrupted);
  CHECK(summary.run >= 3);
  CHECK(summary.run < 12);
  CHECK(whole.starts_with(content(options.files.lines())));
  CHECK(summary.counts.points == summary.run);
  options.cancelled = {};
  CHECK(bench.run(options).resumed == summary.run);
  CHECK(content(options.files.lines()) == whole);
}

TEST_CASE("merged shards are the unsharded run, byte for byte") {
  const Bench bench("shards");
  const SweepSummary whole = bench.run(bench.options("whole"));
  for (const int shards : {1, 4, 5, 13}) {
    const std::string prefix = "by" + std::to_string(shards);
    for (int i = 0; i < shards; ++i) bench.run(bench.options(prefix, Shard{i, shards, "test"}));
    const auto files = bench.options(prefix).files;
    const auto merged = merge_shards(bench.sweep, files, 0);
    INFO((merged ? std::string() : shown(merged.errors())));
    REQUIRE(merged.ok());
    CHECK(merged->shards == shards);
    CHECK(content(files.lines()) == content(whole.lines));
    CHECK(content(files.table()) == content(whole.table));
  }
}

TEST_CASE("merge says what is missing") {
  const Bench bench("incomplete");
  const auto files = bench.options("x").files;
  auto merged = merge_shards(bench.sweep, files, 0);
  REQUIRE(!merged.ok());
  CHECK(fails(merged.errors(), "no file of a shard"));
  for (const int i : {0, 2}) bench.run(bench.options("x", Shard{i, 4, {}}));
  const fs::path second = files.shard(Shard{2, 4, {}});
  const std::string lines = content(second);
  std::ofstream(second, std::ios::binary | std::ios::trunc) << lines.substr(0, lines.size() - 5);
  merged = merge_shards(bench.sweep, files, 0);
  REQUIRE(!merged.ok());
  CHECK(merged.errors().size() == 3);
  CHECK(fails(merged.errors(), "x.shard-1-of-4.jsonl: the shard's file is missing"));
  CHECK(fails(merged.errors(), "x.shard-2-of-4.jsonl: the shard has 2 of its 3 points"));
  CHECK(!fs::exists(files.lines()));
  bench.run(bench.options("x", Shard{0, 3, {}}));
  merged = merge_shards(bench.sweep, files, 0);
  REQUIRE(!merged.ok());
  CHECK(fails(merged.errors(), "3, 4 shards"));
}

TEST_CASE("lines that no forecast can have written are named") {
  const Bench bench("edited");
  const auto files = bench.options("x").files;
  for (const int i : {0, 1}) bench.run(bench.options("x", Shard{i, 2, {}}));
  const fs::path second = files.shard(Shard{1, 2, {}});
  const std::string good = content(second);
  const auto refused = [&](const std::string& lines, const std::string& part) {
    std::ofstream(second, std::ios::binary | std::ios::trunc) << lines;
    const auto merged = merge_shards(bench.sweep, files, 0);
    REQUIRE(!merged.ok());
    INFO(shown(merged.errors()));
    CHECK(fails(merged.errors(), part));
  };
  const auto edited = [&](const std::string& key, const std::string& value) {
    std::string lines = good;
    const auto at = lines.find(key + "\":") + key.size() + 2;
    return lines.replace(at, lines.find_first_of(",}", at) - at, value);
  };
  refused(edited("step_time_s", "-5"), "x.shard-1-of-2.jsonl:1: step_time_s is -5, expected a number above 0");
  refused(edited("tokens_per_s", "0"), "tokens_per_s is 0");
  refused(edited("tokens_per_s_per_device", "null"), "tokens_per_s_per_device is null");
  refused(edited("mfu", "-0.1"), "mfu is -0.1, expected a number of 0 or more");
  refused(edited("step_time_s", "1e999"), ":1: not a line of results");
  refused(edited("fits", "3"), "'fits' is neither true nor false");
  refused(edited("seed", "7"), "the value of seed is not the point's");
  refused(good + std::string(3, '\0'), "3 bytes stand behind the line of the last point");
  refused(good + std::string(3, '\0') + "\n", ":7: more lines than the shard has points");
  std::ofstream(second, std::ios::binary | std::ios::trunc) << good;
  CHECK(merge_shards(bench.sweep, files, 0).ok());
}

TEST_CASE("results of another sweep are left alone") {
  const Bench bench("own");
  const auto options = bench.options("r");
  bench.run(options);
  const std::string before = content(options.files.lines());
  std::string text = tiny;
  text.replace(text.find("\"to\": 2"), 7, "\"to\": 3");
  const Bench other("other", text);
  const auto refused = run_sweep(other.sweep, options);
  REQUIRE(!refused.ok());
  CHECK(fails(refused.errors(), "not a result of this sweep"));
  CHECK(content(options.files.lines()) == before);
  std::ofstream(options.files.lines(), std::ios::binary | std::ios::app) << before.substr(0, before.find('\n') + 1);
  const auto longer = run_sweep(bench.sweep, options);
  REQUIRE(!longer.ok());
  CHECK(fails(longer.errors(), "r.jsonl:13"));
}

TEST_CASE("chosen results and layouts that do not fit") {
  const Bench bench("chosen", R"({
    "scenario": {"model": "mixtral-8x22b", "cluster": "h100:8", "parallelism": {"ep": 8},
                 "workload": {"sequence_length": 256, "global_batch": 8, "steps": 1}},
    "ignore_memory": true, "results": ["memory.fits", "breakdown.exposed_ep.mean_s", "no.such"],
    "vary": [{"model.layers": [2, 56]}]})");
  const SweepSummary summary = bench.run(bench.options("r"));
  CHECK(summary.counts.done == 2);
  const std::string table = content(summary.table);
  CHECK(table.starts_with(
      "point,model.layers,step_time_s,tokens_per_s,memory.fits,breakdown.exposed_ep.mean_s,no.such,"));
  CHECK(table.find("true") != std::string::npos);
  CHECK(table.find("false") != std::string::npos);
}

TEST_CASE("sweeps of the library load and their points do too") {
  for (const auto& entry : fs::directory_iterator(source_dir / "scenarios" / "sweeps")) {
    SweepRequest request;
    request.file = entry.path().stem();
    request.catalog_root = source_dir;
    const auto sweep = load_sweep(request);
    INFO((sweep ? std::string() : shown(sweep.errors())));
    REQUIRE(sweep.ok());
    CHECK(sweep->name == entry.path().stem());
    for (std::int64_t i = 0; i < sweep->points; ++i) {
      const auto scenario = load_scenario(sweep->request(i));
      INFO((scenario ? std::string() : shown(scenario.errors())));
      CHECK(scenario.ok());
    }
  }
}

}  // namespace stepcast::scenarios
