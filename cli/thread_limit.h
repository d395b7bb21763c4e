// How many threads a process may use: processors it is bound to, its cgroup's quota, SLURM_CPUS_PER_TASK.
#pragma once

namespace stepcast::cli {

[[nodiscard]] int available_threads();

}  // namespace stepcast::cli
