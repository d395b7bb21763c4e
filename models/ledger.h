// The ledger: what a model costs, before any hardware is named.
//
// Three accounts per layer and pass: FLOPs, parameters (and their bytes, given a
// width), activations kept for backward. Forward, input gradient (dgrad) and
// weight gradient (wgrad) are separate. Every FLOP total states its convention.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"
#include "sim/base/units.h"

namespace stepcast::models {

// What a FLOP total counts.
//   six_nd_active     6 x active parameters x tokens; no attention scores.
//   attention_full    every matrix product of forward and backward, scores and values over the full square;
//                     router not counted, MTP counted.
//   attention_causal  the same with the causal half of the square (Megatron's count).
enum class Convention : unsigned char { six_nd_active, attention_full, attention_causal };

[[nodiscard]] std::string_view name(Convention convention);

struct FlopOptions {
  Convention convention = Convention::attention_causal;
  bool count_router = false;
  bool count_mtp = true;
  bool count_logits = true;
  // Count hybrid models as Megatron-LM's hybrid formula does: the inner width of a Mamba layer is 2 x hidden whatever
  // its heads say, and the input projection of MTP modules is left out. Only to compare with published TFLOP/s.
  bool megatron_hybrid = false;
};

// Scored (query, key) pairs of causal attention, in the continuous count that Megatron uses: s^2 / 2 for a document of
// s tokens; w^2 / 2 + (s - w) w in a sliding window w < s; chunks of w and a rest, each squared over two.
// Sequences of a batch as they enter attention: every document attends to itself.
// A plain sequence is one document as long as the sequence.
struct Documents {
  double tokens = 0;          // sum of lengths
  double sum_of_squares = 0;  // sum of squared lengths
  double sum_windowed = 0;    // pairs of a sliding window, causal; filled by make_documents
  double sum_chunked = 0;     // pairs of chunks as long as the window, causal
  int sequence_length = 0;
};

// `lengths` in tokens; `window` as in Model (0: none).
[[nodiscard]] Documents make_documents(std::span<const double> lengths, int window, int sequence_length);
[[nodiscard]] Documents one_sequence(int sequence_length, int window);

// Pairs that a softmax layer of `kind` scores, causal; 0 for the other kinds.
[[nodiscard]] double causal_pairs(const Documents& documents, AttentionKind kind);

// FLOPs of one pass over the documents, by module.
//
// Modules: qkv, mla_down, mla_up, attention_core, attention_out, linear_attention, mamba, router, experts,
// expert_latent, shared_expert, mlp, logits, mtp (all of the MTP modules); parameters for six_nd_active.
// A product with weights costs its forward once for the input gradient and once for the weight gradient; scores,
// values and recurrences have no weights and cost twice their forward in dgrad.
struct ModuleFlops {
  std::string module;
  double forward = 0;
  double dgrad = 0;
  double wgrad = 0;
  [[nodiscard]] double total() const { return forward + dgrad + wgrad; }
};

struct FlopAccount {
  FlopOptions options;
  std::vector<ModuleFlops> modules;
  [[nodiscard]] double forward() const;
  [[nodiscard]] double total() const;  // forward + backward
};

// Required (model) FLOPs for the documents, whole model, no recompute, no padding.
[[nodiscard]] FlopAccount flops(const Model& model, const Documents& documents, const FlopOptions& options);

// The modules of one decoder layer of the given kind, and of all logits. `six_nd_active` has no layers: it is an error
// of the caller to ask (asserted).
[[nodiscard]] std::vector<ModuleFlops> layer_flops(const Model& model, Layer layer, const Documents& documents,
                                                   const FlopOptions& options);
[[nodiscard]] ModuleFlops logits_flops(const Model& model, double tokens);
// The projection of [hidden, embedding] to hidden at the head of one MTP module.
[[nodiscard]] ModuleFlops mtp_projection_flops(const Model& model, double tokens);

// total() over tokens, in FLOP per token, forward and backward.
[[nodiscard]] double flops_per_token(const Model& model, int sequence_length, const FlopOptions& options);

struct ParameterAccount {
  double embedding = 0;  // vocabulary and learned positions
  double output = 0;     // 0 when tied
  double dense = 0;      // outside routed experts, embedding and output: norms, attention, routers, shared, final norm
  double routed_experts = 0;
  double mtp = 0;     // own weights of the MTP modules, reported apart: published totals leave them out
  double active = 0;  // per token: all of total() but the routed experts that a token does not visit
  [[nodiscard]] double total() const { return embedding + output + dense + routed_experts; }
};

[[nodiscard]] ParameterAccount parameters(const Model& model);

// Parameters of one decoder layer, split the way sharding needs it.
struct LayerParameters {
  double attention_tp = 0;    // split by tensor parallelism
  double replicated = 0;      // norms, router, MLA and latent down-projections: whole on every TP rank
  double mlp_tp = 0;          // dense FFN and shared expert, split by TP
  double routed_experts = 0;  // all routed experts of the layer, split by EP x ETP
  [[nodiscard]] double total() const { return attention_tp + replicated + mlp_tp + routed_experts; }
};
[[nodiscard]] LayerParameters layer_parameters(const Model& model, int layer);
[[nodiscard]] LayerParameters layer_parameters(const Model& model, Layer layer);
// Own weights of one MTP module: its layer, the projection and three norms.
[[nodiscard]] LayerParameters mtp_parameters(const Model& model);
// The norm before the output matrix.
[[nodiscard]] double final_norm_parameters(const Model& model);

}  // namespace stepcast::models
