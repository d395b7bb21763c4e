// How many threads a process may use: processors it is bound to, the quotas of its cgroups (v1 and v2, from its own up
// to the root), SLURM_CPUS_PER_TASK.
#pragma once

namespace stepcast::cli {

[[nodiscard]] int available_threads();

}  // namespace stepcast::cli
