#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "parallelism/software_generation.h"

using stepcast::parallelism::nearest_generation;

TEST_CASE("A software name without a profile takes the nearest generation of its framework") {
  const std::vector<std::string> known = {
      "generic",           "nemo-24.07",         "nemo-24.11",         "nemo-25.04",       "nemo-2023",
      "megatron-core-0.8", "megatron-core-0.12", "megatron-core-2025", "nemo-mlperf-v5.0", "torchtitan-2024"};
  const auto nearest = [&](const char* name) { return nearest_generation(known, name).value_or(""); };
  CHECK(nearest("nemo-25.09") == "nemo-25.04");
  CHECK(nearest("nemo-24.09") == "nemo-24.07");
  CHECK(nearest("NeMo 24.12") == "nemo-24.11");
  CHECK(nearest("nemo-22.01") == "nemo-2023");  // older than all: the oldest
  CHECK(nearest("nemo") == "nemo-25.04");       // no version: the newest
  CHECK(nearest("nemo-mlperf-v5.2") == "nemo-mlperf-v5.0");
  CHECK(nearest("megatron-core-0.13.1") == "megatron-core-0.12");
  CHECK(nearest("megatron-core-2026") == "megatron-core-2025");
  CHECK(nearest("torchtitan-2025.06") == "torchtitan-2024");
  CHECK(nearest("colossalai-0.3").empty());
  CHECK(nearest("").empty());
  CHECK(nearest("-").empty());
}
