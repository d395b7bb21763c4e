// Statistics of errors, and the way of a row through the engine.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "validation/mapping.h"
#include "validation/validate.h"

using namespace stepcast;
using namespace stepcast::validation;

namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;

const std::string header =
    "id,family,kind,model,device,devices,precision,sequence_length,global_batch,micro_batch,tp,pp,vpp,ep,sharding,"
    "recompute,software,step_time_s\n";

Validation run(const std::string& rows, bool ranges) {
  const auto file = parse_runs(header + rows, "runs.csv");
  REQUIRE(file.ok());
  ValidateOptions options;
  options.catalog_root = root;
  options.ranges = ranges;
  options.threads = 1;
  return validate(*file, options);
}

}  // namespace

TEST_CASE("error statistics are fractions with their sign in the bias") {
  const ErrorStats s = error_stats({-0.2, -0.1, 0.0, 0.1, 0.4});
  CHECK(s.n == 5);
  CHECK(s.bias == Approx(0.0).margin(1e-12));
  CHECK(s.median_abs == Approx(0.1));
  CHECK(s.max_abs == Approx(0.4));
  CHECK(error_stats({}).n == 0);
}

TEST_CASE("Kendall's tau counts agreeing pairs") {
  CHECK(kendall_tau({1, 2, 3, 4}, {10, 20, 30, 40}) == Approx(1));
  CHECK(kendall_tau({1, 2, 3, 4}, {4, 3, 2, 1}) == Approx(-1));
  CHECK(kendall_tau({1, 2, 3}, {1, 3, 2}) == Approx(1.0 / 3));
}

TEST_CASE("a step time that contradicts the row's FLOP rates by a unit is refused") {
  const std::string columns =
      "id,kind,model,device,devices,precision,sequence_length,global_batch,micro_batch,tp,pp,sharding,recompute,"
      "software,model_tflops_per_device,mfu_percent,vocabulary,step_time_s\n";
  const std::string layout = ",dense,Llama3-8B,h100,8,bf16,8192,16,1,1,1,zero3,full,torchtitan-2025,";
  // 16 sequences of 8192 tokens at about 52 GFLOP a token are some 425 TFLOP/s a device in 2 s.
  const auto file = parse_runs(columns + "good" + layout + "425,43,,2.0\nms" + layout + "425,,,2000\nms2" + layout +
                                   ",43,,2000\nshare" + layout + ",0.43,,2.0\ngiga" + layout + "0.425,,,2.0\n",
                               "runs.csv");
  REQUIRE(file.ok());
  ValidateOptions options;
  options.catalog_root = root;
  options.ranges = false;
  const Validation v = validate(*file, options);
  REQUIRE(v.rows.size() == 1);
  CHECK(v.rows.front().id == "good");
  REQUIRE(v.refused.size() == 4);
  CHECK(v.refused[0].line == 3);
  for (const std::size_t i : {0, 1, 3}) {
    CAPTURE(v.refused[i].why);
    CHECK(v.refused[i].why.find("a factor near 1,000, so units are mixed") != std::string::npos);
  }
  CHECK(v.refused[2].why.find("mfu_percent says 0.43: a fraction where percent is meant?") != std::string::npos);
  REQUIRE(v.warnings.size() == 1);
  CHECK(to_json(v)["warnings"].size() == 1);
  CHECK(to_table(v, false).find("Warnings\n  column 'vocabulary'") != std::string::npos);
}

TEST_CASE("a row is forecast, its assumptions named, and open fields give a range") {
  const Validation v = run("a,f,dense,Llama3-8B,h100,8,bf16,8192,16,,1,1,1,,zero3,,torchtitan-2025,2.0\n", true);
  REQUIRE(v.rows.size() == 1);
  const RowResult& r = v.rows.front();
  CHECK(r.predicted_s > 0.5);
  CHECK(r.predicted_s < 5);
  CHECK(r.error == Approx(r.predicted_s / 2.0 - 1));
  CHECK(r.low_s <= r.predicted_s);
  CHECK(r.high_s > r.predicted_s);  // full recompute costs time
  CHECK(r.predicted_peak_memory_gb > 10);
  bool named = false;
  for (const auto& a : r.assumed) named = named || a.find("micro_batch not given") != std::string::npos;
  CHECK(named);
}

TEST_CASE("rows out of scope are refused with the reason and the rest is scored") {
  const Validation v =
      run("a,f,dense,Llama3-8B,h100,8,bf16,8192,16,1,1,1,1,,zero3,none,torchtitan-2025,2.0\n"
          "b,f,dense,Unheard-of,h100,8,bf16,8192,16,1,1,1,1,,,,,2.0\n"
          "c,f,dense,Llama3-8B,tpu-v9,8,bf16,8192,16,1,1,1,1,,,,,2.0\n"
          "d,f,dense,Llama3-8B,h100,8,bf16,8192,16,1,,,,,,,,2.0\n",
          false);
  CHECK(v.rows.size() == 1);
  REQUIRE(v.refused.size() == 3);
  CHECK(v.refused[0].why.find("not known") != std::string::npos);
  CHECK(v.refused[1].why.find("tpu-v9") != std::string::npos);
  CHECK(v.refused[2].why.find("too little layout") != std::string::npos);
  CHECK(v.by_family.at("f").n == 1);
}

TEST_CASE("Published model names find the catalogue's; another number behind one is another model") {
  const auto model_of = [](const std::string& name, std::string* assumed = nullptr) -> std::string {
    const auto file = parse_runs(
        header + "r-1,f,moe,\"" + name + "\"" + ",h100,64,bf16,4096,512,1,1,1,1,8,,none,megatron-bridge-25.09,3\n",
        "runs.csv");
    REQUIRE(file.ok());
    REQUIRE(file->runs.size() == 1);
    const auto mapped = map_run(file->runs.front(), root);
    if (!mapped.ok()) return {};
    for (const std::string& a : mapped->assumed) {
      if (assumed != nullptr && a.starts_with("model")) *assumed = a;
    }
    return mapped->scenario["model"]["name"];
  };
  CHECK(model_of("DeepSeek-V3 671B") == "deepseek-v3");
  CHECK(model_of("DeepSeek-V3.2").empty());
  CHECK(model_of("Llama3.1-405B") == "llama-3.1-405b");
  CHECK(model_of("llama 3.1 405b") == "llama-3.1-405b");
  CHECK(model_of("Mixtral-8x22B-G8T8") == "mixtral-8x22b-g8t8");
  CHECK(model_of("Mixtral-8x22B") == "mixtral-8x22b");
  CHECK(model_of("Moonlight") == "moonlight-16b-a3b");
  CHECK(model_of("GLM-4.5-Air") == "glm-4.5-air");
  CHECK(model_of("OLMoE-1B-7B-0924") == "olmoe-1b-7b");
  CHECK(model_of("Grok-1 proxy (4 layers, EP8)") == "grok-1");
  CHECK(model_of("Unheard-of-9B").empty());
  std::string assumed;
  CHECK(model_of("Qwen3-30B", &assumed) == "qwen3-30b-a3b");
  CHECK(assumed.find("qwen3-30b-a3b") != std::string::npos);
}

TEST_CASE("Keys set for all rows win over a row's, and every row says so") {
  const auto file =
      parse_runs(header + "r-1,f,moe,Mixtral-8x7B,h100,8,bf16,4096,64,1,1,1,1,8,,none,nemo-24.07,3\n", "runs.csv");
  REQUIRE(file.ok());
  ValidateOptions options;
  options.catalog_root = root;
  options.ranges = false;
  options.threads = 1;
  const Validation plain = validate(*file, options);
  options.sets = {"workload.micro_batch=2"};
  const Validation set = validate(*file, options);
  REQUIRE(plain.rows.size() == 1);
  REQUIRE(set.rows.size() == 1);
  CHECK(set.rows.front().predicted_s != plain.rows.front().predicted_s);
  const auto& assumed = set.rows.front().assumed;
  CHECK(std::find(assumed.begin(), assumed.end(), "set for every row: workload.micro_batch=2") != assumed.end());
}

TEST_CASE("Open fields of MoE rows take the usual value of their software, and say so") {
  const auto mapped = [](const std::string& row) {
    const auto file = parse_runs(header + row, "runs.csv");
    REQUIRE(file.ok());
    auto m = map_run(file->runs.front(), root);
    REQUIRE(m.ok());
    return std::move(*m);
  };
  const auto says = [](const MappedRun& m, const std::string& what) {
    return std::any_of(m.assumed.begin(), m.assumed.end(), [&](const auto& a) { return a.find(what) == 0; });
  };
  // Megatron-Core splits experts as the rest unless told otherwise; recipes of Megatron-Bridge tell it 1.
  const MappedRun early = mapped("a,f,moe,Mixtral-8x7B,h100,32,bf16,4096,64,1,4,1,,8,,none,nemo-24.11,2.0\n");
  CHECK(early.scenario.at("parallelism").at("etp") == 4);
  CHECK(says(early, "etp not given: tp, 4"));
  const MappedRun late = mapped("a,f,moe,Mixtral-8x7B,h100,32,bf16,4096,64,1,4,1,,8,,none,megatron-bridge-26.04,2.0\n");
  CHECK_FALSE(late.scenario.at("parallelism").contains("etp"));
  CHECK(says(late, "etp not given: 1"));
  CHECK(says(late, "cuda_graphs not given: the profile's"));
  const MappedRun grace =
      mapped("a,f,moe,Mixtral-8x7B,gb200,32,bf16,4096,64,1,1,1,,8,,none,megatron-bridge-26.04,2.0\n");
  CHECK(grace.scenario.at("runtime").at("cuda_graphs") == "partial");
  CHECK(says(grace, "cuda_graphs not given: of router and preprocessing"));
  CHECK(grace.scenario.at("runtime").at("dispatcher") == "hybridep");
  CHECK(says(grace, "dispatcher not given: hybridep"));
}

TEST_CASE("Tags of a row's software replace values of its profile") {
  const auto file = parse_runs(
      "id,kind,model,device,devices,sequence_length,global_batch,tp,pp,ep,software,software_tags,step_time_s\n"
      "a,moe,Mixtral-8x7B,gb200,32,4096,64,1,1,8,megatron-core-2025,permute_fusion;router_fusion;host_binding;graph_"
      "shared_expert,2.0\n",
      "runs.csv");
  REQUIRE(file.ok());
  const auto mapped = map_run(file->runs.front(), root);
  REQUIRE(mapped.ok());
  CHECK(mapped->scenario.at("software").at("name") == "megatron-core-2025");
  CHECK(mapped->scenario.at("software").at("router_passes") == 6);
  CHECK(mapped->scenario.at("software").at("graphs_shared_expert") == true);
  CHECK(mapped->scenario.at("runtime").at("host_binding") == true);
  CHECK(mapped->scenario.at("software").at("permute_fusion") == true);
}

TEST_CASE("A row of Megatron-Core that does not state permute fusion runs without, and says so") {
  const std::string head =
      "id,kind,model,device,devices,sequence_length,global_batch,tp,pp,ep,software,permute_fusion,"
      "software_tags,step_time_s\na,moe,Mixtral-8x7B,gb200,32,4096,64,1,1,8,";
  const auto mapped = [&](const std::string& cells) {
    const auto file = parse_runs(head + cells + ",2.0\n", "runs.csv");
    REQUIRE(file.ok());
    auto run = map_run(file->runs.front(), root);
    REQUIRE(run.ok());
    return std::move(*run);
  };
  const auto says = [](const MappedRun& m, const std::string& what) {
    return std::any_of(m.assumed.begin(), m.assumed.end(),
                       [&](const std::string& a) { return a.find(what) != std::string::npos; });
  };
  const MappedRun open = mapped("megatron-core-2025,,");
  CHECK(open.scenario.at("software").at("permute_fusion") == false);
  CHECK(says(open, "permute_fusion not given: off"));
  const MappedRun on = mapped("megatron-core-2025,on,fused_quantise_swizzle;tuned_dispatcher");
  CHECK(on.scenario.at("software").at("permute_fusion") == true);
  CHECK(on.scenario.at("software").at("fused_swizzle") == true);
  CHECK(on.scenario.at("software").at("deepep_sms") == 32);
  CHECK(says(on, "tuned_dispatcher: how is not told"));
  CHECK_FALSE(says(on, "permute_fusion"));
  const auto refused = [&](const std::string& cells, const std::string& says_what) {
    const auto file = parse_runs(head + cells + ",2.0\n", "runs.csv");
    REQUIRE(file.ok());
    const auto run = file->runs.empty() ? Result<MappedRun>(Errors{}) : map_run(file->runs.front(), root);
    const std::string why = file->runs.empty() ? file->refused.front().why : run.errors().front().message;
    INFO(why);
    CHECK(why.find(says_what) != std::string::npos);
  };
  refused("megatron-core-2025,true,", "permute_fusion is 'true', allowed: on, off");
  refused("megatron-core-2025,on,no_permute_fusion", "software_tags has 'no_permute_fusion'");
  CHECK(mapped("megatron-core-2025,off,").scenario.at("software").at("permute_fusion") == false);
  CHECK(mapped("megatron-bridge-26.04,,").scenario.at("software").is_string());
}
