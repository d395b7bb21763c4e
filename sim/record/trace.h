// Writes a timeline as a Chrome/Perfetto JSON trace, gzip-compressed when the name ends in .gz.
//
// One process a rank (numeric pid, name, sort index), one track a stream with
// only nested slices, flow pairs along dependencies between the chosen ranks
// (messages, collectives), and a rank's counters: memory, use of NVLink and NIC, experts' rows.
#pragma once

#include <cstdint>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/engine/conditions.h"
#include "sim/program/program.h"
#include "sim/record/recorder.h"

namespace stepcast::sim {

// Slices are rounded to nanoseconds at both ends, as readers keep them; the clock's zero is the step's begin or the
// first op, whichever is earlier.

// Estimated size of the JSON before compression, to be stated before writing. Within a few percent.
[[nodiscard]] std::int64_t estimate_trace_bytes(const Program& program, const Timeline& timeline);

// Writes through a temporary file in the same folder, renamed when complete. Errors: unwritable.
[[nodiscard]] Status write_trace(const Program& program, const Conditions& conditions, const Timeline& timeline,
                                 const std::filesystem::path& file);

// The op DAG of the timeline's ranks: durations, dependencies (also between ranks), the critical path marked.
// Format by extension: .dot or .json, each also with .gz behind. Errors: usage (another extension), unwritable.
[[nodiscard]] Status write_dag(const Program& program, const Timeline& timeline,
                               const std::vector<CriticalHop>& critical_path, const std::filesystem::path& file);

}  // namespace stepcast::sim
