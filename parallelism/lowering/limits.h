// What a program cannot hold, said before it is built or run.
#pragma once

#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {

// Ranks of a copy that do not divide the data-parallel ranks, and layers that overflow a program.
[[nodiscard]] Errors layout_limits(const Lowering& low);

// Of the lowered program: operations that do not fit a cohort's indices, too many of them, or longer than a clock
// holds.
[[nodiscard]] Errors program_limits(const Lowering& low);

}  // namespace stepcast::parallelism
