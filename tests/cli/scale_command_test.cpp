// stepcast scale as a user runs it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

const std::string small = "scale olmoe-1b-7b-h100-8 --set workload.steps=1 --set workload.global_batch=64 ";

TEST_CASE("A curve is planned at every size, in every format and on the page") {
  const ScratchFolder folder;
  Setting setting;
  setting.folder = folder.path();
  const std::string planned =
      small + "--devices 1,8,16 --layout replan --tp 1,2 --pp 1 --etp 1 --ep 4,8 --micro-batch 1 --sharding zero1 ";
  const Outcome json = run(words(planned + "--format json --report page.html"), setting);
  CAPTURE(json.err);
  REQUIRE(json.exit_code == 0);
  const auto curve = nlohmann::json::parse(json.out);
  CHECK(curve["layout_rule"] == "replan");
  REQUIRE(curve["points"].size() == 3);
  CHECK(curve["points"][0]["feasible"] == false);
  CHECK(curve["points"][0]["why"].get<std::string>().find("no layout of") != std::string::npos);
  CHECK(curve["points"][1]["comparable"] == true);
  const std::string layout = curve["points"][2]["layout"];
  CHECK(layout.starts_with("tp "));
  CHECK(curve["points"][2]["settings"].size() > 10);
  CHECK(read_file(folder.path() / "page.html").find(layout) != std::string::npos);
  const Outcome table = run(words(planned), setting);
  CHECK(table.out.find("layout: " + layout) != std::string::npos);
  CHECK(table.out.find("cannot run: no layout of") != std::string::npos);
  const Outcome csv = run(words(planned + "--format csv"), setting);
  CHECK(csv.out.find('"' + layout + '"') != std::string::npos);
  // The layout of a size is what simulate then forecasts.
  std::vector<std::string> simulate = words("simulate olmoe-1b-7b-h100-8 --format json --set workload.steps=1");
  for (const auto& set : curve["points"][2]["settings"]) simulate.insert(simulate.end(), {"--set", set});
  const Outcome step = run(simulate, setting);
  CAPTURE(step.err);
  REQUIRE(step.exit_code == 0);
  CHECK(nlohmann::json::parse(step.out)["step_time_s"]["mean"].get<double>() ==
        Approx(curve["points"][2]["step_time_s"].get<double>()).epsilon(1e-12));
}

TEST_CASE("Options of scale that would be passed over are refused") {
  for (const auto& [flags, part] : std::vector<std::pair<std::string, std::string>>{
           {"--tp 1", "--tp: belongs to --layout replan"},
           {"--headroom 0.1", "--headroom: belongs to --layout replan"},
           {"--layout replam", "did you mean 'replan'"},
           {"--layout replan --tp 0", "--tp"},
           {"--layout replan --schedule 1f1c", "did you mean '1f1b'"},
           {"--devices 8,16 --from 8", "--from: not beside --devices"},
           {"--devices 8,16 --baseline 32", "--baseline: 32 is not among"}}) {
    const Outcome outcome = run(words(small + flags));
    CAPTURE(flags, outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace stepcast::cli_tests
