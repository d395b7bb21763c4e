// Evaluates a cohort's instructions on all lanes at once.
//
// The same code is compiled for several instruction sets and chosen at run time;
// all give the same bits, because it uses integer maxima and sums, and doubles
// only in products and sums that IEEE 754 rounds alike everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/engine/cohort_state.h"

namespace stepcast::sim {

enum class Isa : std::uint8_t { baseline, avx2, avx512 };

struct Kernels {
  // Runs compute, collective and host_sync instructions from `pc` on and returns the first place of another opcode,
  // or the body's size.
  std::size_t (*run_local)(CohortState& state, const Activation& activation, std::size_t pc);
  // Ready time of one instruction but for messages and groups; for host_sync, when the host may go on.
  void (*ready)(const CohortState& state, const Instruction& in, Ticks* out);
  // Duration of one instruction on each lane; `rows` null without a load.
  void (*duration)(const CohortState& state, const Instruction& in, const float* rows, std::uint64_t ordinal,
                   Ticks* out);
  // Largest value of each lane's group. `in` and `out` may be the same.
  void (*group_max)(const GroupPlan& plan, std::size_t padded, const Ticks* in, Ticks* out);
};

// The widest that this processor has, and a chosen one (nullptr: this processor cannot run it).
[[nodiscard]] const Kernels& kernels();
[[nodiscard]] const Kernels* kernels(Isa isa);

}  // namespace stepcast::sim
