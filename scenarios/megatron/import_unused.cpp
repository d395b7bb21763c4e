// Arguments of Megatron-LM and its launchers that do not change what stepcast computes.
#include <array>
#include <string_view>

#include "scenarios/megatron/import_parts.h"

namespace stepcast::scenarios::megatron {
namespace {

struct Known {
  std::string_view prefix;  // of the argument's name
  std::string_view why;
};

constexpr std::string_view launcher = "the launcher's; the cluster says what runs where";
constexpr std::string_view learning = "changes what is learned, not a step's time";
constexpr std::string_view files = "data, files and logs are not part of a step";
constexpr std::string_view kernels = "which kernels are fused or chosen is the software profile's";
constexpr std::string_view routing = "the load of the experts is the scenario's routing";

constexpr std::array known = {
    Known{"--nproc", launcher},
    Known{"--nnodes", launcher},
    Known{"--node", launcher},
    Known{"--master", launcher},
    Known{"--rdzv", launcher},
    Known{"--distributed-", launcher},
    Known{"--local-rank", launcher},
    Known{"--use-mcore-models", launcher},
    Known{"--transformer-impl", kernels},
    Known{"--lr", learning},
    Known{"--min-lr", learning},
    Known{"--weight-decay", learning},
    Known{"--start-weight-decay", learning},
    Known{"--end-weight-decay", learning},
    Known{"--clip-grad", learning},
    Known{"--adam-", learning},
    Known{"--optimizer", learning},
    Known{"--init-method-std", learning},
    Known{"--seed", learning},
    Known{"--initial-loss-scale", learning},
    Known{"--loss-scale", learning},
    Known{"--min-loss-scale", learning},
    Known{"--hysteresis", learning},
    Known{"--override-opt", learning},
    Known{"--train-", learning},
    Known{"--exit-", learning},
    Known{"--eval-", learning},
    Known{"--rotary-", learning},
    Known{"--rope-", learning},
    Known{"--use-rope-scaling", learning},
    Known{"--mscale", learning},
    Known{"--norm-epsilon", learning},
    Known{"--apply-layernorm-1p", learning},
    Known{"--mtp-loss-scaling-factor", learning},
    Known{"--moe-aux-loss-coeff", learning},
    Known{"--moe-z-loss-coeff", learning},
    Known{"--moe-router-bias-update-rate", learning},
    Known{"--moe-router-topk-scaling-factor", learning},
    Known{"--moe-router-pre-softmax", learning},
    Known{"--moe-router-load-balancing-type", routing},
    Known{"--moe-router-fusion", kernels},
    Known{"--moe-router-padding-for", kernels},
    Known{"--cross-entropy-", kernels},
    Known{"--use-flash-attn", kernels},
    Known{"--attention-backend", kernels},
    Known{"--attention-softmax-in-fp32", kernels},
    Known{"--apply-rope-fusion", kernels},
    Known{"--no-rope-fusion", kernels},
    Known{"--no-masked-softmax-fusion", kernels},
    Known{"--no-bias-", kernels},
    Known{"--no-gradient-accumulation-fusion", kernels},
    Known{"--use-fused-", kernels},
    Known{"--te-", kernels},
    Known{"--fp8-margin", kernels},
    Known{"--fp8-interval", kernels},
    Known{"--fp8-amax-", kernels},
    Known{"--deterministic-mode", kernels},
    Known{"--data-", files},
    Known{"--split", files},
    Known{"--dataloader-type", files},
    Known{"--num-workers", files},
    Known{"--mock-data", files},
    Known{"--no-create-attention-mask-in-dataloader", files},
    Known{"--no-mmap-bin-files", files},
    Known{"--reset-", files},
    Known{"--eod-mask-loss", files},
    Known{"--tokenizer-", files},
    Known{"--vocab-file", files},
    Known{"--merge-file", files},
    Known{"--save", files},
    Known{"--load", files},
    Known{"--no-load-", files},
    Known{"--no-save-", files},
    Known{"--ckpt-", files},
    Known{"--dist-ckpt-", files},
    Known{"--use-dist-ckpt", files},
    Known{"--async-save", files},
    Known{"--auto-detect-ckpt-format", files},
    Known{"--finetune", files},
    Known{"--log-", files},
    Known{"--timing-log-", files},
    Known{"--no-check-for-nan-in-loss-and-grad", files},
    Known{"--tensorboard-", files},
    Known{"--wandb-", files},
    Known{"--profile", files},
    Known{"--use-pytorch-profiler", files},
    Known{"--manual-gc", files},
    Known{"--make-vocab-size-divisible-by", kernels},
};

}  // namespace

std::string why_unused(const std::string& name) {
  // These begin like one above, and do change a step.
  for (const std::string_view other :
       {"--optimizer-cpu-offload", "--optimizer-offload-fraction", "--data-parallel-", "--split-", "--train-sync"}) {
    if (name.starts_with(other)) return {};
  }
  for (const Known& entry : known) {
    if (name.starts_with(entry.prefix)) return std::string(entry.why);
  }
  return {};
}

}  // namespace stepcast::scenarios::megatron
