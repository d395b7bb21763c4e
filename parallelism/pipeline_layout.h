// Megatron-Core's pipeline layout string (--pipeline-model-parallel-layout), parsed.
//
//   layout := item*    item := ('E' | 't' | 'm' | 'L' | '|' | '(' layout ')') ['*' number]
//
// Commas and spaces mean nothing. Syntax only: whether the stages fit a model is split_stages' question.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::parallelism {

// The string with every repeat written out: one entry a stage, such as {"Ettt", "tt", "L"}. All errors have a position
// in their text. Repeats that expand to more than 2^20 symbols are refused.
[[nodiscard]] Result<std::vector<std::string>> parse_pipeline_layout(std::string_view text);

}  // namespace stepcast::parallelism
