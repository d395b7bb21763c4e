// The component fits in the three formats: `explain --fits` and `validate --components`.
#pragma once

#include "cli/command.h"
#include "sim/base/error.h"
#include "validation/components/fit_task.h"

namespace stepcast::cli {

// Refit::yes fits the constants anew and cross-validates them; without it the catalogue's constants are judged.
[[nodiscard]] Result<Output> fit_report(const Invocation& invocation, validation::Refit refit);

}  // namespace stepcast::cli
