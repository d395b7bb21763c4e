// Profiles: a forecast's own trace gives its partition back; PyTorch profiler traces by HTA's definitions.
#include "scenarios/profile/profile.h"

#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <zlib.h>
#include <catch2/catch.hpp>

#include "parallelism/lower.h"
#include "scenarios/forecast.h"
#include "scenarios/profile/profile_compare.h"
#include "scenarios/report/report.h"
#include "sim/record/trace.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using sim::Category;

double part(const Profile& profile, Category category, std::size_t rank = 0) {
  double sum = 0;
  for (const ProfiledStep& step : profile.ranks[rank].steps) {
    sum += 1e-3 * static_cast<double>(step.partition[static_cast<std::size_t>(category)]);
  }
  return sum;  // microseconds
}

std::string kernel(const std::string& name, double ts, double dur, int stream = 7, const std::string& args = "",
                   int correlation = 0) {
  return fmt::format(
      R"({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"stream":{},"correlation":{}{}}}}},)",
      name, stream, ts, dur, stream, correlation, args);
}

std::string launch(double ts, double dur, int correlation) {
  return fmt::format(
      R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":99,"tid":1,"ts":{:.3f},"dur":{:.3f},"args":{{"correlation":{}}}}},)",
      ts, dur, correlation);
}

std::string trace(const std::string& events, const std::string& head = "") {
  std::string body = events;
  if (!body.empty() && body.back() == ',') body.pop_back();
  return "{" + head + "\"schemaVersion\":1,\"traceEvents\":[" + body + "],\"traceName\":\"t.json\"}";
}

Result<Profile> import_text(const std::string& text, const ImportOptions& options = {}) {
  return import_kineto({write_file("profile.json", text)}, options);
}

Profile imported(const std::string& text, const ImportOptions& options = {}) {
  auto profile = import_text(text, options);
  INFO((profile ? std::string() : shown(profile.errors())));
  REQUIRE(profile.ok());
  return std::move(*profile);
}

bool says(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

// The recorded partition of a scenario's first step, and the one read back from its trace.
void check_round_trip(const std::string& scenario_text) {
  const Scenario scenario = loaded(scenario_text);
  const auto lowered = parallelism::lower(scenario.spec);
  REQUIRE(lowered.ok());
  sim::Conditions conditions;
  const auto slow = lowered->slow_factors(scenario.spec, 0);
  conditions.seed = scenario.spec.seed;
  conditions.slow_by_rank = slow;
  conditions.kernel_sigma = scenario.spec.noise.kernel_sigma;
  conditions.loads = lowered->routing.get();
  sim::RecordOptions record;
  record.step = 1;
  record.critical_path = false;
  const auto report = sim::record_step(lowered->program, conditions, record);
  REQUIRE(report.ok());
  std::vector<RankId> ranks;
  for (const sim::Cohort& cohort : lowered->program.cohorts) {
    ranks.push_back(cohort.ranks.front());
    ranks.push_back(cohort.ranks.back());
  }
  const auto timeline = sim::record_timeline(lowered->program, conditions, record, ranks);
  REQUIRE(timeline.ok());
  const auto file = write_file("own_trace.json.gz", "");
  REQUIRE(sim::write_trace(lowered->program, conditions, *timeline, file).ok());
  const auto profile = import_kineto({file}, {});
  INFO((profile ? std::string() : shown(profile.errors())));
  REQUIRE(profile.ok());
  CHECK(profile->of_forecast);
  CHECK(profile->warnings.empty());
  REQUIRE(profile->ranks.size() == timeline->ranks.size());
  CHECK(std::abs(profile->step_s() - to_seconds(report->duration).value) < 1e-6);
  int there = 0;
  for (std::size_t r = 0; r < profile->ranks.size(); ++r) {
    const auto& recorded = report->by_rank[static_cast<std::size_t>(profile->ranks[r].rank)];
    for (int c = 0; c < sim::category_count; ++c) {
      CAPTURE(profile->ranks[r].rank, sim::name(static_cast<Category>(c)));
      const double expected_us = 1e-6 * static_cast<double>(recorded[static_cast<std::size_t>(c)]);
      const double found_us = part(*profile, static_cast<Category>(c), r);
      CHECK(std::abs(found_us - expected_us) < 1);
      there += expected_us > 1;
    }
  }
  CHECK(there > 8);
}

}  // namespace

TEST_CASE("profile: a forecast's own trace gives back its partition to the microsecond") {
  check_round_trip(R"({"model": {"name": "mixtral-8x7b", "layers": 8}, "cluster": "h100:16",
      "parallelism": {"tp": 2, "pp": 2, "ep": 4, "sharding": "zero1"}, "routing": {"skew": "zipf:0.5"},
      "workload": {"sequence_length": 4096, "global_batch": 32, "micro_batch": 1}, "noise": {"device_sigma": 0.02},
      "software": "megatron-core-2024"})");
  check_round_trip(R"({"model": {"name": "deepseek-v3", "layers": 8, "mtp_layers": 0}, "cluster": "h800:64",
      "parallelism": {"pp": 4, "ep": 16, "schedule": "dualpipe"}, "routing": {"skew": "zipf:0.3"},
      "workload": {"sequence_length": 4096, "global_batch": 128}, "software": "deepseek-hai-llm-2024"})");
  check_round_trip(R"({"model": "olmoe-1b-7b", "cluster": "h100:8", "parallelism": {"ep": 8, "sharding": "zero3"},
      "workload": {"sequence_length": 4096, "global_batch": 32}, "software": "torchtitan-2025"})");
}

TEST_CASE("profile: kernels, exposed communication and idle time by HTA's definitions") {
  const std::string ep =
      R"(,"Collective name":"alltoallv","Process Group Description":"EXPERT_MODEL_PARALLEL_GROUP","In msg nelems":1000,"Out msg nelems":2000,"dtype":"BFloat16","Group size":8)";
  const std::string events =
      kernel("nvjet_tst_128x256_64x4_1x2_h_bz_TNN", 1000, 100, 7, "", 1) + launch(990, 5, 1) +
      kernel("void flash::flash_fwd_kernel<Flash_fwd_traits>", 1100, 50, 7, "", 2) + launch(1000, 5, 2) +
      // 100 us of communication, 40 of them under the next kernel.
      kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 1150, 100, 20, ep, 3) + launch(1010, 5, 3) +
      kernel("vectorized_elementwise_kernel", 1210, 40, 7, "", 4) + launch(1020, 5, 4) +
      // 20 us idle: launched 15 us after the last kernel's end.
      kernel("cutlass::device_kernel<GemmUniversal<GroupProblemShape>>", 1270, 30, 7, "", 5) + launch(1260, 5, 5) +
      // 10 us idle, launched long before.
      kernel("void multi_tensor_apply_kernel<AdamFunctor>", 1310, 10, 7, "", 6) + launch(1030, 5, 6);
  const Profile p = imported(trace(events, R"("distributedInfo":{"rank":3,"world_size":64},)"));
  REQUIRE(p.ranks.size() == 1);
  CHECK(p.ranks[0].rank == 3);
  CHECK(p.world_size == 64);
  CHECK(p.step_s() == Approx(320e-6));
  CHECK(part(p, Category::gemm) == Approx(100));
  CHECK(part(p, Category::attention) == Approx(50));
  CHECK(part(p, Category::exposed_ep) == Approx(60));
  CHECK(part(p, Category::memory_bound) == Approx(40));
  CHECK(part(p, Category::grouped_gemm) == Approx(30));
  CHECK(part(p, Category::optimizer) == Approx(10));
  CHECK(part(p, Category::host) == Approx(20));
  CHECK(part(p, Category::other) == Approx(10));
  const HtaBreakdown& h = p.ranks[0].hta;
  CHECK(h.compute_s == Approx(230e-6));
  CHECK(h.non_compute_s == Approx(60e-6));
  CHECK(h.idle_s == Approx(30e-6));
  CHECK(h.host_wait_s == Approx(20e-6));
  CHECK(h.overlap() == Approx(0.4));
  REQUIRE(p.communication.size() == 1);
  CHECK(p.communication[0].collective == "all_to_all");
  CHECK(p.communication[0].bytes == Approx(4000));
  CHECK(p.communication[0].raw_s == Approx(100e-6));
}

TEST_CASE("profile: steps go from first kernel to first kernel, by the host's annotations") {
  std::string events;
  for (int step = 0; step < 3; ++step) {
    const double t = 10000 + 1000 * step;
    events += fmt::format(
        R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":1,"tid":1,"ts":{},"dur":1000}},)", step,
        t - 500);
    events += launch(t - 100, 2, 10 * step + 1) + kernel("ampere_sgemm", t + 700, 200, 7, "", 10 * step + 1);
  }
  const Profile p = imported(trace(events));
  REQUIRE(p.ranks[0].steps.size() == 3);
  CHECK(p.ranks[0].steps[0].end_ns - p.ranks[0].steps[0].begin_ns == 1000000);
  CHECK(p.ranks[0].steps[2].end_ns - p.ranks[0].steps[2].begin_ns == 200000);
}

TEST_CASE("profile: times since 1970 keep their nanoseconds") {
  const Profile p =
      imported(trace(R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1712345678901234.567,"dur":0.001},)"
                     R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1712345678901234.600,"dur":0.9})"));
  CHECK(p.ranks[0].steps[0].end_ns - p.ranks[0].steps[0].begin_ns == 933);
}

TEST_CASE("profile: kernels are known by their names") {
  const auto check = [](const char* name, Category category) {
    CAPTURE(name);
    const KernelClass k = classify_kernel(name);
    CHECK_FALSE(k.communication);
    CHECK(k.recognised);
    CHECK(k.category == category);
  };
  check("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off",
        Category::gemm);
  check("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64", Category::gemm);
  check("void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u>", Category::gemm);
  check("void deep_gemm::m_grouped_fp8_gemm_contiguous<7168u>", Category::grouped_gemm);
  check("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16", Category::attention);
  check("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", Category::attention);
  check("void cutlass::device_kernel<flash::FlashAttnFwdSm90<>>", Category::attention);
  check("_permute_kernel", Category::permute);
  check("void transformer_engine::cast_transpose_fused_kernel", Category::quantise);
  check("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctorMaster>", Category::optimizer);
  check("triton_poi_fused_silu_mul_3", Category::memory_bound);
  CHECK_FALSE(classify_kernel("my_own_thing").recognised);

  const auto communicates = [](const char* name, const char* collective) {
    CAPTURE(name);
    const KernelClass k = classify_kernel(name);
    CHECK(k.communication);
    CHECK(k.collective == collective);
    return k.group;
  };
  communicates("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce");
  communicates("ncclAllReduceRingLLKernel_sum_f32", "all_reduce");
  communicates("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter");
  communicates("ncclDevKernel_AllGather_RING_LL", "all_gather");
  communicates("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send_receive");
  CHECK(communicates("void deep_ep::internode::dispatch<false, 8, false>", "dispatch") == GroupKind::ep);
  CHECK(communicates("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>", "combine") == GroupKind::ep);
  CHECK(communicates("void deep_ep::internode::notify_dispatch<false, 8>", "dispatch") == GroupKind::ep);
  CHECK(communicates("void hybrid_ep::dispatch_kernel<INTER_NODE>", "dispatch") == GroupKind::ep);
  CHECK(communicates("hybrid_ep::combine_kernel", "combine") == GroupKind::ep);
  check("void hybrid_ep::scan<256>", Category::permute);
  check("deep_ep::layout::get_dispatch_layout<256, 32>", Category::permute);

  CHECK(group_kind("DATA_PARALLEL_GROUP_WITH_CP") == GroupKind::dp);
  CHECK(group_kind("INTRA_EXPERT_DATA_PARALLEL_GROUP") == GroupKind::dp);
  CHECK(group_kind("EXPERT_MODEL_PARALLEL_GROUP") == GroupKind::ep);
  CHECK(group_kind("TENSOR_MODEL_PARALLEL_GROUP") == GroupKind::tp);
  CHECK(group_kind("mesh_tp") == GroupKind::tp);
  CHECK(group_kind("PIPELINE_MODEL_PARALLEL_GROUP") == GroupKind::pp);
  CHECK(group_kind("default_pg") == GroupKind::unknown);
}

TEST_CASE("profile: unnamed groups are guessed, said, and can be given") {
  const std::string events =
      kernel("ncclDevKernel_AllGather_RING_LL", 0, 10, 20, R"(,"Process Group Name":"7")") + kernel("gemm", 10, 10);
  const Profile guessed = imported(trace(events));
  CHECK(part(guessed, Category::exposed_dp) == Approx(10));
  CHECK(says(guessed.assumptions, "all_gather as dp"));
  const Profile given = imported(trace(events), {{{"7", GroupKind::tp}}});
  CHECK(part(given, Category::exposed_tp) == Approx(10));
}

TEST_CASE("profile: odd and damaged traces give a clear error or a partial result with a warning") {
  const std::string good = kernel("gemm", 0, 10) + kernel("flash_fwd", 20, 5);
  const std::string whole = trace(good);
  struct Case {
    const char* name;
    std::string text, says;
    bool refused;
  };
  const std::vector<Case> cases = {
      {"empty", "", "is empty", true},
      {"white space", "  \n ", "not a Chrome trace", true},
      {"no JSON", "hello", "not a Chrome trace", true},
      {"binary",
       std::string("\x7f"
                   "ELF\x02\x00\x01",
                   7),
       "not a Chrome trace", true},
      {"a number", "17", "no list 'traceEvents'", true},
      {"no events", R"({"schemaVersion":1})", "no list 'traceEvents'", true},
      {"events no list", R"({"traceEvents":{"a":1}})", "no list 'traceEvents'", true},
      {"empty list", R"({"traceEvents":[]})", "no GPU kernels", true},
      {"host only", trace(launch(1, 2, 3)), "no GPU kernels", true},
      {"kernels without length", trace(kernel("gemm", 1, 0)), "no length", true},
      {"nested too deep", R"({"a":)" + std::string(600, '[') + std::string(600, ']') + "}", "nested deeper", true},
      {"HTML", "<html><body>404</body></html>", "not a Chrome trace", true},
      {"cut in an event", whole.substr(0, whole.size() - 60), "breaks off", false},
      {"cut in a text", whole.substr(0, whole.find("flash_fwd") + 4), "breaks off", false},
      {"no closing brackets", R"({"traceEvents":[)" + good, "breaks off", false},
      {"NaN", trace(good + R"({"ph":"X","cat":"kernel","name":"x","ts":NaN,"dur":1})"), "breaks off", false},
      {"garbage behind", whole + "}}", "breaks off", false},
      {"list at the root", "[" + good.substr(0, good.size() - 1) + "]", "", false},
      {"byte-order mark", "\xEF\xBB\xBF" + whole, "", false},
      {"no ts", trace(good + R"({"ph":"X","cat":"kernel","name":"x","dur":5})"), "no usable times", false},
      {"no dur", trace(good + R"({"ph":"X","cat":"kernel","name":"x","ts":5})"), "no usable times", false},
      {"negative dur", trace(good + R"({"ph":"X","cat":"kernel","name":"x","ts":5,"dur":-1})"), "no usable times",
       false},
      {"huge ts", trace(good + R"({"ph":"X","cat":"kernel","name":"x","ts":1e300,"dur":1})"), "no usable times", false},
      {"events of no kind", trace(good + "17,null,\"x\",[1],{}"), "no usable times", false},
      {"quoted times", trace(R"({"ph":"X","cat":"kernel","name":"gemm","ts":"1.5","dur":"2.5"})"), "", false},
      {"texts for pid and tid",
       trace(good + R"({"ph":"X","cat":"Trace","name":"PyTorch Profiler","pid":"Spans","tid":"x","ts":0,"dur":9})"), "",
       false},
      {"no name", trace(good + R"({"ph":"X","cat":"kernel","ts":40,"dur":1})"), "", false},
      {"arguments no object", trace(good + R"({"ph":"X","cat":"kernel","name":"gemm","ts":40,"dur":1,"args":[1]})"), "",
       false},
      {"begin and end events", trace(good + R"({"ph":"B","cat":"kernel","name":"x","ts":1})"), "begin and end", false},
      {"two devices", trace(good + R"({"ph":"X","cat":"kernel","name":"x","pid":1,"ts":1,"dur":1})"), "several devices",
       false},
      {"no launches", whole, "no launches", false},
      {"overlapping kernels", trace(good + kernel("gemm", 2, 100) + kernel("gemm", 3, 1)), "", false},
      {"a rank that is none", trace(good, R"("distributedInfo":{"rank":-5},)"), "", false},
      {"unknown names", trace(kernel("mystery", 0, 10)), "no pattern knows", false},
  };
  CHECK(cases.size() >= 25);
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto profile = import_text(c.text);
    if (c.refused) {
      REQUIRE_FALSE(profile.ok());
      INFO(shown(profile.errors()));
      CHECK(shown(profile.errors()).find(c.says) != std::string::npos);
      CHECK(profile.errors().front().where.find("profile.json") != std::string::npos);
      continue;
    }
    INFO((profile ? std::string() : shown(profile.errors())));
    REQUIRE(profile.ok());
    CHECK(profile->step_s() > 0);
    CHECK(std::isfinite(profile->step_s()));
    std::string all;
    for (const std::string& w : profile->warnings) all += w + "\n";
    INFO(all);
    CHECK(all.find(c.says) != std::string::npos);
    CHECK(to_json(*profile)["schema"] == profile_schema);
  }
}

TEST_CASE("profile: gzip whole and damaged, missing files, folders, the same rank twice") {
  const std::string text = trace(kernel("gemm", 0, 10) + kernel("gemm", 20, 10));
  const auto whole = write_file("profile.json.gz", "");
  gzFile file = gzopen(whole.c_str(), "wb");
  REQUIRE(file != nullptr);
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  CHECK(import_kineto({whole}, {}).ok());
  std::ifstream in(whole, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto cut = import_kineto({write_file("cut.json.gz", bytes.substr(0, bytes.size() / 2))}, {});
  if (cut.ok()) {
    CHECK_FALSE(cut->warnings.empty());
  } else {
    CHECK_FALSE(shown(cut.errors()).empty());
  }
  CHECK(shown(import_kineto({"nowhere.json"}, {}).errors()).find("no such file") != std::string::npos);
  CHECK(shown(import_kineto({whole.parent_path()}, {}).errors()).find("is a directory") != std::string::npos);
  CHECK_FALSE(import_kineto({}, {}).ok());
  const auto first = write_file("rank_a.json", trace(kernel("gemm", 0, 10), R"("distributedInfo":{"rank":1},)"));
  const auto second = write_file("rank_b.json", trace(kernel("gemm", 0, 10), R"("distributedInfo":{"rank":1},)"));
  CHECK(shown(import_kineto({first, second}, {}).errors()).find("in another file") != std::string::npos);
}

TEST_CASE("profile: beside a forecast, the part that is off and the constant that would explain it") {
  nlohmann::ordered_json forecast = {{"schema", "stepcast.forecast/1"},
                                     {"name", "f"},
                                     {"step_time_s", {{"mean", 1.0}}},
                                     {"breakdown",
                                      {{"gemm", {{"mean_s", 0.5}}},
                                       {"exposed_ep", {{"mean_s", 0.2}}},
                                       {"wait_ep", {{"mean_s", 0.1}}},
                                       {"host", {{"mean_s", 0.2}}}}}};
  nlohmann::ordered_json profile = {
      {"schema", "stepcast.profile/1"},
      {"name", "p"},
      {"step_time_s", {{"mean", 1.5}}},
      {"breakdown", {{"gemm", {{"mean_s", 1.0}}}, {"exposed_ep", {{"mean_s", 0.3}}}, {"host", {{"mean_s", 0.2}}}}}};
  const auto c = compare_profile(JsonDocument{forecast, "f.json", nullptr}, JsonDocument{profile, "p.json", nullptr},
                                 {{"cluster.sustained_gemm", 0.8}});
  REQUIRE(c.ok());
  REQUIRE(c->parts.size() == 3);
  CHECK(c->parts[0].name == "gemm");
  CHECK(c->parts[0].measured_s - c->parts[0].forecast_s == Approx(0.5));
  CHECK(c->parts[0].constant == "cluster.sustained_gemm");
  CHECK(c->parts[0].then.value() == Approx(0.4));
  CHECK(c->parts[1].constant.empty());  // transfer and waiting together agree
  profile["breakdown"]["gemm"]["mean_s"] = "x";
  CHECK_FALSE(compare_profile(JsonDocument{forecast, "f", nullptr}, JsonDocument{profile, "p", nullptr}, {}).ok());
}

}  // namespace stepcast::scenarios
