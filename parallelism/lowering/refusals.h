// What is well-formed but cannot run: combinations that no framework runs, and what the hardware lacks.
#pragma once

#include "parallelism/step_spec.h"
#include "sim/base/error.h"

namespace stepcast::parallelism {

// All reasons at once, each with the JSON pointer of the key to change. Empty when the lowering can go on.
[[nodiscard]] Errors refusals(const StepSpec& spec);

}  // namespace stepcast::parallelism
