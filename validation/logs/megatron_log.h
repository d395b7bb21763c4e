// Training logs of Megatron-LM and its relatives: step times by field name, and a row of measured runs.
//
// Dialects: "elapsed time per iteration (ms): 5444.9" (also "(s)"; "last/average" of a ROCm fork), and
// Megatron-Bridge's "Step Time : 12.03s". Prefixes, escape codes and other lines do no harm. Warm-up is dropped: the
// leading lines that are more than a tenth above the steady level, and the first line of a run. Lines of a batch
// ramp-up count only at the last batch size. The step time is the median of the rest.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "validation/logs/megatron_arguments.h"
#include "validation/logs/nccl_tests.h"

namespace stepcast::validation {

struct LoggedStep {
  int line = 0;
  long long iteration = 0;  // 0: not told
  double seconds = 0;
  int global_batch = 0;          // 0: not told
  double tflops_per_device = 0;  // 0: not told
};

struct MegatronLog {
  std::string file;
  std::vector<LoggedStep> steps;  // in the order of the file, repeats of other ranks dropped
  std::size_t warm_up = 0;        // leading steps that do not count
  std::size_t other_batch = 0;    // steps at another batch size than the last
  double step_time_s = 0;         // median of the rest
  double spread = 0;              // of the rest: half of the central 80 %, over the median
  std::size_t counted = 0;
  double tflops_per_device = 0;  // median, 0: not told
  double peak_memory_gb = 0;     // "max allocated" or "max reserved", 0: not told
  MegatronArguments arguments;
  std::vector<DamagedLine> damaged;
  std::vector<std::string> warnings;
};

// Errors: an unreadable file, no line with a step time, no steady step.
[[nodiscard]] Result<MegatronLog> read_megatron_log(const std::filesystem::path& file);
[[nodiscard]] Result<MegatronLog> parse_megatron_log(std::string_view text, const std::string& file_name);

// Cells of one measured run: what the log tells, over which `stated` cells win (device, model, software, ...). Errors
// name each required cell that nobody told: model or shape, device, devices.
[[nodiscard]] Result<std::map<std::string, std::string>> run_of_log(const MegatronLog& log, const std::string& id,
                                                                    const std::map<std::string, std::string>& stated);

// Such rows as a CSV that `validate` and `calibrate` read.
[[nodiscard]] std::string runs_csv(const std::vector<std::map<std::string, std::string>>& runs);

}  // namespace stepcast::validation
