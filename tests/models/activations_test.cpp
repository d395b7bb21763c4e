#include "models/activations.h"

#include <vector>

#include "tests/models/support.h"

namespace stepcast::models {
namespace {

double layer_bytes(const Model& model, const ActivationOptions& options, const ActivationShare& share) {
  return kept_bytes(layer_activations(model, model.layers.back(), options), share).value;
}

ActivationShare one_microbatch(double tokens, double top_k) {
  ActivationShare share;
  share.tokens = tokens;
  share.keys = tokens;
  share.routed_rows = tokens * top_k;
  return share;
}

}  // namespace

TEST_CASE("A GPT layer keeps sbh (34 + 5 a s / h), arXiv 2205.05198 equations 1, 2 and 4") {
  const double s = 2048;
  for (const char* name : {"gpt-22b", "gpt-175b", "gpt-530b", "gpt-1t"}) {
    const Model model = catalog_model(name);
    const double h = model.hidden;
    const double a = model.attention.heads;
    ActivationOptions options;
    options.fused_attention = false;
    ActivationShare share = one_microbatch(s, 0);
    CHECK(layer_bytes(model, options, share) == Approx(s * h * (34 + 5 * a * s / h)));
    share.tp = 8;
    CHECK(layer_bytes(model, options, share) == Approx(s * h * (10 + 24.0 / 8 + 5 * a * s / (h * 8))));
    share.sequence_parallel = true;
    CHECK(layer_bytes(model, options, share) == Approx(s * h / 8 * (34 + 5 * a * s / h)));
    // Selective recomputation of the attention core: 34 s b h / t, table 2.
    share.recompute = {"core_attn"};
    CHECK(layer_bytes(model, options, share) == Approx(s * h / 8 * 34));
    share.full_recompute = true;
    share.sequence_parallel = false;
    CHECK(layer_bytes(model, options, share) == Approx(2 * s * h));
  }
}

TEST_CASE("Fused attention keeps one number a row of scores instead of the square") {
  const Model model = catalog_model("gpt-22b");
  const double s = 2048;
  const double fused = layer_bytes(model, {}, one_microbatch(s, 0));
  CHECK(fused == Approx(s * model.hidden * 34 + s * 64 * 4));
}

TEST_CASE("DeepSeek-V3: what each recomputation frees") {
  const Model model = catalog_model("deepseek-v3");
  const double tokens = 4096;
  const ActivationOptions options;
  ActivationShare share = one_microbatch(tokens, 8);
  const double all = layer_bytes(model, options, share);
  const auto freed = [&](std::vector<std::string> modules) {
    share.recompute = std::move(modules);
    return all - layer_bytes(model, options, share);
  };
  CHECK(freed({"mla_up_proj"}) == Approx(tokens * 2 * (128 * (192 + 192 + 128) + 1536 + 512)));
  CHECK(freed({"layernorm"}) == Approx(tokens * 2 * 2 * 7168));
  CHECK(freed({"moe_act"}) == Approx(tokens * 2 * 8 * 2048));
  CHECK(freed({"shared_experts"}) == Approx(tokens * 2 * 3 * 2048));
  CHECK(freed({"moe"}) > freed({"moe_act"}) + freed({"shared_experts"}));
  CHECK(freed({"mlp"}) == 0);  // the layer is MoE
  CHECK(freed({"moe", "moe_act"}) == freed({"moe"}));
}

// arXiv 2603.07685, tables 3 and 4: DeepSeek-V3 in BF16 with fp32 gradients, 256 GPUs, PP4 VPP4 EP64, without
// recompute. Unit and layers of the stage are not stated. Read here: GiB, 16 MoE layers on the first rank, in four
// chunks of four; interleaved 1F1B holds pv + p - 1 = 19 chunks there, of one sequence of 4096 each, with balanced
// experts.
TEST_CASE("DeepSeek-V3 on 256 GPUs: weights, optimizer, activations and what recomputation saves") {
  const Model model = catalog_model("deepseek-v3");
  const double gib = 1024.0 * 1024 * 1024;
  const double layers = 16;
  const LayerParameters p = layer_parameters(model, model.layers.back());
  const double dense = p.total() - p.routed_experts;
  const double experts = p.routed_experts / 64;
  CHECK(layers * (dense + experts) * (2 + 4) / gib == Approx(36.4).epsilon(0.08));
  CHECK(layers * (dense / 64 + experts) * 12 / gib == Approx(32.1).epsilon(0.08));

  ActivationOptions options;
  options.mla_values_stay = true;
  ActivationShare share = one_microbatch(4096, 8);
  const double in_flight = 19 * 4;
  const double all = in_flight * layer_bytes(model, options, share);
  CHECK(all / gib == Approx(131.0).epsilon(0.08));
  const auto saved = [&](const char* module) {
    share.recompute = {module};
    return (all - in_flight * layer_bytes(model, options, share)) / gib;
  };
  CHECK(saved("mla_up_proj") == Approx(30.4).epsilon(0.08));
  CHECK(saved("layernorm") == Approx(8.2).epsilon(0.08));
  // Published: 3.8. The activation's output of the routed rows alone is 2.5 times as much; the table's recomputation
  // must free less than Megatron-Core's `moe_act` is documented to.
  CHECK(saved("moe_act") == Approx(9.5).epsilon(0.01));
}

TEST_CASE("8-bit inputs of products shrink what is kept, but for the second copy of attention's output") {
  for (const char* name : {"deepseek-v3", "llama-3-8b", "qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b"}) {
    const Model model = catalog_model(name);
    ActivationOptions eight;
    eight.gemm_input_width = 1;
    for (const Layer& layer : model.layers) {
      const ActivationShare share = one_microbatch(4096, model.moe.top_k);
      const double kept16 = kept_bytes(layer_activations(model, layer, {}), share).value;
      const double kept8 = kept_bytes(layer_activations(model, layer, eight), share).value;
      CHECK(kept8 < kept16 * (layer.ffn == FfnKind::none ? 1.06 : 1.0));
      CHECK(kept8 > kept16 / 2);
    }
  }
}

TEST_CASE("Every layer of every model keeps at least its input, and recomputation never adds") {
  const auto catalog = list_models(STEPCAST_SOURCE_DIR);
  REQUIRE(catalog.ok());
  for (const CatalogEntry& entry : *catalog) {
    INFO(entry.name);
    const Model model = catalog_model(entry.name);
    for (const Layer& layer : model.layers) {
      const auto items = layer_activations(model, layer, {});
      ActivationShare share = one_microbatch(1000, model.moe.top_k);
      const double all = kept_bytes(items, share).value;
      for (const char* module : {"core_attn", "mla_up_proj", "layernorm", "moe_act", "mlp", "moe", "shared_experts"}) {
        share.recompute = {module};
        CHECK(kept_bytes(items, share).value <= all);
      }
      share.full_recompute = true;
      CHECK(kept_bytes(items, share).value == 1000 * 2.0 * model.hidden);
      for (const ActivationItem& item : items) CHECK((item.elements > 0 && item.bytes_per_element > 0));
    }
  }
}

TEST_CASE("Logits and MTP modules") {
  const Model model = catalog_model("deepseek-v3");
  ActivationShare share = one_microbatch(4096, 8);
  const double head = kept_bytes(head_activations(model, {}), share).value;
  CHECK(head == Approx(4096.0 * (2 * 7168 * 2 + 129280 * 4.0)));
  CHECK(kept_bytes(mtp_activations(model, {}), share).value ==
        Approx(head + layer_bytes(model, {}, share) + 4096.0 * 8 * 7168));
  CHECK(embedding_activations(model).empty());
  CHECK(embedding_activations(catalog_model("gpt-22b")).size() == 1);
}

}  // namespace stepcast::models
