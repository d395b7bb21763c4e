// libFuzzer target: any bytes as a Hugging Face config.json. What is imported must pass the model's own validation
// and survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "models/catalog.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = stepcast::models::import_hf_config_text(text, "config.json");
  if (!model) {
    if (model.errors().empty()) std::abort();
    for (const auto& error : model.errors()) {
      if (error.message.empty()) std::abort();
    }
    return 0;
  }
  if (!stepcast::models::validate(*model)) std::abort();
  if (model->layers.size() < 4096) {
    const auto again = stepcast::models::parse_model_json(stepcast::models::model_to_json(*model).dump(), "again");
    if (!again) std::abort();
  }
  return 0;
}
