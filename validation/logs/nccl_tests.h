// Output of nccl-tests (all_reduce_perf and its siblings), as text.
//
// Rows are found by their words and read from the right by the header's columns, so prefixes of launchers
// ("0: ", "[1,0]<stdout>:", dates), NCCL INFO lines and cut headers or footers do no harm. A damaged row is refused
// with its line and the reason, the rest is kept. Sizes in bytes, times in seconds, rates in bytes per second.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "topology/collective_cost.h"

namespace stepcast::validation {

struct NcclSide {
  double time_s = 0, algbw = 0, busbw = 0;
};

struct NcclRow {
  int line = 0;
  double bytes = 0;
  std::string type, redop;
  std::optional<NcclSide> out_of_place, in_place;
};

struct DamagedLine {
  int line = 0;
  std::string why;
};

struct NcclOutput {
  std::string file;
  topology::Collective kind = topology::Collective::all_reduce;
  std::string kind_from;      // what told the collective: "the header", "the file's name", "--collective", "the rates"
  int ranks = 0, nodes = 0;   // nodes 0: not told
  std::string device;         // as printed: "NVIDIA H100 80GB HBM3"; empty: not told
  std::vector<NcclRow> rows;  // in the order of the file, without size 0
  std::vector<DamagedLine> damaged;
  std::vector<std::string> warnings;
};

struct NcclHints {
  std::optional<topology::Collective> kind;
  int ranks = 0;  // 0: as the file says
};

// Errors: an unreadable file, no table, a table without one good row, a collective or a count of ranks that neither the
// file nor the hints tell, hints that contradict the file.
[[nodiscard]] Result<NcclOutput> read_nccl_tests(const std::filesystem::path& file, const NcclHints& hints);
[[nodiscard]] Result<NcclOutput> parse_nccl_tests(std::string_view text, const std::string& file_name,
                                                  const NcclHints& hints);

// "all_reduce", "alltoall", "all_reduce_perf"; nothing if it is no collective of nccl-tests that is modelled.
[[nodiscard]] std::optional<topology::Collective> collective_named(std::string_view text);

}  // namespace stepcast::validation
