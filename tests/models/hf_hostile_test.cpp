// Files that are broken, contradictory or made to harm: an error that says where and why, never a crash or a NaN.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/json_reader.h"
#include "tests/models/support.h"

namespace stepcast::models {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path folder = std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests" / "data" / "hf_configs";

Json sample(const std::string& name) {
  const auto document = read_json_file(folder / (name + ".json"));
  REQUIRE(document.ok());
  return document->root;
}

std::string errors_of(const std::string& text) {
  const auto model = import_hf_config_text(text, "config.json");
  return model.ok() ? "" : all_messages(model.errors());
}

std::string with(const std::string& name, const std::string& key, const Json& value) {
  Json config = sample(name);
  config[key] = value;
  return errors_of(config.dump(1));
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void check_sane(const Result<Model>& model) {
  if (!model) {
    CHECK(!model.errors().empty());
    for (const Error& e : model.errors()) {
      CHECK(!e.message.empty());
      CHECK(mentions(e.where, "config.json"));
    }
    return;
  }
  CHECK(validate(*model).ok());
  const ParameterAccount account = parameters(*model);
  CHECK(std::isfinite(account.total()));
  CHECK(account.active <= account.total());
  CHECK(std::isfinite(flops_per_token(*model, 4096, {})));
}

}  // namespace

TEST_CASE("Every prefix of a real config is an error and not a crash") {
  const std::string text = sample("glm-4.5-air").dump(1);
  for (std::size_t length = 0; length < text.size(); length += 7) {
    CHECK(!import_hf_config_text(text.substr(0, length), "config.json").ok());
  }
}

TEST_CASE("Any one value replaced by nonsense gives an error or a sound model") {
  const std::vector<std::string> nonsense = {
      "null",       "-1",   "0",         "1",    "3",     "2.5", "1e300", "-1e300", "99999999999999999999",
      "2147483648", "true", "false",     "\"\"", "\"x\"", "[]",  "[1]",   "[-1]",   "[\"x\"]",
      "[[]]",       "{}",   "{\"a\": 1}"};
  for (const char* name : {"deepseek-v3", "hunyuan-a13b", "gpt-oss-20b", "qwen3-next-80b-a3b", "ernie-4.5-21b-a3b",
                           "written/nemotron-3-super", "written/mimo-v2-flash", "written/kimi-linear-48b-a3b",
                           "written/minimax-m1", "written/gpt2", "written/gemma-3-27b"}) {
    const Json config = sample(name);
    for (const auto& [key, value] : config.items()) {
      for (const std::string& wrong : nonsense) {
        Json changed = config;
        changed[key] = Json::parse(wrong);
        INFO(name << " " << key << " = " << wrong);
        check_sane(import_hf_config_text(changed.dump(), "config.json"));
      }
      Json without = config;
      without.erase(key);
      INFO(name << " without " << key);
      check_sane(import_hf_config_text(without.dump(), "config.json"));
    }
  }
}

TEST_CASE("The same inside text_config") {
  const Json config = sample("llama-4-scout-17b-16e");
  for (const auto& [key, value] : config["text_config"].items()) {
    for (const char* wrong : {"null", "-1", "0", "1e30", "\"x\"", "[]", "{}"}) {
      Json changed = config;
      changed["text_config"][key] = Json::parse(wrong);
      INFO(key << " = " << wrong);
      check_sane(import_hf_config_text(changed.dump(), "config.json"));
    }
  }
  CHECK(mentions(errors_of(R"({"text_config": [1]})"), "an object {...} is expected"));
}

TEST_CASE("Wrong values name file, line, column, key and what is allowed") {
  const std::string text = "{\n \"model_type\": \"mixtral\",\n \"num_hidden_layers\": \"many\"\n}";
  const std::string errors = errors_of(text);
  CHECK(
      mentions(errors, "config.json:3:23 /num_hidden_layers: num_hidden_layers is \"many\"; a whole number from 1 to"));
  CHECK(mentions(errors, "key hidden_size or n_embd is missing"));  // and all the others at once
  CHECK(mentions(with("mixtral-8x7b", "num_experts_per_tok", 9),
                 "moe.top_k is 9; allowed: 1 to the number of experts, 8"));
  CHECK(mentions(with("mixtral-8x7b", "num_experts_per_tok", 9), "/num_experts_per_tok"));
  CHECK(
      mentions(with("mixtral-8x7b", "num_key_value_heads", 7), "attention.kv_heads 7 must divide attention.heads 32"));
  CHECK(mentions(with("gpt-oss-20b", "experts_per_token", 8), "must agree"));
  CHECK(mentions(with("llama-3.1-405b-dense", "num_experts", 8), "llama is a dense family"));
}

TEST_CASE("Lists of the wrong length or content") {
  CHECK(mentions(with("gpt-oss-20b", "layer_types", Json::parse(R"(["full_attention"])")),
                 "has 1 entries; one for each of the 24 layers"));
  CHECK(mentions(with("qwen3-30b-a3b", "layer_types", Json(std::vector<std::string>(48, "quantum_attention"))),
                 "quantum_attention"));
  CHECK(mentions(with("written/mimo-v2-flash", "moe_layer_freq", Json::parse("[0, 1]")), "has 2 entries"));
  CHECK(mentions(with("written/mimo-v2-flash", "hybrid_layer_pattern", Json(std::vector<int>(48, 2))), "holds 2"));
  CHECK(mentions(with("hunyuan-a13b", "moe_topk", Json::parse("[8, 4]")), "varies over the layers (8 and 4)"));
  CHECK(mentions(with("hunyuan-a13b", "moe_intermediate_size", Json::parse("[]")), "empty list"));
  CHECK(mentions(with("written/nemotron-3-nano", "hybrid_override_pattern", "MEM"),
                 "has 3 letters but num_hidden_layers is 52"));
  CHECK(mentions(with("written/nemotron-3-nano", "hybrid_override_pattern", std::string(52, 'Z')), "'Z'; allowed: M"));
}

TEST_CASE("What cannot be expressed is refused with the reason") {
  CHECK(mentions(with("hunyuan-a13b", "use_cla", true), "cross-layer attention"));
  CHECK(mentions(with("deepseek-v3", "compress_ratios", Json::parse("[0, 4, 128]")), "DeepSeek-V4"));
  CHECK(mentions(with("deepseek-v3", "is_encoder_decoder", true), "encoder-decoder"));
}

TEST_CASE("Unknown families and files that are no config") {
  CHECK(mentions(errors_of(R"({"model_type": "mixtrall", "num_hidden_layers": 2})"), "did you mean 'mixtral'?"));
  CHECK(mentions(errors_of(R"({"model_type": "quantum_brain"})"), "a family that is not known"));
  CHECK(mentions(errors_of("{}"), "model_type is missing"));
  CHECK(mentions(errors_of(R"({"model_type": 7})"), "a text in quotes is expected"));
  CHECK(mentions(errors_of("[]"), "an object"));
  CHECK(mentions(errors_of("null"), "an object"));
  CHECK(mentions(errors_of(""), "empty"));
  CHECK(mentions(errors_of("{\"model_type\": NaN}"), "JSON has no NaN"));
  CHECK(mentions(errors_of("{\"a\": 1, \"a\": 2}"), "written twice"));
  CHECK(mentions(errors_of(std::string(5000, '[')), "nested deeper than 64"));
  CHECK(mentions(errors_of(std::string("{\"a\": \"\0\"}", 10)), "not a text file"));
  CHECK(!import_hf_config(folder).ok());
  CHECK(!import_hf_config(folder / "missing.json").ok());
}

TEST_CASE("A family is recognised by its architecture where the type is new, and says so") {
  Json config = sample("mixtral-8x7b");
  config["model_type"] = "mixtral_next";
  const auto model = import_hf_config_text(config.dump(), "config.json");
  REQUIRE(model.ok());
  REQUIRE(model->assumptions.size() == 1);
  CHECK(mentions(model->assumptions.front(), "read as mixtral because of architectures MixtralForCausalLM"));
}

TEST_CASE("A key that nobody understands is named, never dropped") {
  Json config = sample("mixtral-8x7b");
  config["num_dream_layers"] = 4;
  config["rope_scaling"] = Json::parse(R"({"type": "yarn"})");
  config["some_new_switch"] = false;
  const auto model = import_hf_config_text(config.dump(), "config.json");
  REQUIRE(model.ok());
  REQUIRE(model->assumptions.size() == 1);
  CHECK(mentions(model->assumptions.front(), "num_dream_layers = 4 is not understood"));
}

}  // namespace stepcast::models
