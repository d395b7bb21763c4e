// Settings that change nothing in a step: a pass over what was lowered.
#pragma once

#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {

// Each becomes an assumption with its reason.
void note_what_has_no_effect(Lowering& low);

}  // namespace stepcast::parallelism
