// The model of the arguments: a catalogue model of the same shape, or a description of its own.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/catalog.h"
#include "scenarios/megatron/import_parts.h"
#include "scenarios/megatron/model_arguments.h"

namespace stepcast::scenarios::megatron {
namespace {

using Json = nlohmann::ordered_json;

constexpr long long most_layers = 100'000;
constexpr long long widest = 1 << 24;
constexpr double usual_dropout = 0.1;  // --attention-dropout, --hidden-dropout

struct Shape {
  Json description = Json::object();
  std::optional<long long> vocab;
  bool attention_dropout = false, hidden_dropout = false;
  int mtp_layers = 0;
};

class ModelReader {
 public:
  explicit ModelReader(ImportDraft& draft) : draft_(draft), arguments_(draft.arguments) {}

  Shape read() {
    Json& model = shape_.description;
    const auto layers = required("--num-layers", most_layers);
    hidden_ = required("--hidden-size", widest);
    heads_ = required("--num-attention-heads", widest);
    ffn_ = arguments_.integer("--ffn-hidden-size", 1, widest).value_or(4 * hidden_);  // Megatron's default
    model["name"] = "imported";
    model["family"] = "megatron";
    model["hidden"] = hidden_;
    read_attention(model);
    read_ffn(model);
    read_ends(model);
    read_layers(model, static_cast<std::size_t>(layers));
    read_dropout();
    return std::move(shape_);
  }

 private:
  long long required(std::string_view name, long long high) {
    if (!arguments_.has(name)) {
      draft_.errors.push_back(make_error(ErrorCode::invalid, "the argument is missing", std::string(name)));
      return 1;
    }
    return arguments_.integer(name, 1, high).value_or(1);
  }

  void read_attention(Json& model) {
    Json& attention = model["attention"];
    attention["heads"] = heads_;
    bias_ = !arguments_.flag("--disable-bias-linear");
    const bool qkv_bias = arguments_.flag("--add-qkv-bias");
    const bool norm = arguments_.flag("--qk-layernorm");
    if (arguments_.flag("--multi-latent-attention")) {
      read_mla(attention["mla"]);
    } else {
      const bool grouped = arguments_.flag("--group-query-attention");
      // Megatron's default of the groups is 1.
      const long long groups = arguments_.integer("--num-query-groups", 1, widest).value_or(1);
      attention["kv_heads"] = grouped ? groups : heads_;
      const auto channels = arguments_.integer("--kv-channels", 1, widest);
      if (!channels && hidden_ % heads_ != 0) {
        arguments_.fail(
            "--num-attention-heads",
            fmt::format("{} heads do not divide the hidden size {}, and --kv-channels is not given", heads_, hidden_));
      }
      attention["head_dim"] = channels.value_or(std::max(1LL, hidden_ / heads_));
      if (norm) attention["qk_norm"] = true;
    }
    if (bias_ || qkv_bias) attention["bias"] = true;
    if (bias_) attention["output_bias"] = true;
    if (arguments_.flag("--attention-output-gate")) attention["output_gate"] = true;
    if (arguments_.choice("--softmax-type", {"vanilla", "off-by-one", "learnable"}) == 2U) attention["sinks"] = true;
  }

  void read_mla(Json& mla) {
    const auto rank = [&](const char* key, std::string_view name, long long usual) {
      const auto given = arguments_.integer(name, 1, widest);
      if (!given) draft_.assume(fmt::format("{} not given: {}, Megatron-LM's default", name, usual));
      mla[key] = given.value_or(usual);
    };
    constexpr long long usual_kv_rank = 32, usual_head = 128, usual_rope = 64;        // megatron/training/arguments.py
    mla["q_lora_rank"] = arguments_.integer("--q-lora-rank", 1, widest).value_or(0);  // absent: not compressed
    rank("kv_lora_rank", "--kv-lora-rank", usual_kv_rank);
    rank("qk_nope_head_dim", "--qk-head-dim", usual_head);
    rank("qk_rope_head_dim", "--qk-pos-emb-head-dim", usual_rope);
    rank("v_head_dim", "--v-head-dim", usual_head);
  }

  void read_ffn(Json& model) {
    bool gated = arguments_.flag("--swiglu");
    for (const char* name : {"--quick-geglu", "--gated-linear-unit"}) gated = arguments_.flag(name) || gated;
    if (!gated) model["gated_ffn"] = false;
    experts_ = arguments_.integer("--num-experts", 1, widest).value_or(0);
    if (experts_ == 0) return;
    constexpr long long usual_top_k = 2;
    Json& moe = model["moe"];
    moe["experts"] = experts_;
    const auto top_k = arguments_.integer("--moe-router-topk", 1, widest);
    if (!top_k) draft_.assume("--moe-router-topk not given: 2, Megatron-LM's default");
    moe["top_k"] = top_k.value_or(usual_top_k);
    moe["expert_ffn"] = arguments_.integer("--moe-ffn-hidden-size", 1, widest).value_or(ffn_);
    const auto optional = [&](const char* key, std::string_view name) {
      if (const auto value = arguments_.integer(name, 1, widest)) moe[key] = *value;
    };
    optional("shared_ffn", "--moe-shared-expert-intermediate-size");
    optional("latent", "--moe-latent-size");
    optional("groups", "--moe-router-num-groups");
    optional("top_groups", "--moe-router-group-topk");
    if (arguments_.flag("--moe-shared-expert-gate")) moe["shared_gate"] = true;
    const bool correction = arguments_.flag("--moe-router-enable-expert-bias");
    arguments_.text("--moe-router-score-function");
    if (correction || bias_) moe["router_bias"] = true;
    if (bias_) moe["expert_bias"] = true;
  }

  void read_ends(Json& model) {
    shape_.vocab = arguments_.integer("--vocab-size", 1, widest);
    model["vocab"] = shape_.vocab.value_or(1);
    if (!arguments_.flag("--untie-embeddings-and-output-weights")) model["tied_embeddings"] = true;
    bool learned = arguments_.text("--position-embedding-type").value_or("learned_absolute") == "learned_absolute";
    for (const char* name : {"--use-rotary-position-embeddings", "--no-position-embedding"}) {
      if (arguments_.flag(name)) learned = false;
    }
    const auto positions = arguments_.integer("--max-position-embeddings", 1, widest);
    if (learned) {
      model["learned_positions"] = true;
      model["max_positions"] = positions.value_or(arguments_.integer("--seq-length", 1, widest).value_or(1));
    }
    if (arguments_.text("--normalization").value_or("LayerNorm") == "LayerNorm") model["layer_norm_bias"] = true;
    shape_.mtp_layers = static_cast<int>(arguments_.integer("--mtp-num-layers", 0, most_layers).value_or(0));
    if (shape_.mtp_layers > 0) model["mtp_layers"] = shape_.mtp_layers;
    if (arguments_.flag("--mtp-use-repeated-layer") && shape_.mtp_layers > 0) model["mtp_shared_weights"] = true;
  }

  // One entry a layer: an integer n puts 1 on every n-th from `first`, a list says it itself.
  std::vector<int> pattern(std::string_view name, std::size_t layers, bool ones_between) {
    const auto text = arguments_.text(name);
    if (!text) return {};
    const bool whole = text->find_first_not_of("0123456789") == std::string::npos && text->size() < 7 && !text->empty();
    std::vector<int> entries;
    if (whole && std::stoi(*text) > 0) {
      const auto every = static_cast<std::size_t>(std::stoi(*text));
      for (std::size_t i = 0; i < layers; ++i) {
        entries.push_back(ones_between ? ((i + 1) % every != 0 ? 1 : 0) : (i % every == 0 ? 1 : 0));
      }
      return entries;
    }
    const auto list = parse_pattern(*text);
    if (!list) {
      arguments_.fail(name, fmt::format("found '{}'; a whole number or a list such as ([0]*3+[1]*58) is expected",
                                        text->substr(0, 60)));
      return {};
    }
    if (list->size() != layers) {
      arguments_.fail(name, fmt::format("the pattern has {} entries; the model has {} layers", list->size(), layers));
      return {};
    }
    return *list;
  }

  void read_window(Json& model) {
    const auto values = arguments_.list("--window-size");
    if (values.empty()) return;
    std::string digits;
    for (const char c : values.front()) {
      if (c >= '0' && c <= '9') digits += c;
    }
    constexpr std::size_t longest = 8;
    if (digits.empty() || digits.size() > longest) {
      arguments_.fail("--window-size", fmt::format("found '{}'; a width such as 128,0 is expected", values.front()));
      return;
    }
    model["window"] = std::max(1, std::stoi(digits));
    windowed_ = true;
  }

  void read_layers(Json& model, std::size_t layers) {
    read_window(model);
    const std::vector<int> moe = experts_ > 0 ? pattern("--moe-layer-freq", layers, false) : std::vector<int>{};
    const std::vector<int> window = windowed_ ? pattern("--window-attn-skip-freq", layers, true) : std::vector<int>{};
    bool dense = false;
    Json& runs = model["layers"] = Json::array();
    for (std::size_t i = 0; i < layers; ++i) {
      const bool expert = experts_ > 0 && (moe.empty() || moe[i] != 0);
      const bool sliding = windowed_ && (window.empty() || window[i] != 0);
      dense = dense || !expert;
      const Json run = {{"repeat", 1}, {"attention", sliding ? "sliding" : "full"}, {"ffn", expert ? "moe" : "dense"}};
      const bool same =
          !runs.empty() && runs.back()["attention"] == run["attention"] && runs.back()["ffn"] == run["ffn"];
      if (same) {
        runs.back()["repeat"] = runs.back()["repeat"].get<int>() + 1;
      } else {
        runs.push_back(run);
      }
    }
    if (!dense) return;
    model["dense_ffn"] = ffn_;
    if (bias_) model["ffn_bias"] = true;
  }

  void read_dropout() {
    const auto on = [&](std::string_view name) {
      const auto rate = arguments_.number(name, 0, 1);
      if (!rate) draft_.assume(fmt::format("{} not given: {}, Megatron-LM's default", name, usual_dropout));
      return rate.value_or(usual_dropout) > 0;
    };
    shape_.attention_dropout = on("--attention-dropout");
    shape_.hidden_dropout = on("--hidden-dropout");
    if (shape_.attention_dropout) shape_.description["attention_dropout"] = true;
    if (shape_.hidden_dropout) shape_.description["hidden_dropout"] = true;
  }

  ImportDraft& draft_;
  ArgumentSet& arguments_;
  Shape shape_;
  long long hidden_ = 1, heads_ = 1, ffn_ = 1, experts_ = 0;
  bool bias_ = false, windowed_ = false;
};

// The shape as text, MTP modules left out: a catalogue model may be trained without them.
std::string fingerprint(const models::Model& model) {
  std::string text;
  for (const Argument& argument : model_arguments(model).arguments) {
    if (!argument.name.starts_with("--mtp-")) text += shown(argument) + "\n";
  }
  return text;
}

Json name_with_changes(const models::Model& known, const Shape& shape) {
  Json block = Json::object({{"name", known.name}});
  if (known.mtp_layers != shape.mtp_layers) block["mtp_layers"] = shape.mtp_layers;
  if (shape.vocab && *shape.vocab != known.vocab) block["vocab"] = *shape.vocab;
  if (known.attention_dropout != shape.attention_dropout) block["attention_dropout"] = shape.attention_dropout;
  if (known.hidden_dropout != shape.hidden_dropout) block["hidden_dropout"] = shape.hidden_dropout;
  return block;
}

// Models of the catalogue with this shape; the wanted one first, then those with the same vocabulary.
std::vector<models::Model> matches(const ImportDraft& draft, const models::Model& model, const Shape& shape) {
  std::vector<models::Model> found;
  const auto entries = models::list_models(draft.options.catalog_root);
  if (!entries) return found;
  const std::string wanted = fingerprint(model);
  for (const auto& entry : *entries) {
    auto known = models::load_model(draft.options.catalog_root, entry.name);
    if (known && known->hidden == model.hidden && fingerprint(*known) == wanted) found.push_back(std::move(*known));
  }
  const auto rank = [&](const models::Model& known) {
    if (known.name == draft.options.model) return 0;
    return !shape.vocab || known.vocab == *shape.vocab ? 1 : 2;
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const models::Model& a, const models::Model& b) { return rank(a) < rank(b); });
  return found;
}

// The model of an export's comment, if it still has the shape of the arguments.
bool use_carried(ImportDraft& draft, const models::Model& model, const Shape& shape) {
  if (!draft.carried.is_object() || !draft.carried.contains("model")) return false;
  const Json& block = draft.carried["model"];
  if (!block.is_object() || !block.contains("name") || !block["name"].is_string()) return false;
  const auto known = block.contains("hidden")
                         ? models::parse_model_json(block.dump(), "comment")
                         : models::load_model(draft.options.catalog_root, block["name"].get<std::string>());
  const bool same = known && fingerprint(*known) == fingerprint(model) && known->mtp_layers == model.mtp_layers &&
                    (!shape.vocab || known->vocab == *shape.vocab) &&
                    known->attention_dropout == model.attention_dropout &&
                    known->hidden_dropout == model.hidden_dropout;
  if (!same) {
    draft.warn("the model of the comment is not that of the arguments; the arguments are taken");
    return false;
  }
  draft.made.scenario["model"] = block;
  draft.model = *known;
  return true;
}

}  // namespace

void import_model(ImportDraft& draft) {
  const std::size_t before = draft.errors.size();
  const Shape shape = ModelReader(draft).read();
  if (draft.errors.size() != before) return;
  auto model = models::parse_model_json(shape.description.dump(), "arguments");
  if (!model) {
    for (const Error& error : model.errors()) draft.errors.push_back(make_error(error.code, error.message, "model"));
    return;
  }
  draft.model = *model;
  if (use_carried(draft, *model, shape)) return;
  const auto found = matches(draft, *model, shape);
  if (!draft.options.model.empty() && (found.empty() || found.front().name != draft.options.model)) {
    draft.errors.push_back(
        make_error(ErrorCode::invalid,
                   fmt::format("the model '{}' does not have the shape of the arguments{}", draft.options.model,
                               found.empty() ? "" : "; '" + found.front().name + "' has"),
                   "--model"));
    return;
  }
  if (found.empty()) {
    draft.made.scenario["model"] = shape.description;
    if (!shape.vocab) draft.made.scenario["model"].erase("vocab");
    if (!shape.vocab) {
      draft.errors.push_back(make_error(
          ErrorCode::invalid, "the argument is missing, and no model of the catalogue has this shape", "--vocab-size"));
    }
    return;
  }
  draft.made.scenario["model"] = name_with_changes(found.front(), shape);
  draft.model = found.front();
  draft.model->mtp_layers = shape.mtp_layers;
  if (found.size() > 1 && draft.options.model.empty()) {
    std::vector<std::string> names;
    for (const auto& known : found) names.push_back(known.name);
    draft.assume(fmt::format("models of this shape are {}: {} is taken (--model chooses)", fmt::join(names, ", "),
                             names.front()));
  } else {
    draft.assume(fmt::format("the arguments have the shape of the catalogue's {}", found.front().name));
  }
}

}  // namespace stepcast::scenarios::megatron
