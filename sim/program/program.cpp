#include "sim/program/program.h"

#include <array>

namespace stepcast::sim {

const char* name(Category category) {
  static constexpr std::array<const char*, category_count> names = {
      "gemm",      "grouped_gemm", "attention",  "memory_bound", "permute",    "quantise",   "recompute",
      "optimizer", "exposed_tp",   "exposed_cp", "exposed_ep",   "exposed_pp", "exposed_dp", "wait_tp",
      "wait_cp",   "wait_ep",      "wait_dp",    "bubble",       "host",       "data",       "other"};
  return names[static_cast<std::size_t>(category)];
}

const char* name(Stream stream) {
  static constexpr std::array<const char*, stream_count> names = {"compute", "tp",         "cp", "ep",
                                                                  "pp_send", "pp_receive", "dp", "copy"};
  return names[static_cast<std::size_t>(stream)];
}

const char* name(Opcode op) {
  static constexpr std::array<const char*, 6> names = {"compute", "collective", "send", "receive", "host_sync", "join"};
  return names[static_cast<std::size_t>(op)];
}

const char* name(FlowLevel level) {
  static constexpr std::array<const char*, flow_level_count> names = {"macro", "box", "nic"};
  return names[static_cast<std::size_t>(level)];
}

std::int64_t Program::rank_ops() const {
  std::int64_t total = 0;
  for (const Cohort& cohort : cohorts) {
    std::int64_t instructions = 0;
    for (const Call& call : cohort.calls) {
      instructions += static_cast<std::int64_t>(cohort.bodies[call.body].instructions.size());
    }
    total += instructions * static_cast<std::int64_t>(cohort.ranks.size());
  }
  return total;
}

}  // namespace stepcast::sim
