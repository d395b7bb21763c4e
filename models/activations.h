// What a forward pass keeps for backward, by module, before any layout is chosen.
//
// Counted are tensors that kernels of Megatron-Core with Transformer Engine save: inputs of products, of norms, of
// activation functions and of attention, its statistics, dropout masks. Not counted: norm statistics (4 to 8 bytes a
// token), index maps of the permutation below 8 bytes a routed row, workspaces, communication buffers, allocator loss.
// For a GPT layer with dropout and unfused attention in 16 bits the sum is s b h (34 + 5 a s / h), arXiv 2205.05198
// equation 1, and with tensor and sequence parallelism its equation 4.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/transformer.h"
#include "sim/base/units.h"

namespace stepcast::models {

enum class Scaling : unsigned char {
  tokens,             // of the rank's share of the microbatch
  routed_rows,        // (token, expert) pairs that arrived at the rank's experts
  tokens_times_keys,  // scores of unfused attention: tokens x sequence length
};

struct ActivationItem {
  std::string module;   // attention_norm, qkv, attention_core, attention_out, mla_compressed, mla_up, linear_attention,
                        // mamba, dropout, ffn_norm, mlp, router, permute, experts, expert_act, expert_latent,
                        // shared_expert, embedding, mtp, final_norm, logits
  double elements = 0;  // per unit of `scaling`
  double bytes_per_element = 0;
  Scaling scaling = Scaling::tokens;
  bool tp_sharded = false;  // divided by TP; of routed rows: by expert TP
  bool sp_sharded = false;  // divided by TP only with sequence parallelism
  // Recomputation that drops it, in Megatron's words: core_attn, mla_up_proj, layernorm, moe_act, mlp, moe,
  // shared_experts. Full recomputation drops everything but the first item of a layer, its input.
  std::vector<std::string> freed_by;
};

struct ActivationOptions {
  double width = 2;                  // bytes of an activation
  double gemm_input_width = 2;       // of saved inputs of products: 1 where an 8-bit recipe keeps the quantised copy
  bool fused_attention = true;       // no scores are kept, only their row statistics
  bool fused_cross_entropy = false;  // the loss keeps 16-bit logits and not their 32-bit softmax
  // Recomputing MLA's up-projection leaves the values that attention saved (see README); else it frees them too.
  bool mla_values_stay = false;
};

[[nodiscard]] std::vector<ActivationItem> layer_activations(const Model& model, Layer layer,
                                                            const ActivationOptions& options);
// The embedding's dropout mask, if any.
[[nodiscard]] std::vector<ActivationItem> embedding_activations(const Model& model);
// Final norm, input of the output matrix, logits.
[[nodiscard]] std::vector<ActivationItem> head_activations(const Model& model, const ActivationOptions& options);
// One MTP module: two norms, projection, layer, head.
[[nodiscard]] std::vector<ActivationItem> mtp_activations(const Model& model, const ActivationOptions& options);

// How much of the work one rank has, and how it is split.
struct ActivationShare {
  double tokens = 0;  // of the microbatch, after context parallelism
  double routed_rows = 0;
  double keys = 0;  // sequence length that a query sees in unfused attention
  double tp = 1;
  double expert_tp = 1;
  bool sequence_parallel = false;
  bool full_recompute = false;
  std::vector<std::string> recompute;  // modules, as in `freed_by`
};

// Bytes that the items hold between forward and backward. With `full_recompute` the first item alone.
[[nodiscard]] Bytes kept_bytes(std::span<const ActivationItem> items, const ActivationShare& share);

}  // namespace stepcast::models
