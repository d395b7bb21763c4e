#include <algorithm>
#include <vector>

#include "tests/models/support.h"

namespace stepcast::models {
namespace {

struct CheckValue {
  const char* model;
  int sequence;
  Convention convention;
  bool mtp;
  double gflop_per_token;
};

// Published or recomputed figures, forward and backward, router not counted: see models/README.md.
const std::vector<CheckValue> check_values = {
    {"deepseek-v3", 4096, Convention::attention_causal, true, 260.0},
    {"deepseek-v3", 4096, Convention::attention_causal, false, 249.8},
    {"deepseek-v3", 4096, Convention::attention_full, false, 280.5},
    {"qwen3-235b-a22b", 4096, Convention::attention_causal, true, 148.0},
    {"qwen3-235b-a22b", 131072, Convention::attention_causal, true, 734.7},
    {"qwen3-30b-a3b", 4096, Convention::attention_causal, true, 23.0},
    {"kimi-k2", 4096, Convention::attention_causal, true, 204.5},
    {"llama-3-8b", 8192, Convention::attention_causal, true, 51.47},
    {"llama-3-8b", 8192, Convention::attention_full, true, 57.91},
    {"llama-3-70b", 8192, Convention::attention_causal, true, 449.2},
    {"llama-3.1-405b", 8192, Convention::attention_causal, true, 2524.0},
    {"mixtral-8x22b", 4096, Convention::attention_causal, true, 242.2},
    {"mixtral-8x22b", 4096, Convention::attention_full, true, 250.7},
    {"moonlight-16b-a3b", 4096, Convention::attention_causal, true, 17.17},
    {"grok-1", 8192, Convention::attention_causal, true, 4.274e6 / 8192},
    {"llama4-maverick", 8192, Convention::attention_causal, true, 8.92e5 / 8192},
    {"gpt3-175b", 2048, Convention::attention_full, true, 1076.6},
    {"gpt-oss-120b", 4096, Convention::attention_causal, true, 32.6},
};

}  // namespace

TEST_CASE("FLOPs per token meet the published figures within 0.5 %") {
  for (const CheckValue& check : check_values) {
    INFO(check.model << " at " << check.sequence << ", " << name(check.convention));
    CHECK(gflop_per_token(catalog_model(check.model), check.sequence, check.convention, check.mtp) ==
          Approx(check.gflop_per_token).epsilon(0.005));
  }
}

TEST_CASE("Megatron's hybrid count meets the published figures of Mamba hybrids") {
  FlopOptions options;
  options.megatron_hybrid = true;
  const auto at_8192 = [&](const char* model) { return flops_per_token(catalog_model(model), 8192, options) / 1e9; };
  CHECK(at_8192("nemotron-3-nano-30b-a3b") == Approx(22.3).epsilon(0.005));
  CHECK(at_8192("nemotron-3-super-120b-a12b") == Approx(84.7).epsilon(0.005));
  CHECK(at_8192("nemotron-3.5-lightning-30b-a3b") == Approx(28.15).epsilon(0.005));
  CHECK(at_8192("nemotron-3-ultra-550b-a55b") == Approx(361.0).epsilon(0.01));
  // The heads of Nano are narrower than 2 x hidden: what it really computes is less.
  options.megatron_hybrid = false;
  CHECK(at_8192("nemotron-3-nano-30b-a3b") == Approx(20.8).epsilon(0.005));
}

TEST_CASE("Counting the router adds its product, and nothing else") {
  const Model model = catalog_model("deepseek-v3");
  FlopOptions options;
  options.count_mtp = false;
  const double without = flops_per_token(model, 4096, options);
  options.count_router = true;
  CHECK(flops_per_token(model, 4096, options) - without == Approx(58.0 * 6 * 7168 * 256));
  CHECK(flops_per_token(model, 4096, options) / 1e9 == Approx(250.45).epsilon(0.002));
}

TEST_CASE("6ND counts active parameters and nothing of attention") {
  const Model model = catalog_model("qwen3-30b-a3b");
  CHECK(gflop_per_token(model, 4096, Convention::six_nd_active) == Approx(6 * parameters(model).active / 1e9));
  CHECK(gflop_per_token(model, 131072, Convention::six_nd_active) == Approx(6 * parameters(model).active / 1e9));
}

TEST_CASE("The causal count is never above the full one and every count grows with the sequence") {
  const auto catalog = list_models(STEPCAST_SOURCE_DIR);
  REQUIRE(catalog.ok());
  for (const CatalogEntry& entry : *catalog) {
    INFO(entry.name);
    const Model model = catalog_model(entry.name);
    double before = 0;
    for (const int sequence : {1, 128, 1000, 4096, 8192, 65536, 1 << 20}) {
      const Documents documents = one_sequence(sequence, model.window);
      FlopOptions options;
      const FlopAccount causal = flops(model, documents, options);
      options.convention = Convention::attention_full;
      const FlopAccount full = flops(model, documents, options);
      CHECK(causal.total() <= full.total());
      CHECK(causal.total() > before);
      before = causal.total();
      for (const ModuleFlops& m : causal.modules) {
        CHECK(m.forward > 0);
        CHECK(m.dgrad + m.wgrad == Approx(2 * m.forward));
      }
    }
  }
}

TEST_CASE("The whole is the sum of its layers, logits and MTP modules") {
  for (const char* name : {"deepseek-v3", "llama4-maverick", "qwen3-next-80b-a3b", "nemotron-3-super-120b-a12b"}) {
    const Model model = catalog_model(name);
    const Documents documents = one_sequence(8192, model.window);
    FlopOptions options;
    options.count_router = true;
    double sum = logits_flops(model, documents.tokens).total();
    for (const Layer& layer : model.layers) {
      for (const ModuleFlops& m : layer_flops(model, layer, documents, options)) sum += m.total();
    }
    double mtp = logits_flops(model, documents.tokens).total() + mtp_projection_flops(model, documents.tokens).total();
    for (const ModuleFlops& m : layer_flops(model, mtp_layer(model), documents, options)) mtp += m.total();
    CHECK(flops(model, documents, options).total() == Approx(sum + model.mtp_layers * mtp));
  }
}

TEST_CASE("Packed documents attend to themselves: the sum of squares counts, not the square of the sum") {
  const Model model = catalog_model("llama-3-8b");
  const std::vector<double> lengths = {1000, 3000, 96, 4096};
  const Documents packed = make_documents(lengths, 0, 8192);
  CHECK(packed.tokens == 8192);
  CHECK(packed.sum_of_squares == Approx(1000. * 1000 + 3000. * 3000 + 96. * 96 + 4096. * 4096));
  const auto core = [](const FlopAccount& account) {
    const auto m = std::find_if(account.modules.begin(), account.modules.end(),
                                [](const ModuleFlops& f) { return f.module == "attention_core"; });
    return m->total();
  };
  const double apart = core(flops(model, packed, {}));
  const double whole = core(flops(model, one_sequence(8192, 0), {}));
  CHECK(apart / whole == Approx(packed.sum_of_squares / (8192. * 8192)));
  // 4 s^2 width FLOPs a layer forward over the full square (worked case A), half of it causal.
  CHECK(whole == Approx(3.0 * 32 * 2 * 8192. * 8192 * 4096));
}

TEST_CASE("Pairs of windows and chunks") {
  // A window at least as long as the document changes nothing.
  CHECK(causal_pairs(one_sequence(100, 100), AttentionKind::sliding) == 5000);
  CHECK(causal_pairs(one_sequence(100, 400), AttentionKind::chunked) == 5000);
  CHECK(causal_pairs(one_sequence(100, 10), AttentionKind::sliding) == 50 + 90 * 10);
  CHECK(causal_pairs(one_sequence(105, 10), AttentionKind::chunked) == 10 * 50 + 12.5);
  CHECK(causal_pairs(one_sequence(100, 10), AttentionKind::full) == 5000);
  CHECK(causal_pairs(one_sequence(100, 10), AttentionKind::linear) == 0);
  // Against counting pairs one by one: the continuous count differs by half a token on the diagonal.
  double counted = 0;
  for (int q = 0; q < 1000; ++q) counted += std::min(q + 1, 128);
  CHECK(causal_pairs(one_sequence(1000, 128), AttentionKind::sliding) == Approx(counted).epsilon(0.001));
}

TEST_CASE("Attention share of worked case A") {
  // 12 full-attention layers of width 2048 (16 heads of 128), 80 sequences of 49152: 5.70e16 FLOPs over the full
  // square.
  Model model;
  model.hidden = 2048;
  model.vocab = 1000;
  model.dense_ffn = 1;
  model.attention.heads = model.attention.kv_heads = 16;
  model.attention.head_dim = model.attention.v_head_dim = 128;
  model.layers.assign(12, {AttentionKind::full, FfnKind::dense});
  const std::vector<double> lengths(80, 49152.0);
  FlopOptions options;
  options.convention = Convention::attention_full;
  const FlopAccount account = flops(model, make_documents(lengths, 0, 49152), options);
  for (const ModuleFlops& m : account.modules) {
    if (m.module == "attention_core") CHECK(m.total() == Approx(5.70e16).epsilon(0.001));
  }
}

TEST_CASE("Nothing is divided by an empty sequence") {
  CHECK(flops_per_token(catalog_model("grok-1"), 0, {}) == 0);
  CHECK(flops(catalog_model("llama4-scout"), make_documents({}, 8192, 0), {}).total() == 0);
}

}  // namespace stepcast::models
