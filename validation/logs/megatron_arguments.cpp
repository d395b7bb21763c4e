#include "validation/logs/megatron_arguments.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "validation/logs/log_lines.h"

namespace stepcast::validation {
namespace {

std::string underscored(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

bool is_name(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string unquoted(std::string value) {
  while (!value.empty() && (value.back() == '\\' || value.back() == ',')) value.pop_back();
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
    value = value.substr(1, value.size() - 2);
  return value;
}

// Columns that an argument's number fills as it stands.
constexpr std::array<std::pair<const char*, const char*>, 14> plain_numbers{{
    {"num_layers", "layers"},
    {"hidden_size", "hidden"},
    {"num_attention_heads", "heads"},
    {"ffn_hidden_size", "ffn"},
    {"seq_length", "sequence_length"},
    {"global_batch_size", "global_batch"},
    {"micro_batch_size", "micro_batch"},
    {"tensor_model_parallel_size", "tp"},
    {"pipeline_model_parallel_size", "pp"},
    {"context_parallel_size", "cp"},
    {"expert_model_parallel_size", "ep"},
    {"expert_tensor_parallel_size", "etp"},
    {"world_size", "devices"},
    {"virtual_pipeline_model_parallel_size", "vpp"},
}};

constexpr std::array<std::pair<const char*, const char*>, 6> on_off{{
    {"sequence_parallel", "sequence_parallel"},
    {"overlap_grad_reduce", "dp_overlap"},
    {"tp_comm_overlap", "tp_overlap"},
    {"overlap_moe_expert_parallel_comm", "ep_overlap"},
    {"delay_wgrad_compute", "delay_wgrad"},
    {"moe_permute_fusion", "permute_fusion"},
}};

// What launch scripts echo, by the argument that it stands for.
constexpr std::array<std::pair<std::string_view, const char*>, 6> echoed{{
    {"NUM_GPUS", "world_size"},
    {"WORLD_SIZE", "world_size"},
    {"MICRO_BATCH_SIZE", "micro_batch_size"},
    {"GLOBAL_BATCH_SIZE", "global_batch_size"},
    {"SEQUENCE LENGTH", "seq_length"},
    {"SEQ_LENGTH", "seq_length"},
}};

constexpr std::array<std::pair<std::string_view, const char*>, 5> world_sizes{{
    {"using world size:", "world_size"},
    {"data-parallel size:", "data_parallel_size"},
    {"context-parallel size:", "context_parallel_size"},
    {"tensor-model-parallel size:", "tensor_model_parallel_size"},
    {"pipeline-model-parallel size:", "pipeline_model_parallel_size"},
}};

std::string precision_of(const MegatronArguments& a) {
  if (a.has("fp4_format")) return "nvfp4";
  if (a.has("fp8_format") || a.has("fp8")) {
    const std::string recipe = a.text("fp8_recipe");
    if (recipe == "mxfp8") return "mxfp8";
    return recipe == "blockwise" ? "fp8-blockwise" : "fp8";
  }
  if (a.on("bf16")) return "bf16";
  return a.on("fp16") ? "fp16" : "";
}

std::string recompute_of(const MegatronArguments& a) {
  const std::string granularity = a.text("recompute_granularity");
  if (granularity != "selective") return granularity;
  std::string modules = a.text("recompute_modules");
  for (const char c : {'[', ']', '\'', '"', ' '}) std::erase(modules, c);
  return "selective:" + (modules.empty() ? "core_attn" : modules);
}

std::string dispatcher_of(const MegatronArguments& a) {
  if (a.on("moe_enable_deepep")) return "deepep";
  const std::string type = a.text("moe_token_dispatcher_type");
  if (type != "flex") return type;
  return a.has("moe_flex_dispatcher_backend") ? a.text("moe_flex_dispatcher_backend") : "deepep";
}

std::string sharding_of(const MegatronArguments& a) {
  if (a.on("use_megatron_fsdp") || a.on("use_custom_fsdp")) {
    const std::string strategy = a.text("data_parallel_sharding_strategy");
    if (strategy == "no_shard") return "none";
    if (strategy == "optim") return "zero1";
    return strategy == "optim_grads" ? "zero2" : "zero3";
  }
  if (a.has("use_distributed_optimizer")) return a.on("use_distributed_optimizer") ? "zero1" : "none";
  return {};
}

}  // namespace

bool MegatronArguments::has(const std::string& name) const {
  const auto found = values_.find(name);
  return found != values_.end() && found->second != "None" && found->second != "null";
}

std::string MegatronArguments::text(const std::string& name) const { return has(name) ? values_.at(name) : ""; }

bool MegatronArguments::on(const std::string& name) const {
  const std::string value = text(name);
  return has(name) && (value.empty() || value == "True" || value == "true" || value == "1");
}

std::optional<int> MegatronArguments::integer(const std::string& name) const {
  const auto value = whole_number(text(name));
  if (!value || *value != std::floor(*value) || std::abs(*value) > 2e9) return std::nullopt;
  return static_cast<int>(*value);
}

bool MegatronArguments::take_line(std::string_view line) {
  return take_dump(line) || take_world(line) || take_flags(line) || take_echo(line);
}

// "[node:0]:  tensor_model_parallel_size ...................... 8"
bool MegatronArguments::take_dump(std::string_view line) {
  const auto dots = line.find(" ..");
  if (dots == std::string_view::npos) return false;
  const auto end = line.find_first_not_of('.', dots + 1);
  const auto words = words_of(line.substr(0, dots));
  if (end == std::string_view::npos || line[end] != ' ' || words.empty() || !is_name(words.back())) return false;
  values_[words.back()] = trimmed_text(line.substr(end));
  return true;
}

bool MegatronArguments::take_world(std::string_view line) {
  if (line.find(world_sizes.front().first) == std::string_view::npos) return false;
  for (const auto& [words, name] : world_sizes) {
    const auto at = line.find(words);
    if (at == std::string_view::npos) continue;
    auto rest = words_of(line.substr(at + words.size()));
    if (!rest.empty()) values_[name] = unquoted(rest.front());
  }
  return true;
}

// "--num-layers 32 --swiglu \" and "  --num-layers: 32"
bool MegatronArguments::take_flags(std::string_view line) {
  const auto words = words_of(line);
  bool any = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (word.size() < 4 || !word.starts_with("--")) continue;
    std::string value;
    if (const auto equals = word.find('='); equals != std::string::npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
    } else {
      if (word.back() == ':') word.pop_back();
      while (i + 1 < words.size() && !words[i + 1].starts_with("--") && words[i + 1] != "\\") {
        value += (value.empty() ? "" : " ") + words[++i];
      }
    }
    const std::string name = underscored(std::string_view(word).substr(2));
    if (!is_name(name)) continue;
    values_[name] = unquoted(value);
    any = true;
  }
  return any;
}

bool MegatronArguments::take_echo(std::string_view line) {
  for (const auto& [word, name] : echoed) {
    const std::string text = trimmed_text(line);
    if (!text.starts_with(word) || text.size() <= word.size() || (text[word.size()] != ':' && text[word.size()] != '='))
      continue;
    values_.try_emplace(name, trimmed_text(std::string_view(text).substr(word.size() + 1)));
    return true;
  }
  return false;
}

std::map<std::string, std::string> MegatronArguments::cells(std::vector<std::string>& faults) const {
  std::map<std::string, std::string> cells;
  for (const auto& [name, column] : plain_numbers) {
    if (!has(name)) continue;
    if (const auto value = integer(name); value && *value > 0) {
      cells[column] = std::to_string(*value);
    } else {
      faults.push_back(
          fmt::format("argument {} is '{}', expected a whole number above 0", name, text(name).substr(0, 40)));
    }
  }
  for (const auto& [name, column] : on_off) {
    if (values_.contains(name)) cells[column] = on(name) ? "on" : "off";
  }
  const auto put = [&](const char* column, const std::string& value) {
    if (!value.empty()) cells[column] = value;
  };
  put("precision", precision_of(*this));
  put("recompute", recompute_of(*this));
  put("dispatcher", has("num_experts") ? dispatcher_of(*this) : "");
  put("sharding", sharding_of(*this));
  put("pipeline_layout", text("pipeline_model_parallel_layout"));
  put("kind", has("num_experts") ? "moe" : has("num_layers") ? "dense" : "");
  if (on("group_query_attention") && has("num_query_groups")) put("kv_heads", text("num_query_groups"));
  put("vocab", has("padded_vocab_size") ? text("padded_vocab_size") : text("vocab_size"));
  if (on("moe_router_force_load_balancing")) cells["routing"] = "forced-balanced";
  if (has("moe_expert_capacity_factor")) cells["routing"] = "capacity:" + text("moe_expert_capacity_factor");
  const auto layers = integer("num_layers"), chunk = integer("num_layers_per_virtual_pipeline_stage");
  const auto stages = integer("pipeline_model_parallel_size");
  if (!cells.contains("vpp") && layers && chunk && stages && *chunk > 0 && *layers % (*chunk * *stages) == 0) {
    cells["vpp"] = std::to_string(*layers / (*chunk * *stages));
  }
  if (const auto impl = text("cuda_graph_impl"); !impl.empty()) {
    cells["cuda_graphs"] = impl == "none" ? "none" : "full_iteration";
    const std::string scope = has("cuda_graph_scope") ? text("cuda_graph_scope") : text("cuda_graph_modules");
    if (impl != "none" && !scope.empty() && scope != "full_iteration") cells["cuda_graphs"] = "partial:" + scope;
  }
  return cells;
}

}  // namespace stepcast::validation
