// The description of a transformer: shapes only, one entry a layer.
//
// It knows neither hardware nor layout nor precision of training. Everything
// that changes FLOPs, bytes or parameters is here; a property that the importer
// met and cannot express is an error or a named assumption, never dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::models {

enum class AttentionKind : unsigned char {
  full,     // causal softmax over the whole prefix
  sliding,  // causal softmax over the last `window` tokens
  chunked,  // causal softmax inside fixed chunks of `window` tokens
  linear,   // a recurrent state instead of scores: see LinearKind
  mamba2,   // state-space layer
  none,     // the layer has no mixer (hybrid patterns: an MoE or MLP block alone)
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434).
struct Mla {
  int q_lora_rank = 0;  // 0: queries are not compressed
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
};

enum class LinearKind : unsigned char {
  gated_delta,  // gated delta net (Qwen3-Next), arXiv 2412.06464
  lightning,    // lightning attention with an output gate (MiniMax-01), arXiv 2501.08313
  kimi_delta,   // Kimi delta attention: gates of low rank (head_dim) per channel, arXiv 2510.26692
};

// Linear attention with key/value heads.
struct LinearAttention {
  LinearKind kind = LinearKind::gated_delta;
  int key_heads = 0;
  int key_head_dim = 0;
  int value_heads = 0;
  int value_head_dim = 0;
  int conv_kernel = 0;
};

// Mamba-2 (arXiv 2405.21060).
struct Mamba2 {
  int heads = 0;
  int head_dim = 0;
  int state = 0;
  int groups = 0;
  int conv_kernel = 4;
};

// Mixed latent forms beside MLA (DeepSeek-V4): queries through a rank, output through groups of a rank.
struct LowRankProjections {
  int q_rank = 0;         // 0: queries directly from hidden
  int output_groups = 0;  // 0: one output matrix
  int output_rank = 0;    // per group
};

// Softmax attention by heads. kv_heads == heads: MHA; fewer: GQA. With `mla` set the head fields but `heads` are
// unused.
struct Attention {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;    // q and k
  int v_head_dim = 0;  // values
  bool qk_norm = false;
  bool qk_norm_whole = false;  // one norm over all heads (OLMoE, MiniMax-M2) instead of one head's width
  bool bias = false;           // on q, k, v projections
  bool output_bias = false;    // on the output projection
  bool output_gate = false;    // Qwen3-Next: q_proj is twice as wide
  bool sinks = false;          // gpt-oss: one logit a head
  bool shared_kv = false;      // one projection serves as key and value (DeepSeek-V4)
  LowRankProjections low_rank;
  std::optional<Mla> mla;
};

enum class FfnKind : unsigned char { dense, moe, none };

struct Layer {
  AttentionKind attention = AttentionKind::full;
  FfnKind ffn = FfnKind::dense;

  friend bool operator==(const Layer&, const Layer&) = default;
};

struct Moe {
  int experts = 0;
  int top_k = 0;
  int expert_ffn = 0;        // width of one routed expert
  int shared_ffn = 0;        // total width of the shared experts, 0: none
  bool shared_gate = false;  // Qwen: a 1 x hidden gate on the shared expert
  int latent = 0;            // Nemotron-3 Super/Ultra: routed experts work on a projection of this width, 0: on hidden
  int groups = 0;            // group-limited routing, 0: none
  int top_groups = 0;
  bool router_bias = false;  // correction bias of the router (DeepSeek-V3, GLM)
  bool expert_bias = false;  // gpt-oss
};

struct Model {
  std::string name;
  std::string family;  // Hugging Face model_type, or "inline"
  int hidden = 0;
  int vocab = 0;
  bool tied_embeddings = false;
  bool gated_ffn = true;           // SwiGLU/GeGLU: three matrices; false: two
  bool ffn_bias = false;           // on dense FFNs
  bool learned_positions = false;  // GPT-2/3: max_positions x hidden parameters
  int max_positions = 0;
  bool layer_norm_bias = false;  // LayerNorm (weight and bias) instead of RMSNorm
  int norms_per_layer = 2;       // 4 where a post-norm follows each block
  int dense_ffn = 0;
  int window = 0;                  // of sliding and chunked layers
  bool attention_dropout = false;  // keeps a mask of the scores for backward where attention is not fused
  bool hidden_dropout = false;     // keeps a mask after each block
  Attention attention;
  std::optional<Attention> sliding_attention;  // where sliding layers have other heads than full ones (MiMo-V2)
  Moe moe;                                     // experts == 0: dense model
  LinearAttention linear;
  Mamba2 mamba;
  int mtp_layers = 0;                    // multi-token prediction modules, on top of `layers`
  bool mtp_shared_weights = false;       // the modules repeat one set of weights (Nemotron-3)
  std::optional<Layer> mtp_kind;         // default: as `mtp_layer()` says
  std::vector<Layer> layers;             // decoder layers in order, MTP not included
  std::vector<std::string> assumptions;  // what the importer had to assume, in words
  std::string source;                    // where the shape comes from

  [[nodiscard]] int layer_count() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] bool is_moe() const { return moe.experts > 0; }
};

// The attention shape of a softmax layer.
[[nodiscard]] const Attention& attention_of(const Model& model, AttentionKind kind);

// Full, sliding or chunked: the layer computes scores.
[[nodiscard]] bool has_scores(AttentionKind kind);

// What an MTP module's layer is: `mtp_kind`, or full attention with the FFN kind of the last layer that has an FFN.
[[nodiscard]] Layer mtp_layer(const Model& model);

[[nodiscard]] std::string_view name(AttentionKind kind);
[[nodiscard]] std::string_view name(FfnKind kind);
[[nodiscard]] std::string_view name(LinearKind kind);

// All contradictions at once: positive sizes, top_k <= experts, layer kinds whose shape is missing, ...
[[nodiscard]] Status validate(const Model& model);

}  // namespace stepcast::models
