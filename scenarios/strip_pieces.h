// Thins out what was recorded of single ranks to what a drawing can show.
#pragma once

#include <vector>

#include "scenarios/step_detail.h"
#include "sim/program/program.h"
#include "sim/record/pieces.h"
#include "sim/record/recorder.h"
#include "sim/record/report.h"

namespace stepcast::scenarios {

// At most `most` pieces that tile the same time. Long pieces stay as they are; runs of shorter ones become one with the
// sum of each category.
[[nodiscard]] std::vector<StripPiece> merged_pieces(const std::vector<sim::PartitionPiece>& pieces, std::size_t most);

// At most about `most` points, the peak among them. Bytes are those of MemoryRecorder (sim/record/memory.h).
[[nodiscard]] MemoryTrack memory_track(const sim::Program& program, const sim::Timeline& timeline,
                                       const sim::MemoryPeak& peak, std::size_t most);

}  // namespace stepcast::scenarios
