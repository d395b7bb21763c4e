#include "parallelism/software.h"

#include <catch2/catch.hpp>

#include "tests/scenarios/load.h"

namespace stepcast::parallelism {
namespace {

using scenarios::shown;
using scenarios::source_dir;

SoftwareProfile profile(const std::string& name) {
  auto loaded = load_software(source_dir, name);
  INFO(name);
  INFO((loaded ? std::string() : shown(loaded.errors())));
  REQUIRE(loaded.ok());
  return std::move(*loaded);
}

}  // namespace

TEST_CASE("every software profile loads and each of its values has a source") {
  const auto names = list_software(source_dir);
  INFO((names ? std::string() : shown(names.errors())));
  REQUIRE(names.ok());
  CHECK(names->size() >= 30);
  for (const std::string& name : *names) {
    const SoftwareProfile p = profile(name);
    CHECK(p.name == name);
    CHECK(p.summary.size() > 10);
    for (const SoftwareFact& fact : describe(p)) {
      if (fact.key == "graph_modules") continue;  // only where graphs are partial
      INFO(name + " " + fact.key);
      CHECK_FALSE(fact.source.empty());
    }
  }
}

TEST_CASE("the software of measured runs maps to profiles") {
  for (const char* name : {"megatron-deepspeed-2022",
                           "megatron-deepspeed-2021",
                           "llm-foundry-2023",
                           "megatron-core-0.11",
                           "megatron-core-0.8",
                           "megatron-core-2025",
                           "nemo-24.05-to-25.05",
                           "nemo-24.07",
                           "nemo-24.11",
                           "nemo-25.04",
                           "nemo-2024",
                           "nemo-1.x",
                           "nemo-mlperf-v3.0",
                           "nemo-mlperf-v3.1",
                           "nemo-mlperf-v4.0",
                           "nemo-mlperf-v4.1",
                           "nemo-mlperf-v5.0",
                           "nemo-mlperf-v5.1",
                           "megatron-lm",
                           "megatron-lm-2021",
                           "megatron-lm-2022",
                           "oneflow-2021",
                           "megatron-bridge-2026",
                           "megatron-bridge-25.09",
                           "megatron-bridge-25.11",
                           "megatron-bridge-26.02",
                           "megatron-bridge-26.02.01",
                           "megatron-bridge-26.04",
                           "megatron-bridge-26.04.01",
                           "megatron-bridge-26.06",
                           "megatron-bridge-26.06.01",
                           "megatron-bridge-26.08",
                           "primus-2025",
                           "torchtitan-2024",
                           "torchtitan-2024.12",
                           "torchtitan-2025.06",
                           "maxtext-2025",
                           "pax-2023",
                           "pax-2025",
                           "amd-mlperf-v5.1"}) {
    profile(name);
  }
}

TEST_CASE("a profile inherits and overrides") {
  const SoftwareProfile old = profile("megatron-lm-2021");
  CHECK_FALSE(old.overlap_gradients);
  CHECK(old.attention.at("default") == "unfused");
  CHECK_FALSE(old.sequence_parallel);
  const SoftwareProfile next = profile("megatron-lm-2022");
  CHECK(next.sequence_parallel);
  CHECK_FALSE(next.overlap_gradients);
  CHECK(profile("megatron-bridge-26.04.01").name == "megatron-bridge-26.04");
}

TEST_CASE("the vocabulary is padded for the ranks that share it, and for one rank alone where the profile does so") {
  SoftwareProfile p = profile("megatron-lm-2021");
  CHECK(padded_vocabulary(p, 50257, 1) == 50304);
  CHECK(padded_vocabulary(p, 50257, 8) == 51200);
  p.pads_vocab_alone = false;
  CHECK(padded_vocabulary(p, 50257, 1) == 50257);
  CHECK(padded_vocabulary(p, 50257, 8) == 51200);
  p.padded_vocab_multiple = 1;
  CHECK(padded_vocabulary(p, 50257, 8) == 50264);
}

TEST_CASE("a factor is a number for every device, or one a device") {
  const std::string scenario = R"({"model": "olmoe-1b-7b", "cluster": "h100:8", "parallelism": {"ep": 8},
    "workload": {"sequence_length": 1024, "global_batch": 8}, "software": {"name": "generic", "host_binding_factor": )";
  const auto given = [&](const std::string& value) {
    scenarios::ScenarioRequest request;
    request.file = scenarios::write_file("factor.json", scenario + value + "}}");
    request.catalog_root = source_dir;
    return scenarios::load_scenario(request);
  };
  const auto all = given("0.5");
  INFO((all ? std::string() : shown(all.errors())));
  REQUIRE(all.ok());
  CHECK(factor_of(all->spec.software.host_binding_factor, "h100") == 0.5);
  CHECK(factor_of(all->spec.software.host_binding_factor, "gb200") == 0.5);
  const auto one = given(R"({"h100": 0.9})");
  REQUIRE(one.ok());
  CHECK(factor_of(one->spec.software.host_binding_factor, "h100") == 0.9);
  CHECK(factor_of(one->spec.software.host_binding_factor, "gb200") < 0.9);
  const auto slip = given(R"({"H100": 0.9})");
  REQUIRE_FALSE(slip.ok());
  CHECK(shown(slip.errors()).find("did you mean 'h100'?") != std::string::npos);
  const auto own = given(R"({"our-own-box": 0.9})");
  REQUIRE(own.ok());
  CHECK(std::any_of(own->assumptions.begin(), own->assumptions.end(),
                    [](const std::string& a) { return a.find("our-own-box") != std::string::npos; }));
  for (const char* wrong : {"0", "11", "\"half\"", "[1]", R"({"h100": 11})"}) CHECK_FALSE(given(wrong).ok());
}

TEST_CASE("an unknown profile names the nearest") {
  const auto loaded = load_software(source_dir, "megatron-core-2027");
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.errors().front().message.find("did you mean 'megatron-core-202") != std::string::npos);
  CHECK_FALSE(load_software(source_dir / "nowhere", "generic").ok());
}

TEST_CASE("faults of a catalogue have a line") {
  const auto folder = scenarios::write_file("placeholder", "").parent_path();
  std::filesystem::create_directories(folder / "parallelism" / "catalog");
  const auto faults = [&](const std::string& text) {
    scenarios::write_file("parallelism/catalog/software.json", text);
    const auto loaded = load_software(folder, "a");
    REQUIRE_FALSE(loaded.ok());
    return shown(loaded.errors());
  };
  CHECK(faults(R"({"profiles": [{"name": "a", "summary": "x", "values":
 {"prefetch": {"value": -1, "source": "s"}}}]})")
            .find("software.json:2:") != std::string::npos);
  CHECK(faults(R"({"profiles": [{"name": "a", "summary": "x", "values": {"prefetc": {"value": 1, "source": "s"}}}]})")
            .find("did you mean 'prefetch'?") != std::string::npos);
  CHECK(faults(R"({"profiles": [{"name": "a", "summary": "x", "values": {"prefetch": {"value": 1}}}]})")
            .find("'source' is missing") != std::string::npos);
  CHECK(faults(
            R"({"profiles": [{"name": "a", "summary": "x", "base": "b"}, {"name": "b", "summary": "x", "base": "a"}]})")
            .find("circle") != std::string::npos);
  CHECK(
      faults(R"({"profiles": [{"name": "a", "summary": "x"}, {"name": "a", "summary": "y"}]})").find("stands twice") !=
      std::string::npos);
}

}  // namespace stepcast::parallelism
