#include "tests/models/support.h"

namespace stepcast::models {
namespace {

bool complains(const Model& model, const std::string& part) {
  const Status status = validate(model);
  return !status.ok() && all_messages(status.errors()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Contradictions are found, all at once") {
  const Model good = catalog_model("deepseek-v3");
  CHECK(validate(good).ok());

  Model model = good;
  model.moe.top_k = 300;
  model.hidden = 0;
  CHECK(complains(model, "moe.top_k is 300"));
  CHECK(complains(model, "hidden is 0"));

  model = good;
  model.moe.groups = 7;
  CHECK(complains(model, "moe.groups 7 must divide moe.experts 256"));
  model.moe.groups = 256;
  CHECK(complains(model, "moe.top_k 8 exceeds the 4 experts"));

  model = good;
  model.layers[5].attention = AttentionKind::linear;
  CHECK(complains(model, "linear.key_heads is 0"));
  model.layers[5] = {AttentionKind::none, FfnKind::none};
  CHECK(complains(model, "neither a mixer nor an FFN"));
  model.layers.clear();
  CHECK(complains(model, "0 layers"));
  CHECK(!validate(Model{}).ok());
}

TEST_CASE("The MTP module's layer follows the model unless it is given") {
  CHECK(mtp_layer(catalog_model("deepseek-v3")) == Layer{AttentionKind::full, FfnKind::moe});
  CHECK(mtp_layer(catalog_model("qwen3-next-80b-a3b")) == Layer{AttentionKind::full, FfnKind::moe});
  CHECK(mtp_layer(catalog_model("nemotron-3-super-120b-a12b")) == Layer{AttentionKind::full, FfnKind::moe});
  CHECK(mtp_layer(catalog_model("llama-3-8b")) == Layer{AttentionKind::full, FfnKind::dense});
  CHECK(mtp_layer(catalog_model("deepseek-v4-flash")) == Layer{AttentionKind::sliding, FfnKind::moe});
}

}  // namespace stepcast::models
