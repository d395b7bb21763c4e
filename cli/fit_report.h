// The component fits in the three formats: `explain --fits` and `validate --components`.
#pragma once

#include "cli/command.h"
#include "sim/base/error.h"

namespace stepcast::cli {

// --refit fits the constants anew and cross-validates them; without it the catalogue's constants are judged.
[[nodiscard]] Result<Output> fit_report(const Invocation& invocation);

}  // namespace stepcast::cli
