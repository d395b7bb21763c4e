// Import of a Hugging Face config.json.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/catalog.h"
#include "models/hf/families.h"
#include "models/hf/parts.h"
#include "sim/base/json_fields.h"

namespace stepcast::models {
namespace {

using hf::Config;
using hf::Family;
using Json = nlohmann::ordered_json;

struct Chosen {
  const Family* family = nullptr;
  std::string model_type;
  std::string assumption;
};

std::string architecture_of(JsonFields& fields) {
  const Json* list = fields.find("architectures");
  const bool usable = list != nullptr && list->is_array() && !list->empty() && list->front().is_string();
  return usable ? list->front().get<std::string>() : "";
}

// By `model_type` of the text part, of the outer level, then by `architectures`.
Chosen choose_family(JsonFields& text, std::optional<JsonFields>& outer) {
  Chosen chosen;
  const std::string inner_type = text.text("model_type").value_or("");
  const std::string outer_type = outer ? outer->text("model_type").value_or("") : "";
  for (const std::string& type : {inner_type, outer_type}) {
    if (chosen.family == nullptr && !type.empty()) {
      chosen.family = hf::find_family(type);
      chosen.model_type = type;
    }
  }
  if (chosen.family != nullptr) return chosen;
  std::string architecture = architecture_of(text);
  if (architecture.empty() && outer) architecture = architecture_of(*outer);
  chosen.family = hf::find_by_architecture(architecture);
  chosen.model_type = !inner_type.empty() ? inner_type : outer_type;
  if (chosen.family != nullptr) {
    chosen.assumption = fmt::format("model_type '{}' is not known: read as {} because of architectures {}",
                                    chosen.model_type, chosen.family->name, architecture);
    return chosen;
  }
  const auto names = hf::family_names();
  text.fail("model_type",
            chosen.model_type.empty() && architecture.empty()
                ? fmt::format("model_type is missing; known families: {}", fmt::join(names, ", "))
                : fmt::format("model_type is '{}'{}, a family that is not known{}; known: {}", chosen.model_type,
                              architecture.empty() ? "" : fmt::format(" (architectures {})", architecture),
                              suggestion(chosen.model_type, names), fmt::join(names, ", ")),
            ErrorCode::unsupported);
  return chosen;
}

Model read_parts(Config& config) {
  Model model;
  hf::read_body(config, model);
  const bool hybrid = hf::read_hybrid_pattern(config, model);
  hf::read_attention(config, model);
  hf::read_ffn(config, model);
  if (!hybrid) {
    hf::read_attention_kinds(config, model);
    hf::read_ffn_kinds(config, model);
  }
  hf::read_mtp(config, model);
  hf::refuse_unsupported(config);
  hf::account_for_unread(config);
  return model;
}

// The config key behind a member that validate() names.
struct Behind {
  const char* member;
  std::array<const char*, 6> keys;
};
constexpr std::array behind = {
    Behind{"moe.top_k", {"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk", "moe_k"}},
    Behind{"moe.groups", {"n_group", "num_expert_group"}},
    Behind{"moe.top_groups", {"topk_group"}},
    Behind{"moe.experts", {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}},
    Behind{"attention.kv_heads", {"num_key_value_heads"}},
    Behind{"attention.heads", {"num_attention_heads"}},
    Behind{"dense_ffn", {"intermediate_size"}},
    Behind{"linear.", {"linear_num_key_heads", "linear_attn_config"}},
    Behind{"mamba.", {"mamba_num_heads"}},
    Behind{"window", {"sliding_window"}},
};

void locate(Error& error, JsonFields& text) {
  error.where = text.document().where(text.pointer());
  for (const Behind& b : behind) {
    if (!error.message.starts_with(b.member)) continue;
    for (const char* key : b.keys) {
      if (key != nullptr && text.has(key)) {
        error.where = text.where(key);
        error.message += fmt::format(" (from {})", key);
        return;
      }
    }
  }
}

std::string name_from(const std::string& file) {
  const std::filesystem::path path(file);
  std::string name = path.stem().string();
  if (name == "config") name = path.parent_path().filename().string();
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

Result<Model> import_document(const JsonDocument& document) {
  Errors errors;
  JsonFields top(document, document.root, "", errors);
  if (!errors.empty()) return errors;
  std::optional<JsonFields> outer;
  JsonFields text = top;
  if (auto inner = top.object("text_config")) {
    if (!errors.empty()) return errors;
    outer = top;
    text = std::move(*inner);
  }
  const Chosen chosen = choose_family(text, outer);
  if (chosen.family == nullptr || !errors.empty()) return errors;
  Config config(text, outer, *chosen.family);
  if (!chosen.assumption.empty()) config.assume(chosen.assumption);
  Model model = read_parts(config);
  model.name = name_from(document.file);
  model.family = chosen.model_type.empty() ? std::string(chosen.family->name) : chosen.model_type;
  model.source = "Hugging Face config.json";
  model.assumptions = std::move(config.assumptions());
  if (!errors.empty()) return errors;
  if (const Status valid = validate(model); !valid) {
    errors = valid.errors();
    for (Error& e : errors) locate(e, text);
    return errors;
  }
  return model;
}

}  // namespace

Result<Model> import_hf_config_text(std::string_view text, const std::string& file_name) {
  const auto document = parse_json(text, file_name);
  if (!document) return document.errors();
  return import_document(*document);
}

Result<Model> import_hf_config(const std::filesystem::path& file) {
  const auto document = read_json_file(file);
  if (!document) return document.errors();
  return import_document(*document);
}

Result<Model> read_model_file(const std::filesystem::path& file) {
  const auto document = read_json_file(file);
  if (!document) return document.errors();
  const Json& root = document->root;
  const bool own = root.is_object() && root.contains("hidden") && root.contains("vocab");
  return own ? parse_model(*document, root, "") : import_document(*document);
}

}  // namespace stepcast::models
