// Launch scripts and YAML files of Megatron-LM, as people keep them.
#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/megatron/import.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using megatron::MegatronImport;

Result<MegatronImport> import_text(const std::string& text, const std::string& file = "run.sh",
                                   const std::map<std::string, std::string>& defines = {}) {
  megatron::ImportOptions options;
  options.catalog_root = source_dir;
  options.cluster = "h100";
  options.defines = defines;
  return megatron::import_megatron(text, file, options);
}

MegatronImport imported(const std::string& text, const std::string& file = "run.sh",
                        const std::map<std::string, std::string>& defines = {}) {
  auto result = import_text(text, file, defines);
  INFO((result ? std::string() : shown(result.errors())));
  REQUIRE(result.ok());
  return std::move(*result);
}

const MegatronImport& check_unused(const MegatronImport& made, const std::string& name, const std::string& where) {
  const auto found = std::find_if(made.unused.begin(), made.unused.end(),
                                  [&](const auto& unused) { return unused.argument.name == name; });
  INFO(name);
  REQUIRE(found != made.unused.end());
  CHECK(found->argument.where == where);
  return made;
}

bool says(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return line.find(part) != line.npos; });
}

// In the manner of Megatron-LM's examples for Mixtral.
constexpr const char* mixtral_script = R"(#!/bin/bash
# Mixtral 8x7B
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-"2"}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
CHECKPOINT_PATH=$1

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --master_addr ${MASTER_ADDR:-"localhost"}
)
MODEL_ARGS=(
    --use-mcore-models
    --disable-bias-linear
    --seq-length 4096
    --max-position-embeddings 32768
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --normalization RMSNorm
    --position-embedding-type rope
    --swiglu
    --untie-embeddings-and-output-weights
    --group-query-attention
    --num-query-groups 8
)
MOE_ARGS=(
    --num-experts 8
    --moe-router-topk 2
    --moe-router-load-balancing-type aux_loss
    --moe-grouped-gemm
    --moe-token-dispatcher-type alltoall
)
PARALLEL="--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 \
  --expert-model-parallel-size 4 --use-distributed-optimizer"
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 256   # sequences
    --lr 1e-4
    --bf16
    --moe-ruoter-topk 3
)
if [ -n "${WANDB_API_KEY}" ]; then
    TRAINING_ARGS+=(
        --wandb-project ${WANDB_PROJECT:-"Mixtral"}
    )
fi
if [[ $NNODES -gt 1 ]]; then
    TRAINING_ARGS+=(--overlap-grad-reduce --overlap-param-gather)
else
    TRAINING_ARGS+=(--no-overlap)
fi
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${MOE_ARGS[@]} $PARALLEL \
    "${TRAINING_ARGS[@]}" 2>&1 | tee log.txt
)";

}  // namespace

TEST_CASE("a launch script of Megatron becomes a scenario") {
  const MegatronImport made = imported(mixtral_script);
  INFO(made.scenario.dump(1));
  CHECK(made.scenario["model"] == nlohmann::ordered_json({{"name", "mixtral-8x7b"}}));
  CHECK(made.scenario["cluster"] == "h100:16");
  const Scenario s = loaded(made.scenario.dump());
  CHECK(s.spec.degrees.pp == 4);
  CHECK(s.spec.degrees.ep == 4);
  CHECK(s.spec.workload.global_batch == 256);
  CHECK(s.spec.sharding == parallelism::Sharding::zero1);
  CHECK(s.spec.overlap.gradients);
  CHECK(s.spec.overlap.parameters);
  check_unused(made, "--lr", "run.sh:44");
  check_unused(made, "--moe-ruoter-topk", "run.sh:46");
  check_unused(made, "--moe-router-load-balancing-type", "run.sh:35");
  CHECK(says(notes(made), "did you mean '--moe-router-topk'?"));
  CHECK(says(made.warnings, "line 50"));
  CHECK(says(made.warnings, "line 56"));
  CHECK(std::find_if(made.origins.begin(), made.origins.end(), [](const auto& o) {
          return o.first == "/parallelism/ep" && o.second == "run.sh:40 --expert-model-parallel-size";
        }) != made.origins.end());
}

TEST_CASE("a bare line of Megatron arguments becomes a scenario") {
  const std::string line =
      "--num-layers 32 --hidden-size=4096 --num-attention-heads 32 --ffn-hidden-size 14336 --seq-length 8192 "
      "--num-query-groups 8 --group-query-attention --swiglu --disable-bias-linear --normalization RMSNorm "
      "--untie-embeddings-and-output-weights --position-embedding-type rope --attention-dropout 0 --hidden-dropout 0 "
      "--micro-batch-size 2 --tensor-model-parallel-size 2 --world-size 16 --bf16 --vocab-size 128256\n";
  for (const bool lines : {false, true}) {
    std::string text = line;
    for (std::size_t at = text.find(" --"); lines && at != text.npos; at = text.find(" --", at)) text[at] = '\n';
    const MegatronImport made = imported(text);
    CHECK(made.scenario["model"] == nlohmann::ordered_json({{"name", "llama-3-8b"}}));
    CHECK(made.scenario["workload"]["global_batch"] == 16);  // one microbatch on each of 8 data-parallel ranks
    CHECK(says(made.assumptions, "--global-batch-size not given"));
    CHECK(loaded(made.scenario.dump()).spec.sharding == parallelism::Sharding::none);
  }
}

TEST_CASE("a YAML of Megatron's tests becomes a scenario") {
  const std::string yaml = R"(ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
  EP: 8
MODEL_ARGS:
  --num-layers: 61
  --hidden-size: 7168
  --ffn-hidden-size: 18432
  --num-attention-heads: 128
  --multi-latent-attention: true
  --q-lora-rank: 1536
  --kv-lora-rank: 512
  --v-head-dim: 128
  --qk-head-dim: 128
  --qk-pos-emb-head-dim: 64
  --qk-layernorm: true
  --kv-channels: 128
  --swiglu: true
  --disable-bias-linear: true
  --normalization: RMSNorm
  --untie-embeddings-and-output-weights: true
  --position-embedding-type: rope
  --attention-dropout: 0.0
  --hidden-dropout: 0.0
  --num-experts: 256
  --moe-layer-freq: ([0]*3+[1]*58)
  --moe-ffn-hidden-size: 2048
  --moe-shared-expert-intermediate-size: 2048
  --moe-router-topk: 8
  --moe-router-num-groups: 8
  --moe-router-group-topk: 4
  --moe-router-score-function: sigmoid
  --moe-router-enable-expert-bias: true
  --moe-router-force-load-balancing: true
  --moe-token-dispatcher-type: flex
  --moe-enable-deepep: true
  --mtp-num-layers: 1
  --sequence-parallel: false
  --tensor-model-parallel-size: 1
  --pipeline-model-parallel-size: ${PP}
  --pipeline-model-parallel-layout: Et*3|(tt|)*29m|L
  --expert-model-parallel-size: ${EP}
  --expert-tensor-parallel-size: 1
  --micro-batch-size: 1
  --global-batch-size: 8192
  --seq-length: 4096
  --recompute-granularity: selective
  --recompute-modules: [mla_up_proj, mlp]
  --use-distributed-optimizer: true
  --fp8-recipe: blockwise
  --fp8-format: e4m3
  --bf16: true
  --overlap-moe-expert-parallel-comm: true
  --save-interval: 500
  --world-size: 1024
)";
  const MegatronImport made = imported(yaml, "deepseek.yaml", {{"PP", "8"}});
  INFO(made.scenario.dump(1));
  CHECK(made.scenario["model"] == nlohmann::ordered_json({{"name", "deepseek-v3"}}));
  const Scenario s = loaded(made.scenario.dump());
  CHECK(s.spec.degrees.ep == 8);
  CHECK(s.spec.degrees.vpp == 4);
  CHECK(s.spec.schedule == parallelism::ScheduleKind::coscheduled);
  CHECK(s.spec.recipe.name == "fp8-blockwise");
  CHECK(s.spec.recompute.modules == std::vector<std::string>{"mla_up_proj", "mlp"});
  CHECK(s.spec.node_limit == 4);
  check_unused(made, "--save-interval", "deepseek.yaml:53");
  check_unused(made, "--kv-channels", "deepseek.yaml:16");

  const auto unset = import_text(yaml, "deepseek.yaml");
  REQUIRE(!unset.ok());
  CHECK(shown(unset.errors()).find("deepseek.yaml:39") != std::string::npos);
  CHECK(shown(unset.errors()).find("--define") != std::string::npos);
}

TEST_CASE("Megatron arguments of overlap, offload and the router") {
  const std::string base =
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --micro-batch-size 1 "
      "--global-batch-size 64 --bf16 --vocab-size 32000 --world-size 16 --num-experts 8 --use-distributed-optimizer "
      "--overlap-param-gather --pipeline-model-parallel-size 4 ";
  const auto read = [&](const std::string& more) {
    const MegatronImport made = imported(base + more);
    CHECK(made.unused.empty());
    return loaded(made.scenario.dump()).spec;
  };
  const auto plain = read("");
  CHECK(plain.recipe.router_dtype == parallelism::RouterDtype::bf16);
  CHECK_FALSE(plain.overlap.p2p);  // 1F1B's messages
  CHECK(plain.overlap.p2p_batched);
  CHECK_FALSE(plain.overlap.shared_expert);
  const auto chunks = read(
      "--num-virtual-stages-per-pipeline-rank 2 --overlap-param-gather-with-optimizer-step --moe-router-dtype fp32 "
      "--cpu-offloading-num-layers 3");
  CHECK(chunks.overlap.p2p);
  CHECK_FALSE(chunks.overlap.p2p_warmup_flush);
  CHECK_FALSE(chunks.overlap.p2p_batched);
  CHECK(chunks.overlap.parameters_with_optimizer);
  CHECK(chunks.recipe.router_dtype == parallelism::RouterDtype::fp32);
  CHECK(chunks.offload.activations);
  CHECK(chunks.offload.activation_layers == 3);
  const auto everywhere = read(
      "--num-virtual-stages-per-pipeline-rank 2 --overlap-p2p-communication --overlap-p2p-communication-warmup-flush");
  CHECK(everywhere.overlap.p2p_warmup_flush);
  const auto off = read("--num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication");
  CHECK_FALSE(off.overlap.p2p);
  CHECK(off.overlap.p2p_batched);
  const auto paired = read(
      "--num-virtual-stages-per-pipeline-rank 2 --overlap-moe-expert-parallel-comm --delay-wgrad-compute "
      "--moe-shared-expert-overlap");
  CHECK(paired.overlap.delay_wgrad);
  CHECK(paired.overlap.shared_expert);
}

TEST_CASE("uneven pipelines of Megatron arguments") {
  const std::string base =
      "--num-layers 30 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 --micro-batch-size 1 "
      "--global-batch-size 64 --bf16 --vocab-size 32000 --world-size 16 --pipeline-model-parallel-size 4 ";
  const auto split = [&](const std::string& more) {
    return loaded(imported(base + more).scenario.dump()).spec.stage_layers;
  };
  CHECK(split("--decoder-first-pipeline-num-layers 6") == std::vector<int>{6, 8, 8, 8});
  CHECK(split("--decoder-last-pipeline-num-layers 3") == std::vector<int>{9, 9, 9, 3});
  CHECK(split("--decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 4 "
              "--num-virtual-stages-per-pipeline-rank 2") == std::vector<int>{3, 5, 5, 2, 3, 5, 5, 2});
  CHECK(split("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split").empty());
  CHECK(!import_text(base + "--account-for-loss-in-pipeline-split").ok());
  CHECK(!import_text(base + "--decoder-first-pipeline-num-layers 7").ok());
  CHECK(says(imported(base).warnings, "do not divide"));
}

TEST_CASE("here-documents are no part of the script around them") {
  const std::string model = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 ";
  const std::string rest = "--vocab-size 32000 --world-size 8 --bf16\n";
  const auto layers = [&](const std::string& text) {
    const auto runs = imported(text).scenario["model"]["layers"];
    return runs.front()["repeat"].get<int>();
  };
  for (const char* head : {"cat <<EOF\n", "cat <<-'EOF' > note.txt\n", "cat << \"EOF\"\n"}) {
    CAPTURE(head);
    CHECK(layers(head + std::string("It's not the launch line: --num-layers 4\nEOF\n") + model + rest) == 32);
  }
  CHECK(layers("cat <<-EOF | tee note\n\tdon't\n\tEOF\npython train.py " + model + rest) == 32);
  CHECK(layers("cat <<A <<B\none's\nA\ntwo's\nB\npython train.py " + model + rest) == 32);
  CHECK(layers("echo $'it\\'s on'\npython train.py " + model + rest) == 32);
  CHECK(layers("cat <<< \"it's one word\"\npython train.py " + model + rest) == 32);
  CHECK(layers("X=$((1<<3))\npython train.py " + model + rest) == 32);
  // The launch line itself may stand in one.
  CHECK(layers("L=16\nsbatch <<EOF\n#!/bin/bash\n# it's here\npython train.py --num-layers $L --hidden-size 4096 "
               "--num-attention-heads 32 --seq-length 4096 " +
               rest + "EOF\n") == 16);
  CHECK(says(imported("cat <<EOF\n--num-layers 4\nEOF\n" + model + rest).warnings, "line 2: a here-document"));
}

TEST_CASE("what stands behind && or || is read where the shell would run it") {
  const std::string rest =
      "\npython train.py --num-layers $L --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
      "--vocab-size 32000 --world-size 8 --bf16\n";
  const auto layers = [&](const std::string& line) {
    INFO(line);
    const auto made = imported("L=2\n" + line + rest);
    return made.scenario["model"]["layers"].front()["repeat"].get<int>();
  };
  CHECK(layers("[ a = b ] && L=4") == 2);
  CHECK(layers("[ a = a ] && L=4") == 4);
  CHECK(layers("[ a = a ] || L=4") == 2);
  CHECK(layers("[ -n \"$UNSET\" ] && L=4") == 2);
  CHECK(layers("false && L=4") == 2);
  CHECK(layers("true || L=4") == 2);
  CHECK(layers("false || L=4") == 4);
  CHECK(layers("mkdir -p out && L=4") == 4);
  CHECK(layers("[ a = b ] && L=4 || L=8") == 8);
  CHECK(layers("[ a = a ] && L=4 || L=8") == 4);
  CHECK(layers("[ a = b ] && { L=4; }\nM=1") == 2);
  CHECK(layers("[ a = a ] && { L=4; }\nM=1") == 4);
  CHECK(layers("for L in 4; do :; done") == 2);
  CHECK(layers("case a in a) X=4;; esac") == 2);
  CHECK(layers("while false; do X=4; done; L=6") == 6);
  for (const char* line : {"test 1 -gt 2 && L=4", "for i in 1 2; do L=4; done", "case a in\na) L=4;;\nesac",
                           "if [ a = a ] && [ a = b ]; then L=4; fi"}) {
    CHECK(layers(line) == 2);
    CHECK(says(imported("L=2\n" + std::string(line) + rest).warnings, "L is set in a loop"));
  }
}

TEST_CASE("broken Megatron arguments are named with their line") {
  const auto error_of = [](const std::string& text, const std::string& file = "run.sh") {
    const auto result = import_text(text, file);
    INFO(text);
    REQUIRE(!result.ok());
    return shown(result.errors());
  };
  const std::string base =
      "--num-layers 32 \\\n --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --vocab-size 32000 "
      "--world-size 8 --bf16 \\\n";
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(error_of(""), "no argument");
  has(error_of("echo hello\nls -l\n"), "no argument");
  has(error_of("--hidden-size 4096 --num-attention-heads 32"), "--num-layers: the argument is missing");
  has(error_of(base + "--tensor-model-parallel-size two"), "run.sh:3 --tensor-model-parallel-size: found 'two'");
  has(error_of(base + "--tensor-model-parallel-size"), "found 0 values");
  has(error_of(base + "--tensor-model-parallel-size 2 4"), "found 2 values");
  has(error_of(base + "--tensor-model-parallel-size 0"), "from 1 to");
  has(error_of(base + "--tensor-model-parallel-size $TP"), "--define");
  has(error_of(base + "--swiglu 3"), "takes no value");
  has(error_of(base + "--fp16"), "run.sh:3 --fp16: excludes --bf16, which run.sh:2 --bf16 gives");
  has(error_of(base + "--moe-layer-freq \"1\n --swiglu"), "run.sh:3: a quote begins here and is never closed");
  has(error_of("ARGS='--num-layers 32\n--hidden-size 4096\ntorchrun train.py $ARGS\n"),
      "run.sh:1: a quote begins here");
  has(error_of(base + "--num-experts 8 --moe-layer-freq '[0]*3+'"), "--moe-layer-freq");
  has(error_of(base + "--num-experts 8 --moe-layer-freq '[0]*3+[1]*58'"), "61 entries; the model has 32");
  has(error_of(base + "--num-experts 8 --moe-layer-freq '[1]*99999999999'"), "--moe-layer-freq");
  has(error_of(base + "--pipeline-model-parallel-layout 'Et|x|L'"), "character 4");
  has(error_of(base + "--recompute-granularity some"), "allowed are full, selective");
  has(error_of(base + "--num-experts 8 --moe-pad-expert-input-to-capacity"), "--moe-expert-capacity-factor");
  has(error_of(base + "--num-layers-per-virtual-pipeline-stage 5"), "do not divide");
  has(error_of(std::string("--num-layers 3\0", 15)), "is not text");
  has(error_of("MODEL_ARGS: [1, 2\n", "a.yaml"), "a.yaml:");
  has(error_of("OTHER: 1\n", "a.yaml"), "MODEL_ARGS");
  has(error_of("MODEL_ARGS:\n  --num-layers: {a: 1}\n", "a.yaml"), "a.yaml:2");
  has(error_of("MODEL_ARGS:\n  --swiglu: false\n", "a.yaml"), "no argument that is on");
  has(error_of("# stepcast: {broken\n" + base), "comment");
  has(error_of(std::string(std::size_t{2} << 20, 'x')), "at most");
}

TEST_CASE("scripts that would blow up are read in bounded time") {
  // Refused with words of bounded length, or read; whatever a script does, it does not come back in the message.
  const auto bounded = [](const std::string& script) {
    const auto result = import_text(script);
    if (result.ok()) return true;
    REQUIRE_FALSE(result.errors().empty());
    const std::string& message = result.errors().front().message;
    return !message.empty() && message.size() < 2000;
  };
  std::string doubling = "A='--num-layers 2 '\n";
  for (int i = 0; i < 60; ++i) doubling += "A=\"$A$A\"\n";
  CHECK(bounded(doubling + "python train.py $A"));
  std::string nested = "B=";
  for (int i = 0; i < 5000; ++i) nested += "${X:-";
  CHECK(bounded(nested));
  CHECK(bounded("A=(\n--num-layers 3"));
  CHECK(bounded("if if if [ fi done esac ) ( '"));
  CHECK(bounded("x $(( " + std::string(100'000, '(') + ")) --num-layers 3"));
}

TEST_CASE("repeated Megatron arguments and unknown hardware") {
  const std::string base =
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --vocab-size 32000 --bf16 "
      "--micro-batch-size 1 --micro-batch-size 2 --world-size 8 --global-batch-size 32\n";
  const MegatronImport made = imported(base);
  CHECK(made.scenario["workload"]["micro_batch"] == 2);
  CHECK(says(made.warnings, "--micro-batch-size: given more than once"));
  megatron::ImportOptions options;
  options.catalog_root = source_dir;
  const auto without = megatron::import_megatron(base, "run.sh", options);
  REQUIRE(!without.ok());
  CHECK(shown(without.errors()).find("--cluster NAME:N is needed") != std::string::npos);
}

}  // namespace stepcast::scenarios
