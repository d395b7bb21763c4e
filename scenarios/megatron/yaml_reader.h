// The arguments of a YAML file with MODEL_ARGS, as Megatron-LM's tests and the Megatron MoE ModelZoo keep them.
//
//   ENV_VARS: {TP: 2}
//   MODEL_ARGS:
//     --tensor-model-parallel-size: ${TP}
//     --swiglu: true
//     --recompute-modules: [mlp, moe]
//
// `false` leaves the flag out. A variable that neither ENV_VARS nor `defines` holds stays as it is written.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "scenarios/megatron/shell_reader.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::megatron {

[[nodiscard]] Result<ScriptText> read_yaml(std::string_view text, const std::string& file,
                                           const std::map<std::string, std::string>& defines);

}  // namespace stepcast::scenarios::megatron
