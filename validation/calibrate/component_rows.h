// Kernels and collectives that a user measured, as observations of a calibration.
//
// They pin what step times cannot tell apart. Each is priced by the cost functions that the lowering uses, on the
// device and cluster that the loader makes of the calibration at hand.
#pragma once

#include <filesystem>
#include <string>

#include "sim/base/error.h"
#include "validation/calibrate/observations.h"
#include "validation/logs/nccl_tests.h"

namespace stepcast::validation {

struct NcclSite {
  std::string device;       // catalogue name
  double nic_gb_per_s = 0;  // of a device; 0: the device's usual NIC
};

// Rows of 8 MB and more: below, latency rules, which no constant of the table tells. The file counts as one family.
[[nodiscard]] Result<Observations> observe_nccl(const NcclOutput& output, const NcclSite& site,
                                                const std::filesystem::path& catalog_root);

// A CSV of kernels with the columns `device` (catalogue name) and `time_us`, and either
//   m, n, k and precision (bf16, fp8, fp8_blockwise, ...): a matrix product; `sustained` on says that it ran for
//   minutes at the clocks of training, else it is a burst and the sustained level stays out of it; or
//   bytes: a memory-bound kernel with its HBM traffic.
// Damaged rows are refused by line. Errors: an unreadable file, a header of neither kind, an unknown device.
[[nodiscard]] Result<Observations> observe_kernels(const std::filesystem::path& file,
                                                   const std::filesystem::path& catalog_root);

}  // namespace stepcast::validation
