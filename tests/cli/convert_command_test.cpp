// import hf and export scenario as a user runs them.
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

const std::string source = STEPCAST_SOURCE_DIR;

double step_seconds(const Outcome& outcome) {
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return nlohmann::json::parse(outcome.out)["step_time_s"]["mean"];
}

TEST_CASE("A Hugging Face configuration becomes a model file that scenarios take") {
  const ScratchFolder folder;
  Setting setting;
  setting.folder = folder.path();
  const std::string config = source + "/tests/data/hf_configs/gpt-oss-20b.json";
  const Outcome imported = run({"import", "hf", config, "--output", "model.json"}, setting);
  CAPTURE(imported.err);
  REQUIRE(imported.exit_code == 0);
  const auto model = nlohmann::json::parse(read_file(folder.path() / "model.json"));
  CHECK(model["name"] == "gpt-oss-20b");
  CHECK(model["hidden"] == 2880);
  CHECK(model["moe"]["experts"] == 32);
  CHECK(run({"import", "hf", config, "--format", "csv"}).out.starts_with("key,value\n"));
  const std::string rest = " --cluster h100:8 --set parallelism.ep=8 --set workload.global_batch=16 --format json";
  const double own = step_seconds(run(words("simulate --model model.json" + rest), setting));
  CHECK(own == step_seconds(run(words("simulate --model " + config + rest), setting)));
  // Errors of a model file name its line.
  std::ofstream(folder.path() / "wrong.json") << "{\n\"hidden\": 64,\n\"vocab\": -1}\n";
  const Outcome wrong = run(words("simulate --model wrong.json --cluster h100:8"), setting);
  CHECK(wrong.exit_code != 0);
  CHECK(wrong.err.find("wrong.json:3") != std::string::npos);
}

TEST_CASE("What import hf cannot read or use is refused") {
  const Outcome none = run({"import", "hf", "no-such-file.json"});
  CHECK(none.exit_code == 1);
  CHECK(none.err.find("no-such-file.json") != std::string::npos);
  const std::string config = source + "/tests/data/hf_configs/gpt-oss-20b.json";
  const Outcome set = run({"import", "hf", config, "--set", "workload.steps=1"});
  CHECK(set.exit_code == 2);
  CHECK(set.err.find("--set: 'hf' makes no scenario") != std::string::npos);
  CHECK(run({"import", "hf", config, "--cluster", "h100:8"}).exit_code == 2);
}

TEST_CASE("An exported scenario is complete and gives the same forecast") {
  const ScratchFolder folder;
  Setting setting;
  setting.folder = folder.path();
  const std::string rest = " --set workload.steps=2 --set parallelism.ep=4";
  REQUIRE(run(words("export scenario olmoe-1b-7b-h100-8 --output full.json" + rest), setting).exit_code == 0);
  const auto full = nlohmann::json::parse(read_file(folder.path() / "full.json"));
  CHECK(full["schema"] == "stepcast.scenario/1");
  CHECK(full["parallelism"]["ep"] == 4);
  CHECK(full["runtime"].contains("host_launch_us"));
  CHECK(full["model"]["moe"]["experts"] == 64);
  CHECK(step_seconds(run(words("simulate full.json --format json"), setting)) ==
        step_seconds(run(words("simulate olmoe-1b-7b-h100-8 --format json" + rest), setting)));
  const Outcome origins = run(words("export scenario olmoe-1b-7b-h100-8 --format csv" + rest));
  CHECK(origins.out.find("/parallelism/ep,4,--set parallelism.ep=4\n") != std::string::npos);
}

}  // namespace
}  // namespace stepcast::cli_tests
