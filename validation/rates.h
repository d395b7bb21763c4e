// Whether a row's step time and its reported FLOP rates can be of one run.
//
// Both are known to a factor of a few: conventions of FLOPs differ by up to two, peaks by precision. A factor near a
// thousand is another unit (milliseconds in step_time_s, GFLOP/s), one near a hundred a fraction where percent is
// meant.
#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "validation/runs.h"

namespace stepcast::validation {

// Why model_tflops_per_device, mfu_percent or hfu_percent contradict the step time, with the model FLOPs of the row's
// scenario (causal attention); empty if they may be right.
[[nodiscard]] std::string mixed_units(const MeasuredRun& run, const parallelism::StepSpec& spec);

}  // namespace stepcast::validation
