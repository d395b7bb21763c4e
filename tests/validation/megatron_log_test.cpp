// Megatron training logs: every dialect, warm-up, and damage of every kind.
#include <catch2/catch.hpp>

#include <string>

#include <fmt/format.h>

#include "validation/logs/megatron_log.h"

namespace stepcast::validation {
namespace {

std::string step(int iteration, const std::string& ms, int batch = 128,
                 const char* prefix = " [2024-04-06 02:59:36] ") {
  return fmt::format(
      "{}iteration {:8}/     100 | consumed samples: {:12} | elapsed time per iteration (ms): {} | "
      "throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: 8.6E-06 | global batch size: {:5} | lm "
      "loss: 1.825991E+00 | number of nan iterations:   0 |\n",
      prefix, iteration, iteration * batch, ms, batch);
}

std::string steady() {
  return step(11, "5400.0") + step(12, "5500.0") + step(13, "5450.0") + step(14, "5480.0") + step(15, "5460.0");
}

TEST_CASE("Megatron logs are read in every dialect") {
  struct Case {
    const char* what;
    std::string text;
    double seconds;
    std::size_t counted;
  };
  const Case cases[] = {
      {"usual", steady(), 5.46, 5},
      {"rank prefix",
       step(11, "5400.0", 128, "[node0063:3]: [2025-03-31 05:57:25] ") + step(12, "5500.0", 128, "[node0063:3]: "),
       5.45, 2},
      {"srun prefix", step(11, "5400.0", 128, "7: ") + step(12, "5500.0", 128, "7: "), 5.45, 2},
      {"last and average of a ROCm fork", step(11, "16601.3/17219.3") + step(12, "16701.3/17219.3"), 16.6513, 2},
      {"seconds by name", "iteration 11/ 100 | elapsed time per iteration (s): 8.04 | global batch size: 64 |\n", 8.04,
       1},
      {"Megatron-Bridge",
       "Step Time : 12.03s GPU utilization: 245.1MODEL_TFLOP/s/GPU\nStep Time : 12.05s GPU utilization: "
       "245.1MODEL_TFLOP/s/GPU\n",
       12.04, 2},
      {"no throughput",
       "iteration      100/  300000 | consumed samples:         3200 | elapsed time per iteration (ms): 3738.6 | "
       "learning rate: 6.0E-05 | global batch size:    32 | lm loss: 7.9E+00 |\n",
       3.7386, 1},
      {"first step is warm-up", step(1, "9000.0") + step(2, "5400.0") + step(3, "5500.0") + step(4, "5450.0"), 5.45, 3},
      {"first step at the steady level is still not counted",
       step(1, "5400.0") + step(2, "5400.0") + step(3, "5500.0") + step(4, "5450.0"), 5.45, 3},
      {"long warm-up",
       step(1, "9000.0") + step(2, "8000.0") + step(3, "7000.0") + step(4, "5450.0") + step(5, "5440.0") +
           step(6, "5460.0"),
       5.45, 3},
      {"an outlier step", steady() + step(16, "17670.0") + step(17, "5470.0"), 5.47, 7},
      {"batch ramp-up", step(9, "2700.0", 64) + step(10, "2700.0", 64) + steady(), 5.46, 5},
      {"restart", steady() + step(11, "9000.0") + step(12, "5460.0"), 5.46, 6},
      {"every rank prints",
       step(11, "5400.0", 128, "0: ") + step(11, "5400.0", 128, "1: ") + step(12, "5500.0", 128, "0: ") +
           step(12, "5500.0", 128, "1: "),
       5.45, 2},
      {"two lines written into one", step(11, "5400.0").substr(0, step(11, "5400.0").size() - 1) + step(12, "5500.0"),
       5.45, 2},
      {"CRLF, byte-order mark, colour",
       "\xef\xbb\xbf\x1b[32m" + step(11, "5400.0").substr(0, step(11, "5400.0").size() - 1) + "\r\n", 5.4, 1},
      {"progress bars", "training: 10%\rtraining: 20%\r" + step(11, "5400.0"), 5.4, 1},
      {"tracebacks and warnings around",
       "Traceback (most recent call last):\n  iteration over a list | x\n" + steady() + "WARNING: iteration stopped\n",
       5.46, 5},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const auto log = parse_megatron_log(c.text, "train.log");
    CAPTURE(log ? std::string() : log.errors().front().message);
    REQUIRE(log.ok());
    CHECK(log->step_time_s == Approx(c.seconds));
    CHECK(log->counted == c.counted);
    CHECK(log->damaged.empty());
  }
}

TEST_CASE("one step line counts where it does not average over the first step") {
  const std::string interval = "  log_interval .......................... 100\n";
  const auto first = parse_megatron_log(interval + step(100, "5400.0"), "train.log");
  REQUIRE_FALSE(first.ok());
  CHECK(first.errors().front().message.find("1 of 1 are warm-up") != std::string::npos);
  const auto later = parse_megatron_log(interval + step(200, "5400.0"), "train.log");
  REQUIRE(later.ok());
  CHECK(later->step_time_s == Approx(5.4));
  const auto says = [](const MegatronLog& log) {
    return std::any_of(log.warnings.begin(), log.warnings.end(),
                       [](const std::string& w) { return w.find("--log-interval") != std::string::npos; });
  };
  CHECK_FALSE(says(*later));
  const auto untold = parse_megatron_log(step(100, "5400.0"), "train.log");
  REQUIRE(untold.ok());
  CHECK(says(*untold));
}

TEST_CASE("damaged step lines are named with their line, the rest counts") {
  struct Case {
    std::string line;
    const char* why;
  };
  const Case cases[] = {
      {step(16, "-5400.0"), "above 0"},
      {step(16, "0.0"), "above 0"},
      {step(16, "nan"), "not a number"},
      {step(16, "inf"), "not a number"},
      {step(16, "5,400.0"), "not a number"},
      {step(16, "5400.0ms"), "not a number"},
      {step(16, ""), "not a number"},
      {step(16, "5.4e12"), "more than a day"},
      {step(16, "abc/5400"), "not a number"},
      {" [2024-04-06 02:59:36] iteration       16/     100 | consumed samples:         5504 | elapsed time per ite\n",
       "cut before"},
      {"iteration 16/ 100 | elapsed time per iteration (ms): 5400.0 | global batch size: -128 |\n", "batch size"},
      {"iteration 16/ 100 | elapsed time per iteration (ms): 5400.0 | global batch size: 12.5 |\n", "batch size"},
      {"iteration 16/ 100 | elapsed time per iteration (ms): 5400.0 | global batch size: many |\n", "batch size"},
      {"Step Time : fast GPU utilization: 245.1MODEL_TFLOP/s/GPU\n", "not a time"},
      {"Step Time : -3s GPU utilization: 245.1MODEL_TFLOP/s/GPU\n", "above 0"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.line);
    const auto log = parse_megatron_log(steady() + c.line, "train.log");
    REQUIRE(log.ok());
    REQUIRE(log->damaged.size() == 1);
    CHECK(log->damaged.front().line == 6);
    CHECK(log->damaged.front().why.find(c.why) != std::string::npos);
    CHECK(log->counted == 5);
    CHECK(log->step_time_s == Approx(5.46));
  }
}

TEST_CASE("files that are no training log fail with one reason") {
  const std::pair<std::string, const char*> cases[] = {
      {"", "empty"},
      {"\r\n \n", "empty"},
      {"hello\nworld\n", "no line with a step time"},
      {std::string("iteration\0 1/ 2", 15), "binary"},
      {step(1, "nan") + step(2, "-1"), "every step line is damaged"},
      {"iteration 1/ 100 | lm loss: 3.0 |\n", "no line with a step time"},
      {step(1, "9000.0") + step(2, "-5") + step(3, "nan") + step(4, "0") + step(5, "1e308"),
       "no usable iteration is left after warm-up and batch ramp-up: 1 of 1 are warm-up; dropped: line 2: the step "
       "time "
       "is -0.005 s, expected a time above 0; line 3: the step time is 'nan', not a number; line 4: "},
      {step(1, "9000.0"), "no usable iteration"},
      {"{\"iteration\": 1}", "no line with a step time"},
      {"id,model,step_time_s\na,b,1\n", "no line with a step time"},
      {"elapsed time per iteration (ms): 5400.0\n", "no line with a step time"},
      {"iteration 99999999999999999999999/ 5 | elapsed time\n", "damaged"},
  };
  for (const auto& [text, why] : cases) {
    CAPTURE(text, why);
    const auto log = parse_megatron_log(text, "train.log");
    REQUIRE_FALSE(log.ok());
    CHECK(log.errors().front().message.find(why) != std::string::npos);
  }
}

TEST_CASE("launch arguments of a log become the cells of a measured run") {
  const std::string dump =
      "using world size: 16, data-parallel size: 2, context-parallel size: 1, tensor-model-parallel size: 4, "
      "pipeline-model-parallel size: 2\n"
      "------------------------ arguments ------------------------\n"
      "  bf16 ............................................ True\n"
      "  expert_model_parallel_size ...................... 1\n"
      "  ffn_hidden_size ................................. 14336\n"
      "  group_query_attention ........................... True\n"
      "  hidden_size ..................................... 4096\n"
      "0:   micro_batch_size ................................ 2\n"
      "  num_attention_heads ............................. 32\n"
      "  num_experts ..................................... None\n"
      "  num_layers ...................................... 32\n"
      "  num_layers_per_virtual_pipeline_stage ........... 4\n"
      "  num_query_groups ................................ 8\n"
      "  overlap_grad_reduce ............................. True\n"
      "  padded_vocab_size ............................... 32000\n"
      "  recompute_granularity ........................... selective\n"
      "  recompute_modules ............................... ['core_attn', 'mlp']\n"
      "  seq_length ...................................... 4096\n"
      "  sequence_parallel ............................... True\n"
      "  swiglu .......................................... True\n"
      "  use_distributed_optimizer ....................... True\n";
  const auto log = parse_megatron_log(dump + steady(), "train.log");
  REQUIRE(log.ok());
  auto run = run_of_log(*log, "train", {{"device", "h100"}});
  REQUIRE(run.ok());
  const std::pair<const char*, const char*> expected[] = {{"devices", "16"},
                                                          {"tp", "4"},
                                                          {"pp", "2"},
                                                          {"vpp", "4"},
                                                          {"micro_batch", "2"},
                                                          {"layers", "32"},
                                                          {"kv_heads", "8"},
                                                          {"vocab", "32000"},
                                                          {"precision", "bf16"},
                                                          {"kind", "dense"},
                                                          {"sharding", "zero1"},
                                                          {"recompute", "selective:core_attn,mlp"},
                                                          {"dp_overlap", "on"},
                                                          {"model", "llama-like"},
                                                          {"global_batch", "128"},
                                                          {"sequence_parallel", "on"},
                                                          {"step_time_s", "5.46"}};
  for (const auto& [column, value] : expected) {
    CAPTURE(column);
    CHECK((*run)[column] == value);
  }
  CHECK(runs_csv({*run}).find("train,dense,llama-like,h100,16,5.46") != std::string::npos);
}

TEST_CASE("what a log does not tell must be stated, and each lack is named") {
  const auto log = parse_megatron_log(steady(), "train.log");
  REQUIRE(log.ok());
  const auto run = run_of_log(*log, "train", {});
  REQUIRE_FALSE(run.ok());
  CHECK(run.errors().size() == 3);
  const auto flags = parse_megatron_log(
      "torchrun pretrain_gpt.py --num-layers many --world-size=8 --bf16 \\\n" + steady(), "train.log");
  REQUIRE(flags.ok());
  const auto bad = run_of_log(*flags, "train", {{"device", "h100"}, {"model", "x"}});
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.errors().front().message.find("num_layers is 'many'") != std::string::npos);
  CHECK(run_of_log(*log, "train", {{"device", "h100"}, {"model", "mixtral-8x7b"}, {"devices", "16"}}).ok());
}

}  // namespace
}  // namespace stepcast::validation
