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
};

// Sequences of a batch as they enter attention: every document attends to itself.
// A plain sequence is one document as long as the sequence.
struct Documents {
  double tokens = 0;          // sum of lengths
  double sum_of_squares = 0;  // sum of squared lengths
  double sum_windowed = 0;    // sum over documents of scored pairs inside `window`, causal; filled by make_documents
  int sequence_length = 0;
};

// `lengths` in tokens; `window` as in Model (0: none).
[[nodiscard]] Documents make_documents(std::span<const double> lengths, int window, int sequence_length);
[[nodiscard]] Documents one_sequence(int sequence_length, int window);

// FLOPs of one pass over the documents, by module.
struct ModuleFlops {
  std::string module;  // qkv, attention_core, attention_out, mla_down, mla_up, router, experts, shared_expert, mlp, linear_attention, mamba, logits, mtp...
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

// total() over tokens, in FLOP per token, forward and backward.
[[nodiscard]] double flops_per_token(const Model& model, int sequence_length, const FlopOptions& options);

struct ParameterAccount {
  double embedding = 0;
  double output = 0;       // 0 when tied
  double dense = 0;        // everything outside routed experts, embedding and output (norms, attention, routers, shared)
  double routed_experts = 0;
  double mtp = 0;          // reported apart: published totals leave it out
  [[nodiscard]] double total() const { return embedding + output + dense + routed_experts; }
  double active = 0;       // per token: all but routed experts, plus top_k of them; embedding counted as published tables do
};

[[nodiscard]] ParameterAccount parameters(const Model& model);

// Parameters of one decoder layer, split the way sharding needs it.
struct LayerParameters {
  double attention_tp = 0;   // split by tensor parallelism
  double replicated = 0;     // norms, router, MLA down-projections: whole on every TP rank
  double mlp_tp = 0;         // dense FFN and shared expert, split by TP
  double routed_experts = 0; // all routed experts of the layer, split by EP x ETP
  [[nodiscard]] double total() const { return attention_tp + replicated + mlp_tp + routed_experts; }
};
[[nodiscard]] LayerParameters layer_parameters(const Model& model, int layer);

}  // namespace stepcast::models
