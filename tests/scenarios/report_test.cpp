// The forecast's three formats (field names of the schema), the diagnosis (worked case H) and number texts.
#include "scenarios/report/report.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/compare.h"
#include "scenarios/report/diagnosis.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

Forecast sample() {
  Forecast f;
  f.scenario.name = "sample";
  f.scenario.resolved = {{"schema", "stepcast.scenario/1"}, {"seed", 1}};
  auto& spec = f.scenario.spec;
  spec.model.name = "mixtral-8x7b";
  spec.model.moe.experts = 8;
  spec.cluster.name = "h100:64";
  spec.cluster.device.name = "h100";
  spec.cluster.devices = 64;
  spec.degrees.pp = 4;
  spec.degrees.ep = 8;
  spec.workload = {4096, 256, 1, parallelism::Packing::packed, {}, 3};
  f.step_time = {10, 10, 9, 11, -1, -1, 3};
  f.samples_s = {9, 10, 11};
  f.tokens_per_step = f.slots_per_step = 4096 * 256;
  f.assignments_per_step = 2 * 32 * f.tokens_per_step;
  f.utilisation = {
      0.39, 0.42, 1e18, 1.1e18, "attention_causal", 989e12, "bf16", 989e12, {{"attention_causal", 1e18, 0.39}}};
  const Ticks second = static_cast<Ticks>(ticks_per_second);
  f.breakdown["gemm"] = {6 * second, 6 * second, 7 * second, 7 * second, RankId(3), 6 * second};
  f.breakdown["exposed_ep"] = {3 * second, 3 * second, 4 * second, 4 * second, RankId(9), 2 * second};
  f.breakdown["bubble"] = {1 * second, 1 * second, 1 * second, 1 * second, RankId(0), 0};
  f.communication.push_back(
      {"all_to_all", "ep", "8 ranks in one NVLink domain", 1, 1, false, 64, 1e9, 8.75e8, 4, 3, 0.2, 16, 14});
  f.bubble_fraction = 0.1;
  f.ideal_bubble_fraction = 0.09;
  f.memory = {true, 60e9, 85.9e9, 58e9, 59e9, 17, 2.5, {{"weights", 40e9}, {"activations", 20e9}}};
  f.moe = true;
  f.expert_load = {1e6, 0, 0, 900, 1000, 1200, 1.2, 1};
  f.stage_split = "32 layers over 4 stages: 8 each";
  f.engine = {64, 1000000, 1.5, 2.5, 4e5, 2, 100000000, {{"lockstep", 1.0}}};
  f.assumptions = {"software profile assumed"};
  f.warnings = {"a warning"};
  return f;
}

TEST_CASE("JSON carries the fields that others rely on") {
  const auto json = to_json(sample());
  CHECK(json["schema"] == "stepcast.forecast/1");
  for (const char* pointer : {"/scenario/seed",
                              "/step_time_s/mean",
                              "/step_time_s/p50",
                              "/step_time_s/min",
                              "/step_time_s/max",
                              "/step_time_s/samples",
                              "/throughput/tokens_per_s",
                              "/throughput/tokens_per_s_per_device",
                              "/throughput/steps_per_s",
                              "/throughput/assignments_per_s",
                              "/utilisation/mfu",
                              "/utilisation/hfu",
                              "/utilisation/model_flops",
                              "/utilisation/executed_flops",
                              "/utilisation/convention",
                              "/utilisation/peak_flops_per_device",
                              "/utilisation/by_convention/attention_causal/model_flops",
                              "/utilisation/by_convention/attention_causal/mfu",
                              "/breakdown/gemm/mean_s",
                              "/breakdown/gemm/p95_s",
                              "/breakdown/gemm/max_s",
                              "/breakdown/gemm/max_rank",
                              "/breakdown/gemm/critical_path_s",
                              "/communication/0/kind",
                              "/communication/0/group",
                              "/communication/0/span",
                              "/communication/0/calls",
                              "/communication/0/payload_bytes",
                              "/communication/0/wire_bytes",
                              "/communication/0/raw_s",
                              "/communication/0/exposed_s",
                              "/communication/0/algbw_gb_per_s",
                              "/communication/0/busbw_gb_per_s",
                              "/bubble/fraction",
                              "/bubble/ideal_fraction",
                              "/memory/fits",
                              "/memory/peak_bytes",
                              "/memory/limit_bytes",
                              "/memory/peak_rank",
                              "/memory/by_part/weights",
                              "/moe/imbalance",
                              "/engine/devices",
                              "/engine/rank_ops",
                              "/engine/tier_share/lockstep",
                              "/engine/wall_s",
                              "/engine/rank_ops_per_s",
                              "/engine/threads",
                              "/engine/peak_rss_bytes",
                              "/assumptions/0",
                              "/warnings/0"}) {
    CAPTURE(pointer);
    CHECK(json.contains(nlohmann::ordered_json::json_pointer(pointer)));
  }
  CHECK_FALSE(json["step_time_s"].contains("p95"));  // three samples see no tail
  CHECK(json["throughput"]["tokens_per_s"].get<double>() == Approx(4096 * 25.6));
}

TEST_CASE("Percentiles appear once there are samples for them") {
  Forecast f = sample();
  f.step_time.p95_s = 10.8;
  CHECK(to_json(f)["step_time_s"]["p95"].get<double>() == Approx(10.8));
  CHECK(to_table(f, false).find("p95 10.8 s") != std::string::npos);
}

TEST_CASE("A result can be read back for a comparison") {
  auto result = to_json(sample());
  for (const char* block : {"model", "cluster", "workload"})
    result["scenario"][block] = nlohmann::ordered_json::object();
  const auto document = parse_json(result.dump(), "a.json");
  REQUIRE(document.ok());
  const auto run = read_run(*document);
  REQUIRE(run.ok());
  CHECK(run->devices == 64);
  CHECK(run->step_time_s == 10);
  CHECK(run->breakdown_s.at("exposed_ep") == 3);
  CHECK(run->spans.at("ep") == "8 ranks in one NVLink domain");
}

TEST_CASE("The table fits 100 columns and answers on its first screen") {
  const std::string table = to_table(sample(), false);
  std::size_t line_number = 0, begin = 0;
  std::string first_screen;
  while (begin < table.size()) {
    const auto end = table.find('\n', begin);
    const std::string line = table.substr(begin, end - begin);
    CAPTURE(line);
    CHECK(line.size() <= 100);
    if (++line_number <= 24) first_screen += line + "\n";
    begin = end + 1;
  }
  for (const char* answer : {"10.0 s mean", "tokens/s", "MFU 39.0 %", "attention_causal", "989 TFLOP/s", "60.0 GB",
                             "fits", "bubble", "ideal 9.00 %", "gemm"}) {
    CAPTURE(answer);
    CHECK(first_screen.find(answer) != std::string::npos);
  }
  CHECK(table.find('\x1b') == std::string::npos);
  CHECK(to_table(sample(), true).find('\x1b') != std::string::npos);
}

TEST_CASE("CSV has as many cells as columns") {
  const std::string csv = to_csv(sample());
  const auto middle = csv.find('\n');
  const auto commas = [](const std::string& s) { return std::count(s.begin(), s.end(), ','); };
  CHECK(commas(csv.substr(0, middle)) == commas(csv.substr(middle + 1)));
  CHECK(csv.find("exposed_ep_s") != std::string::npos);
}

Symptoms healthy() {
  Symptoms s;
  s.mfu = 0.45;
  s.hfu = 0.47;
  s.stages = 4;
  s.microbatches = 32;
  return s;
}

TEST_CASE("Case H: each symptom leads to its cause") {
  CHECK(diagnose(healthy()).empty());
  Symptoms s = healthy();
  const auto leads_to = [&s](const char* cause) {
    const auto hints = diagnose(s);
    return std::any_of(hints.begin(), hints.end(),
                       [cause](const Hint& hint) { return hint.look_at.find(cause) != std::string::npos; });
  };
  SECTION("low MFU with high HFU") {
    s.mfu = 0.25;
    s.hfu = 0.34;
    CHECK(leads_to("recompute or padding"));
  }
  SECTION("high MFU with low goodput") {
    s.goodput = 0.7;
    CHECK(leads_to("failures, checkpoints, data"));
  }
  SECTION("low MFU with most exposed time in all-to-all") {
    s.mfu = s.hfu = 0.2;
    s.exposed_ep = 0.3;
    s.exposed_dp = 0.1;
    for (const char* cause : {"expert load", "EP group", "capacity padding", "overlap"}) CHECK(leads_to(cause));
  }
  SECTION("p95 far above the mean") {
    s.p95_over_mean = 1.3;
    CHECK(leads_to("hot experts, a slow rank"));
  }
  SECTION("one microbatch on four stages") {
    s.microbatches = 1;
    s.bubble = 0.75;
    CHECK(leads_to("bubble"));
  }
}

TEST_CASE("Numbers read as people write them") {
  CHECK(time_text(70.466) == "70.5 s");
  CHECK(time_text(0.0123456) == "12.3 ms");
  CHECK(time_text(8.9e-6) == "8.90 us");
  CHECK(time_text(0) == "0 s");
  CHECK(bytes_text(81.2e9) == "81.2 GB");
  CHECK(bytes_text(999.9e6) == "1.00 GB");
  CHECK(count_text(2.31e6) == "2.31 M");
  CHECK(count_text(64) == "64");
  CHECK(percent_text(0.05853) == "5.85 %");
  CHECK(bar(0.5, 4) == "##..");
  CHECK(bar(7, 4) == "####");
  CHECK(csv_line({"a,b", "c\"d", "e"}) == "\"a,b\",\"c\"\"d\",e\n");
}

}  // namespace
}  // namespace stepcast::scenarios
