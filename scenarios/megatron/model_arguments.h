// The arguments that give a model's shape, and what of it has none.
#pragma once

#include <string>
#include <vector>

#include "models/transformer.h"
#include "scenarios/megatron/arguments.h"

namespace stepcast::scenarios::megatron {

struct ModelArguments {
  ArgumentList arguments;            // canonical: equal shapes give equal lists
  std::vector<std::string> missing;  // what Megatron-LM cannot say of this model, in words
};

// Vocabulary and dropout are not shape and not here.
[[nodiscard]] ModelArguments model_arguments(const models::Model& model);

}  // namespace stepcast::scenarios::megatron
