// simulate, explain and compare from end to end.
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

namespace fs = std::filesystem;

const char* const small = "olmoe-1b-7b-h100-8";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

nlohmann::json without_engine(const std::string& text) {
  auto json = nlohmann::json::parse(text);
  json.erase("engine");
  return json;
}

TEST_CASE("A forecast adds up") {
  const Outcome outcome = run({"simulate", small, "--steps", "2", "--format", "json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["schema"] == "stepcast.forecast/1");
  CHECK(json["step_time_s"]["samples"] == 2);
  const double step = json["step_time_s"]["mean"];
  CHECK(step > 0);
  CHECK(json["utilisation"]["hfu"].get<double>() >= json["utilisation"]["mfu"].get<double>());
  CHECK(json["utilisation"]["hfu"].get<double>() < 1);
  double parts = 0;
  for (const auto& [category, stats] : json["breakdown"].items()) parts += stats["mean_s"].get<double>();
  CHECK(parts >= json["step_time_s"]["min"].get<double>() * (1 - 1e-9));
  CHECK(parts <= json["step_time_s"]["max"].get<double>() * (1 + 1e-9));
}

TEST_CASE("Threads and repetition change nothing but the engine's own figures") {
  const std::vector<std::string> arguments = {"simulate", small, "--steps", "3", "--format", "json", "--threads"};
  auto one = arguments, two = arguments;
  one.emplace_back("1");
  two.emplace_back("2");
  const auto first = without_engine(run(one).out);
  CHECK(first == without_engine(run(one).out));
  CHECK(first == without_engine(run(two).out));
}

TEST_CASE("The resolved scenario of a result can be run again") {
  const ScratchFolder scratch;
  Setting here;
  here.folder = scratch.path();
  const Outcome first = run({"simulate", small, "--steps", "1", "--seed", "7", "--format", "json"}, here);
  REQUIRE(first.exit_code == 0);
  std::ofstream(scratch.path() / "again.json") << nlohmann::ordered_json::parse(first.out)["scenario"].dump(2);
  const Outcome second = run({"simulate", "again.json", "--format", "json"}, here);
  CAPTURE(second.err);
  REQUIRE(second.exit_code == 0);
  CHECK(without_engine(first.out)["step_time_s"] == without_engine(second.out)["step_time_s"]);
}

TEST_CASE("Every bad scenario is refused at its place, without a crash") {
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(STEPCAST_SOURCE_DIR) / "tests" / "data" / "bad_scenarios")) {
    if (entry.path().extension() != ".json") continue;
    ++cases;
    std::vector<std::string> arguments = {"simulate", entry.path().string(), "--quiet"};
    std::ifstream expectation(fs::path(entry.path()).replace_extension(".expect"));
    for (std::string line; std::getline(expectation, line);) {
      if (line.starts_with("set ")) arguments.insert(arguments.end(), {"--set", line.substr(4)});
    }
    const Outcome outcome = run(arguments);
    CAPTURE(entry.path(), outcome.exit_code, outcome.err);
    CHECK((outcome.exit_code == 1 || outcome.exit_code == 2));
    CHECK(outcome.out.empty());
    CHECK(outcome.err.starts_with("stepcast: "));
  }
  CHECK(cases > 50);
}

TEST_CASE("Missing scenarios are named") {
  CHECK(run({"simulate"}).exit_code == 2);
  const Outcome typo = run({"simulate", "olmoe-1b-7b-h100-9"});
  CHECK(typo.exit_code == 1);
  CHECK(contains(typo.err, "did you mean 'olmoe-1b-7b-h100-8'"));
  const Outcome file = run({"simulate", "none.json"});
  CHECK(file.exit_code == 1);
  CHECK(contains(file.err, "none.json"));
  CHECK(run({"simulate", "--model", "mixtral-8x7b"}).exit_code == 2);
}

TEST_CASE("A layout that does not fit fails, and is forecast when asked") {
  const std::vector<std::string> arguments = {"simulate",
                                              "--model",
                                              "mixtral-8x22b",
                                              "--cluster",
                                              "h100:8",
                                              "--set",
                                              "workload.sequence_length=4096",
                                              "--set",
                                              "workload.global_batch=8"};
  const Outcome outcome = run(arguments);
  CHECK(outcome.exit_code == 1);
  CHECK(contains(outcome.err, "memory"));
  auto ignoring = arguments;
  ignoring.insert(ignoring.end(), {"--ignore-memory", "--format", "json"});
  const Outcome anyway = run(ignoring);
  CAPTURE(anyway.err);
  REQUIRE(anyway.exit_code == 0);
  CHECK(nlohmann::json::parse(anyway.out)["memory"]["fits"] == false);
}

TEST_CASE("An interrupt leaves a valid partial result") {
  Outcome outcome;
  for (const double after : {1.0, 4.0, 16.0}) {  // long enough for a first sampled step on a loaded machine
    Setting setting;
    setting.interrupt_after_s = after;
    outcome = run({"simulate", small, "--steps", "1000000", "--format", "json"}, setting);
    REQUIRE(outcome.exit_code == 130);
    if (!outcome.out.empty()) break;
  }
  CAPTURE(outcome.err);
  REQUIRE_FALSE(outcome.out.empty());
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["interrupted"] == true);
  CHECK(json["step_time_s"]["samples"] >= 1);
  CHECK(json["step_time_s"]["samples"] < 1000000);
  CHECK(contains(outcome.err, "partial"));
}

TEST_CASE("An interrupt ends a command that has no partial result") {
  const ScratchFolder scratch;
  Setting setting;
  setting.folder = scratch.path();
  setting.interrupt_after_s = 0.3;  // recording 2,048 ranks takes seconds
  const Outcome outcome = run({"export", "chakra", "deepseek-v3-h800-2048", "--output", "ck"}, setting);
  CHECK(outcome.exit_code == 130);
}

TEST_CASE("An interrupt ends a fit while its rows are still read") {
  std::string rows =
      "id,model,device,devices,devices_per_node,precision,sequence_length,global_batch,micro_batch,"
      "tp,pp,ep,step_time_s\n";
  for (int i = 0; i < 4000; ++i) {
    rows += "r" + std::to_string(i) + ",mixtral-8x7b,h100,64,8,bf16," + std::to_string(1024 + i) + ",256,1,1,4,8,9\n";
  }
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "runs.csv") << rows;
  Setting setting;
  setting.folder = scratch.path();
  setting.interrupt_after_s = 1;
  const Outcome outcome = run({"calibrate", "runs.csv"}, setting);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 130);
  CHECK(contains(outcome.err, "interrupted before anything was fitted"));
}

TEST_CASE("Where every measured row is refused, the message names the line") {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "runs.csv") << "id,model,device,devices,step_time_s\na,mixtral-8x7b,h100,8,-1\n";
  Setting setting;
  setting.folder = scratch.path();
  const Outcome outcome = run({"validate", "runs.csv"}, setting);
  CHECK(outcome.exit_code == 1);
  CHECK(contains(outcome.err, "runs.csv:2: every row is refused; the first: step_time_s is -1"));
}

TEST_CASE("Ids that no row has and files that are given twice are named") {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "runs.csv")
      << "id,kind,model,device,devices,precision,sequence_length,global_batch,micro_batch,tp,pp,recompute,step_time_s\n"
         "run-a,dense,llama-3-8b,h100,8,bf16,8192,16,1,8,1,none,2\n";
  std::ofstream(scratch.path() / "ids.txt") << "run-a\nrun-b\n";
  std::ofstream(scratch.path() / "none.txt") << "\xef\xbb\xbfrun-c\n";
  Setting setting;
  setting.folder = scratch.path();
  const Outcome some = run(words("validate runs.csv --no-ranges --only ids.txt --format json"), setting);
  CAPTURE(some.err);
  REQUIRE(some.exit_code == 0);
  const std::string said = "--only ids.txt: no row has the id 'run-b'; did you mean 'run-a'?";
  CHECK(contains(some.err, "warning: " + said));
  CHECK(nlohmann::json::parse(some.out)["warnings"] == std::vector<std::string>{said});
  for (const char* line : {"validate runs.csv --only none.txt", "calibrate runs.csv --only none.txt",
                           "calibrate runs.csv --predict runs.csv --predict-only none.txt"}) {
    const Outcome none = run(words(line), setting);
    CAPTURE(line, none.err);
    CHECK(none.exit_code == 1);
    CHECK(contains(none.err, "none.txt: no row has any of its 1 ids; the first is 'run-c'"));
  }
  for (const char* line : {"calibrate runs.csv runs.csv", "calibrate runs.csv --fit ./runs.csv",
                           "calibrate runs.csv --predict runs.csv --predict runs.csv"}) {
    const Outcome twice = run(words(line), setting);
    CAPTURE(line, twice.err);
    CHECK(twice.exit_code == 2);
    CHECK(contains(twice.err, "runs.csv: "));
    CHECK(contains(twice.err, "its rows would count twice"));
  }
}

TEST_CASE("A trace is written, its size stated first") {
  const ScratchFolder scratch;
  Setting here;
  here.folder = scratch.path();
  const Outcome outcome = run({"simulate", small, "--steps", "1", "--trace", "t.json", "--trace-ranks", "0,1"}, here);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(contains(outcome.err, "trace of 2 rank(s): about"));
  const auto trace = nlohmann::json::parse(read_file(scratch.path() / "t.json"));
  CHECK(trace["traceEvents"].size() > 100);
  CHECK(run({"simulate", small, "--steps", "1", "--trace-ranks", "0"}, here).exit_code == 2);
  CHECK(run({"simulate", small, "--steps", "1", "--trace", "u.json", "--trace-ranks", "8"}, here).exit_code == 2);
  CHECK(run({"simulate", small, "--steps", "1", "--trace", "none/u.json"}, here).exit_code == 1);
}

TEST_CASE("explain shows keys with origins, constants with provenance, ranks, stages and kernels") {
  const Outcome table = run({"explain", small, "--set", "workload.steps=4"});
  CAPTURE(table.err);
  REQUIRE(table.exit_code == 0);
  for (const char* part : {"Resolved keys", "--set workload.steps=4", "Layout", "Stages", "Constants", "measured"}) {
    CAPTURE(part);
    CHECK(contains(table.out, part));
  }
  const Outcome json = run({"explain", small, "--ranks", "0-3", "--layer", "1", "--format", "json"});
  REQUIRE(json.exit_code == 0);
  const auto parsed = nlohmann::json::parse(json.out);
  CHECK(parsed["ranks"].size() == 4);
  CHECK(parsed["layer"]["ops"].size() > 10);
  CHECK(run({"explain", small, "--layer", "99"}).exit_code == 2);
  CHECK(run({"explain", small, "--ranks", "8"}).exit_code == 2);
}

TEST_CASE("explain --fits judges the constants by component measurements") {
  const Outcome outcome = run({"explain", "--fits", "--format", "json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["schema"] == "stepcast.fits/1");
  CHECK(json["fits"].size() > 10);
  CHECK(contains(run({"explain", "--fits"}).out, "gemm"));
}

TEST_CASE("A file name that is no UTF-8 breaks no JSON") {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "\xff\xfe.json";
  fs::copy_file(fs::path(STEPCAST_SOURCE_DIR) / "scenarios" / "library" / (std::string(small) + ".json"), file);
  const Outcome outcome = run({"explain", file.string(), "--format", "json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(nlohmann::json::parse(outcome.out)["schema"] == "stepcast.explain/1");
}

TEST_CASE("compare names what moved and reads results only") {
  const ScratchFolder scratch;
  Setting here;
  here.folder = scratch.path();
  REQUIRE(run({"simulate", small, "--steps", "1", "--format", "json", "-o", "a.json"}, here).exit_code == 0);
  REQUIRE(run({"simulate", small, "--steps", "1", "--set", "recompute=full", "--format", "json", "-o", "b.json"}, here)
              .exit_code == 0);
  const Outcome same = run({"compare", "a.json", "a.json"}, here);
  CHECK(same.exit_code == 0);
  CHECK(contains(same.out, "the same work on 8 devices"));
  const Outcome other = run({"compare", "a.json", "b.json"}, here);
  CHECK(contains(other.out, "no scaling result"));
  CHECK(contains(other.out, "recompute/mode"));
  CHECK(run({"compare", "a.json"}, here).exit_code == 2);
  CHECK(run({"compare", "a.json", "none.json"}, here).exit_code == 1);
  std::ofstream(scratch.path() / "other.json") << R"({"schema": "stepcast.account/1"})";
  const Outcome wrong = run({"compare", "a.json", "other.json"}, here);
  CHECK(wrong.exit_code == 1);
  CHECK(contains(wrong.err, "stepcast.forecast/1"));
}

}  // namespace
}  // namespace stepcast::cli_tests
