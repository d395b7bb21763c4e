// Calibration profiles: adjustments by key, device and software, and what wins over them.
#include <catch2/catch.hpp>

#include "scenarios/calibration.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

const std::string small = R"({"model": "mixtral-8x7b", "cluster": "h100:16", "software": "megatron-core-2025",
  "parallelism": {"tp": 1, "pp": 1, "ep": 8}, "workload": {"global_batch": 32}})";

std::string adjust(const std::string& list) { return R"({"name": "site", "adjust": [)" + list + "]}"; }

Scenario calibrated(const std::string& list, const std::vector<std::string>& sets = {}) {
  write_file("adjust.json", adjust(list));
  std::vector<std::string> all = {"calibration=adjust.json"};
  all.insert(all.end(), sets.begin(), sets.end());
  return loaded(small, all);
}

TEST_CASE("globs match any run of characters at each star") {
  CHECK(glob_matches("", ""));
  CHECK(glob_matches("*", ""));
  CHECK(glob_matches("gemm.*.e", "gemm.fp8_blockwise.e"));
  CHECK(glob_matches("*fp8*.e", "gemm.mxfp8.e"));
  CHECK(glob_matches("h100*", "h100"));
  CHECK_FALSE(glob_matches("h100", "h100-eth"));
  CHECK_FALSE(glob_matches("gemm.*.e", "gemm.bf16.m0"));
  CHECK_FALSE(glob_matches("", "x"));
  CHECK(glob_matches("a*b*c", "a-b-b-c"));
}

TEST_CASE("adjustments change constants by key, for the devices and profiles that they name") {
  const Scenario plain = loaded(small);
  const auto& device = plain.spec.cluster.device;
  const Scenario s = calibrated(
      R"({"keys": ["device.sustained_gemm.value"], "device": ["h1*"], "times": 0.9},
         {"keys": ["device.gemm.fp8*.e"], "times": 1.05, "at_most": 0.9},
         {"keys": ["software.host_launch_us"], "software": ["megatron-core-*"], "times": 2},
         {"keys": ["software.unfused_factor"], "software": ["fsdp*"], "times": 2},
         {"keys": ["software.permute_passes"], "kind": "moe", "value": 7},
         {"keys": ["software.router_passes"], "kind": "dense", "value": 7},
         {"keys": ["cluster.nic_efficiency"], "times": 0.5})");
  CHECK(s.spec.cluster.device.sustained_gemm == Approx(0.9 * device.sustained_gemm));
  CHECK(s.spec.cluster.device.gemm.at(topology::Precision::bf16).e == device.gemm.at(topology::Precision::bf16).e);
  CHECK(s.spec.cluster.device.gemm.at(topology::Precision::fp8).e ==
        Approx(1.05 * device.gemm.at(topology::Precision::fp8).e));
  CHECK(s.spec.cluster.device.gemm.at(topology::Precision::fp8_blockwise).e == Approx(0.9));
  CHECK(s.spec.runtime.host_launch_us == Approx(2 * plain.spec.runtime.host_launch_us));
  CHECK(s.spec.software.unfused_factor == plain.spec.software.unfused_factor);
  CHECK(s.spec.software.permute_passes == 7);
  CHECK(s.spec.software.router_passes == plain.spec.software.router_passes);
  CHECK(s.spec.cluster.nic_efficiency == Approx(0.5 * plain.spec.cluster.nic_efficiency));
}

TEST_CASE("what the scenario states wins over an adjustment") {
  const std::string list = R"({"keys": ["device.sustained_gemm.value", "device.membound.efficiency"], "times": 0.5},
                              {"keys": ["software.host_launch_us", "cluster.nic_efficiency"], "times": 0.5})";
  const Scenario s =
      calibrated(list, {"cluster.sustained_gemm=0.7", "software.host_launch_us=11", "cluster.nic_efficiency=0.9",
                        "cluster.constants={\"membound.efficiency\": 0.6}"});
  CHECK(s.spec.cluster.device.sustained_gemm == Approx(0.7));
  CHECK(s.spec.cluster.device.membound_efficiency == Approx(0.6));
  CHECK(s.spec.software.host_launch_us == Approx(11));
  CHECK(s.spec.cluster.nic_efficiency == Approx(0.9));
}

TEST_CASE("a map of the profile is adjusted by its member") {
  const Scenario plain = loaded(small, {"cluster=gb200:16"});
  const Scenario s = calibrated(R"({"keys": ["software.host_factor.gb*"], "times": 0.5})", {"cluster=gb200:16"});
  CHECK(s.spec.runtime.host_launch_us == Approx(0.5 * plain.spec.runtime.host_launch_us));
}

TEST_CASE("an adjusted scenario resolves to one that gives the same again") {
  const Scenario s = calibrated(R"({"keys": ["device.gemm.bf16.e", "device.sustained_gemm.value"], "times": 0.9},
                                   {"keys": ["software.host_launch_us"], "times": 2})");
  const Scenario again = loaded(s.resolved.dump());
  CHECK(again.spec.cluster.device.gemm.at(topology::Precision::bf16).e ==
        s.spec.cluster.device.gemm.at(topology::Precision::bf16).e);
  CHECK(again.spec.cluster.device.sustained_gemm == s.spec.cluster.device.sustained_gemm);
  CHECK(again.spec.runtime.host_launch_us == s.spec.runtime.host_launch_us);
  CHECK(again.resolved == s.resolved);
}

TEST_CASE("faulty adjustments are named") {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"times": 2})", "keys"},
      {R"({"keys": ["sustained_gemm"], "times": 2})", "begins with none of"},
      {R"({"keys": ["device.x"]})", "either 'times'"},
      {R"({"keys": ["device.x"], "times": 2, "value": 3})", "either 'times'"},
      {R"({"keys": ["device.x"], "times": -2})", "times"},
      {R"({"keys": ["device.x"], "times": 2, "devcie": ["h100"]})", "devcie"},
      {R"({"keys": ["device.x"], "times": 2, "kind": "sparse"})", "sparse"},
      {R"({"keys": [3], "times": 2})", "text in quotes"},
      {R"({"keys": ["device.gemm.bf16.e"], "times": 100})", "1.2"},
  };
  for (const auto& [list, why] : cases) {
    CAPTURE(list);
    write_file("adjust.json", adjust(list));
    const auto scenario = load_text(small, {"calibration=adjust.json"});
    REQUIRE_FALSE(scenario.ok());
    CHECK(shown(scenario.errors()).find(why) != std::string::npos);
  }
}

TEST_CASE("constants of the device are replaced by name, unknown ones refused") {
  const Scenario s = loaded(small, {"cluster.constants={\"gemm.bf16.e\": 0.5}"});
  CHECK(s.spec.cluster.device.gemm.at(topology::Precision::bf16).e == 0.5);
  // As explain shows it.
  CHECK(loaded(small, {"cluster.constants={\"device.gemm.bf16.e\": 0.5}"})
            .spec.cluster.device.provenance.at("gemm.bf16.e")
            .value == 0.5);
  const auto bad = load_text(small, {"cluster.constants={\"gemm.bf16.e\": -3}"});
  REQUIRE_FALSE(bad.ok());
  CHECK(shown(bad.errors()).find("/fits/gemm/bf16/e: found -3") != std::string::npos);
  CHECK(shown(bad.errors()).find("catalog/devices") == std::string::npos);
  const auto unknown = load_text(small, {"cluster.constants={\"gemm.bf16.ee\": 0.5}"});
  REQUIRE_FALSE(unknown.ok());
  CHECK(shown(unknown.errors()).find("gemm.bf16.e") != std::string::npos);
}

}  // namespace
}  // namespace stepcast::scenarios
