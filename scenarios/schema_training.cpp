// The blocks precision, recompute and routing.
#include <algorithm>
#include <map>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/documents.h"
#include "scenarios/draft.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using parallelism::Recipe;
using parallelism::RecomputeMode;
using topology::Precision;

struct RecipeName {
  const char* name;
  Precision gemm;
};
// "fp8" is the short form of fp8-blockwise.
constexpr RecipeName recipes[] = {
    {"bf16", Precision::bf16},          {"fp16", Precision::fp16},
    {"fp8-tensorwise", Precision::fp8}, {"fp8-blockwise", Precision::fp8_blockwise},
    {"mxfp8", Precision::mxfp8},        {"nvfp4", Precision::nvfp4},
    {"fp8", Precision::fp8_blockwise},
};

constexpr double fp32_bytes = 4;
constexpr double half_bytes = 2;
constexpr double e5m6_bytes = 1.5;

// fp32 master weights and two moments (Adam).
double optimizer_bytes(const std::string& moments) {
  const double each = moments == "fp32" ? fp32_bytes : moments == "bf16" ? half_bytes : 1.0;
  return fp32_bytes + 2 * each;
}

// A choice that the profile has a default for: the scenario's, else the profile's with an assumption.
std::string choice_or_profile(Draft& draft, JsonFields& fields, const char* key,
                              const std::vector<std::string>& allowed, const std::string& usual) {
  if (const auto index = fields.choice(key, allowed)) return allowed[*index];
  if (!fields.has(key)) {
    draft.assume(fmt::format("precision.{} not given: {}, as {} runs it", key, usual, draft.spec.software.name));
  }
  return usual;
}

bool quantised(Precision p) { return p != Precision::bf16 && p != Precision::fp16; }

// Modules as Megatron-Core names them (--recompute-modules), and two of older frameworks.
const std::vector<std::string> recompute_modules = {"core_attn", "moe_act",        "layernorm",    "mla_up_proj", "mlp",
                                                    "moe",       "shared_experts", "gdn_norm_out", "op"};

void read_modules(JsonFields& fields, parallelism::Recompute& recompute) {
  fields.list("modules", [&](const Json& element, const std::string& pointer) {
    const std::string module = element.is_string() ? element.get<std::string>() : "";
    const bool known = std::find(recompute_modules.begin(), recompute_modules.end(), module) != recompute_modules.end();
    if (!known) {
      fields.errors().push_back(
          make_error(ErrorCode::invalid,
                     fmt::format("found {}; modules are {}{}", shown(element), fmt::join(recompute_modules, ", "),
                                 suggestion(module, recompute_modules)),
                     fields.document().where(pointer)));
      return;
    }
    auto& modules = recompute.modules;
    if (std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(module);
  });
}

// Modules whose recomputation finds nothing in the model.
void warn_idle_modules(Draft& draft) {
  const models::Model& model = draft.spec.model;
  const auto any = [&](auto&& is) { return std::any_of(model.layers.begin(), model.layers.end(), is); };
  const bool scores = any([](const models::Layer& l) { return models::has_scores(l.attention); });
  const std::map<std::string, bool> there = {
      {"core_attn", scores},
      {"mla_up_proj", scores && model.attention.mla.has_value()},
      {"mlp", any([](const models::Layer& l) { return l.ffn == models::FfnKind::dense; })},
      {"moe", model.is_moe()},
      {"moe_act", model.is_moe()},
      {"shared_experts", model.is_moe() && model.moe.shared_ffn > 0},
      {"gdn_norm_out", any([](const models::Layer& l) { return l.attention == models::AttentionKind::linear; })}};
  for (const std::string& module : draft.spec.recompute.modules) {
    const auto found = there.find(module);
    if (found != there.end() && !found->second) {
      draft.warnings.push_back(fmt::format("recompute of {} frees nothing: {} has no such module", module, model.name));
    }
  }
}

// Shares of experts from a list in the scenario: one row, or one row a layer.
void read_histogram(Draft& draft, JsonFields& fields, const Json& value) {
  parallelism::RoutingSpec& routing = draft.spec.routing;
  const auto numbers = parse_numbers(value.dump(-1, ' ', false, Json::error_handler_t::replace), "routing.skew");
  if (!numbers) {
    fields.fail("skew", fmt::format("skew: {}", numbers.errors().front().message));
    return;
  }
  const int experts = draft.spec.model.moe.experts;
  const bool usable = !numbers->empty() && std::all_of(numbers->begin(), numbers->end(),
                                                       [](double share) { return share >= 0 && share <= 1e15; });
  if (!usable || (experts > 0 && numbers->size() % static_cast<std::size_t>(experts) != 0)) {
    fields.fail("skew", fmt::format("skew is a list of {} shares; {} shares from 0 to 1e15 a layer, for one layer or "
                                    "for each, are expected",
                                    numbers->size(), experts > 0 ? std::to_string(experts) : "the experts'"));
    return;
  }
  for (std::size_t row = 0; experts > 0 && row < numbers->size(); row += static_cast<std::size_t>(experts)) {
    const auto first = numbers->begin() + static_cast<std::ptrdiff_t>(row);
    if (std::all_of(first, first + experts, [](double share) { return share == 0; })) {
      fields.fail("skew", "skew has a layer whose shares are all 0");
      return;
    }
  }
  routing.kind = parallelism::SkewKind::histogram;
  routing.histogram = *numbers;
  draft.histogram_given = true;
}

void read_skew(Draft& draft, JsonFields& fields) {
  draft.skew = "balanced";
  const Json* value = fields.find("skew");
  if (value == nullptr) {
    if (draft.spec.model.is_moe()) draft.assume("routing.skew not given: balanced over the experts");
    return;
  }
  if (value->is_array()) {
    read_histogram(draft, fields, *value);
    return;
  }
  const auto text = fields.text("skew");
  if (!text) return;
  std::error_code code;
  const auto file = draft.locate(*text);
  const std::string asked = std::filesystem::exists(file, code) ? file.string() : *text;
  auto skew = parallelism::parse_skew(asked, draft.spec.model.moe.experts);
  if (!skew) {
    for (const Error& e : skew.errors()) {
      const bool in_file = e.where.starts_with(asked);
      fields.fail("skew", in_file ? fmt::format("skew: {} ({})", e.message, e.where) : e.message, e.code);
    }
    return;
  }
  parallelism::RoutingSpec& routing = draft.spec.routing;
  routing.kind = skew->kind;
  routing.parameter = skew->parameter;
  routing.histogram = std::move(skew->histogram);
  draft.histogram_given = routing.kind == parallelism::SkewKind::histogram;
  draft.skew = *text;
  if (*text == "aux-loss-free") {
    draft.assume(
        fmt::format("routing.skew aux-loss-free: the fullest expert 4 % above the mean over a step (zipf:{:.4f}), "
                    "and the chance of each microbatch",
                    routing.parameter));
  }
}

void read_capacity(Draft& draft, JsonFields& fields) {
  parallelism::RoutingSpec& routing = draft.spec.routing;
  fields.read("capacity_factor", routing.capacity_factor, 0.01, 1000);
  const auto drop = fields.choice("drop", {"none", "drop", "pad"});
  if (drop) routing.drop = static_cast<parallelism::DropPolicy>(*drop);
  if (routing.capacity_factor == 0) {
    if (drop && *drop != 0) {
      fields.fail("drop", "drop needs a capacity_factor: without one no token is above capacity");
    }
  } else if (drop && *drop == 0) {
    fields.fail("drop", "drop is none, but a capacity_factor is given; allowed with it: drop, pad");
  } else if (!fields.has("drop")) {
    routing.drop = parallelism::DropPolicy::drop;
    draft.assume("routing.drop not given: tokens above the capacity are dropped, slots are not padded");
  }
}

}  // namespace

void read_precision(Draft& draft) {
  JsonFields fields = draft.block("precision");
  Recipe& recipe = draft.spec.recipe;
  std::vector<std::string> names;
  for (const RecipeName& r : recipes) names.emplace_back(r.name);
  if (const auto index = fields.choice("recipe", names)) {
    recipe.gemm = recipes[*index].gemm;
    recipe.name = names[*index] == "fp8" ? "fp8-blockwise" : names[*index];
  } else if (!fields.has("recipe")) {
    draft.assume("precision not given: bf16");
  }
  const parallelism::SoftwareProfile& software = draft.spec.software;
  const std::string gradients = choice_or_profile(draft, fields, "gradients", {"fp32", "bf16"}, software.gradients);
  recipe.gradient_bytes = gradients == "fp32" ? fp32_bytes : half_bytes;
  recipe.reduce_bytes = recipe.gradient_bytes;
  if (const auto index = fields.choice("gradient_reduce", {"fp32", "bf16"})) {
    recipe.reduce_bytes = *index == 0 ? fp32_bytes : half_bytes;
  }
  recipe.optimizer_bytes = optimizer_bytes(
      choice_or_profile(draft, fields, "optimizer_state", {"fp32", "bf16", "fp8"}, software.optimizer_state));
  if (const auto index = fields.choice("parameters", {"bf16", "fp8"})) {
    recipe.parameter_bytes = *index == 0 ? half_bytes : topology::element_bytes(Precision::fp8_blockwise);
  }
  // Quantised GEMMs keep their quantised input for the weight gradient, unless the scenario says otherwise.
  recipe.activation_bytes = quantised(recipe.gemm) ? topology::element_bytes(recipe.gemm) : half_bytes;
  if (const auto index = fields.choice("activations", {"recipe", "bf16", "fp8"}); index && *index > 0) {
    recipe.activation_bytes = *index == 1 ? half_bytes : topology::element_bytes(Precision::fp8_blockwise);
    // Asked for by name, FP8 also holds what SwiGLU reads, and 12 bits the attention's output
    // (DeepSeek-V3, arXiv 2412.19437, section 3.3.3).
    recipe.function_input_bytes = recipe.activation_bytes;
    recipe.attention_output_bytes = *index == 1 ? half_bytes : e5m6_bytes;
  }
  if (const auto index = fields.choice("router_dtype", {"mixed", "bf16", "fp32"})) {
    recipe.router_dtype = static_cast<parallelism::RouterDtype>(*index);
  } else if (draft.spec.model.is_moe() && !fields.has("router_dtype")) {
    draft.assume("precision.router_dtype not given: mixed, 16-bit products with fp32 logits");
  }
  fields.refuse_unknown();
  if (draft.cluster_ok && !draft.spec.cluster.device.peak_flops.contains(recipe.gemm)) {
    std::vector<std::string> can;
    for (const RecipeName& r : recipes) {
      if (draft.spec.cluster.device.peak_flops.contains(r.gemm)) can.emplace_back(r.name);
    }
    draft.fail("/precision/recipe", fmt::format("the device {} has no {}; it has {}", draft.spec.cluster.device.name,
                                                recipe.name, fmt::join(can, ", ")));
  }
}

void read_recompute(Draft& draft) {
  JsonFields fields = draft.block("recompute");
  parallelism::Recompute& recompute = draft.spec.recompute;
  if (const auto index = fields.choice("mode", {"none", "full", "selective"})) {
    recompute.mode = static_cast<RecomputeMode>(*index);
  } else if (!fields.has("mode")) {
    recompute.mode = fields.has("modules") ? RecomputeMode::selective : RecomputeMode::none;
    if (!draft.given("/recompute")) draft.assume("recompute not given: none");
  }
  read_modules(fields, recompute);
  if (const auto index = fields.choice("method", {"uniform", "block"})) {
    recompute.method = *index == 0 ? "uniform" : "block";
  }
  fields.read("layers", recompute.block_layers, 0, 100'000);
  if (recompute.mode == RecomputeMode::selective && !fields.has("modules")) {
    recompute.modules = {"core_attn"};
    draft.assume("recompute.modules not given: core_attn, Megatron-Core's default");
  }
  if (draft.model_ok) warn_idle_modules(draft);
  if (recompute.mode != RecomputeMode::selective && fields.has("modules")) {
    fields.fail("modules", "modules belong to the mode selective");
  }
  if (recompute.mode != RecomputeMode::full) {
    for (const char* key : {"method", "layers"}) {
      if (fields.has(key)) fields.fail(key, fmt::format("{} belongs to the mode full", key));
    }
  }
  fields.refuse_unknown();
}

void read_routing(Draft& draft) {
  JsonFields fields = draft.block("routing");
  read_skew(draft, fields);
  fields.read("persistence", draft.spec.routing.persistence, 0, 1);
  if (draft.histogram_given) {
    draft.assume(
        "routing.skew is a histogram: all of it lasts over the microbatches of a step, whatever persistence says");
  } else if (draft.skew != "balanced" && !fields.has("persistence")) {
    draft.assume(fmt::format("routing.persistence not given: {} of the skew lasts over the microbatches of a step",
                             draft.spec.routing.persistence));
  }
  read_capacity(draft, fields);
  // Group-limited routing bounds the domains that a token reaches.
  const models::Moe& moe = draft.spec.model.moe;
  draft.spec.node_limit = moe.groups > 0 ? moe.top_groups : 0;
  fields.read("node_limit", draft.spec.node_limit, 0, 100'000);
  if (draft.spec.node_limit > 0 && !fields.has("node_limit")) {
    draft.assume(fmt::format("routing.node_limit not given: {}, the groups that the router of {} chooses of {}",
                             draft.spec.node_limit, draft.spec.model.name, moe.groups));
  }
  fields.refuse_unknown();
  if (draft.model_ok && !draft.spec.model.is_moe() && draft.given("/routing")) {
    draft.warnings.push_back(fmt::format("routing is given, but {} has no experts", draft.spec.model.name));
  }
}

}  // namespace stepcast::scenarios
