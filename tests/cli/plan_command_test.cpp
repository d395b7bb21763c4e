// stepcast plan as a user runs it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

const std::string small =
    "plan --model olmoe-1b-7b --cluster h100:8 --set workload.global_batch=32 --set workload.sequence_length=2048 "
    "--tp 1,2 --pp 1,2 --ep 4,8 --etp 1 --micro-batch 1 --vpp 1,2 --schedule 1f1b,interleaved --sharding zero1 "
    "--recompute none";

TEST_CASE("A plan ranks layouts, and its winner can be written and simulated") {
  const ScratchFolder folder;
  Setting setting;
  setting.folder = folder.path();
  const Outcome outcome =
      run(words(small + " --top 3 --price 2 --format json --write best.json --megatron best.sh"), setting);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["schema"] == "stepcast.plan/1");
  REQUIRE(json["layouts"].size() == 3);
  CHECK(json["layouts"][0]["rank"] == 1);
  CHECK(json["layouts"][0]["cost_per_million_tokens"] > 0);
  CHECK(json["counts"]["enumerated"] == 64);
  CHECK(json["layouts_per_s"] > 0);
  const Outcome again = run(words("simulate best.json --format json"), setting);
  CAPTURE(again.err);
  REQUIRE(again.exit_code == 0);
  CHECK(nlohmann::json::parse(again.out)["step_time_s"]["mean"] == json["layouts"][0]["step_time_s"]);
  CHECK(read_file(folder.path() / "best.sh").find("--expert-model-parallel-size") != std::string::npos);
}

TEST_CASE("Every axis of a layout is in the result, and a free batch is one of them") {
  const Outcome outcome =
      run(words(small + " --global-batch free --dispatcher alltoall,deepep --overlap profile,all,none "
                        "--no-fronts --format json"));
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["counts"]["enumerated"] == 32 * 5 * 2 * 3);
  for (const auto& layout : json["layouts"]) {
    for (const char* key : {"tp", "cp", "pp", "vpp", "ep", "etp", "schedule", "sharding"})
      CHECK(layout["parallelism"].contains(key));
    for (const char* key : {"micro_batch", "global_batch", "recompute", "dispatcher", "overlap"})
      CHECK(layout.contains(key));
    CHECK(layout["layout"].get<std::string>().find("batch ") != std::string::npos);
  }
  CHECK(json["layouts"][0]["global_batch"] == 128);
  bool told = false;
  for (const auto& line : json["assumptions"])
    told = told || line.get<std::string>().find("8, 16, 32, 64, 128 sequences a step") != std::string::npos;
  CHECK(told);
  const Outcome csv = run(words(small + " --no-fronts --format csv"));
  CHECK(csv.out.find(",recompute,dispatcher,overlap,") != std::string::npos);
}

TEST_CASE("Axes that are not understood are named with their flag") {
  for (const auto& [flags, part] :
       std::vector<std::pair<std::string, std::string>>{{"--schedule 1f1c", "did you mean '1f1b'"},
                                                        {"--tp 0", "--tp"},
                                                        {"--recompute selective:cor_attn", "core_attn"},
                                                        {"--headroom 2", "--headroom"}}) {
    const Outcome outcome = run(words("plan --model olmoe-1b-7b --cluster h100:8 " + flags));
    CAPTURE(flags, outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

TEST_CASE("A plan without a layout that fits fails and says why") {
  const Outcome outcome =
      run(words("plan --model deepseek-v3 --cluster h100:8 --set workload.global_batch=64 --recompute none --pp 1,2"));
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("cannot fit") != std::string::npos);
}

}  // namespace
}  // namespace stepcast::cli_tests
