// Arguments of Megatron-LM's pretraining script, as a list: what export writes and import reads.
//
// A flag has no values. Names and defaults are those of Megatron-LM's main
// branch of 2025-26 (megatron/training/arguments.py and the dataclasses of
// megatron/core).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::scenarios::megatron {

struct Argument {
  std::string name;  // "--num-layers"
  std::vector<std::string> values;
  std::string where;  // "file:line", empty on export
};

using ArgumentList = std::vector<Argument>;

// A value as a shell word: quoted where a shell would change it.
[[nodiscard]] std::string shell_word(std::string_view value);

// "--recompute-modules moe_act layernorm"
[[nodiscard]] std::string shown(const Argument& argument);

// A list of 0 and 1, one a layer, as --moe-layer-freq and --window-attn-skip-freq take it: "([0]*3+[1]*58)".
[[nodiscard]] std::string layer_pattern(const std::vector<bool>& ones);

}  // namespace stepcast::scenarios::megatron
