// Measured constants of collectives, by the box they were measured in.
//
// In one NVLink domain, per operation and group size n (calibration 5.2):
//
//   T(S) = alpha + f(n) S / B + gamma sqrt(S / 1 MB),   f(n) the busbw factor
//
// B is stored as measured on a box of the stated NVLink rate and scales with the
// cluster's own rate, so a derived box (H800, a site's override) follows its links.
#pragma once

#include <span>
#include <string_view>

#include "topology/collective_cost.h"

namespace stepcast::topology {

struct InDomainFit {
  Collective kind = Collective::all_reduce;
  int ranks = 8;
  double alpha_us = 0;
  double busbw_gb_per_s = 0;
  double gamma_us = 0;  // per sqrt(MB)
};

// Expert dispatch and combine of one device class (calibration 5.3).
struct DispatchFit {
  double fixed_dispatch_us = 0, fixed_combine_us = 0;
  double dispatch_gb_per_s = 0, combine_gb_per_s = 0;  // per device inside the domain, at `sms`
  double nic_share = 0;                                // reached share of what a large message gets
};

struct CollectiveFits {
  std::string_view device;           // catalogue name, or the class it stands for
  double nvlink_gb_per_s = 0;        // of the measured box, per direction
  bool in_switch_reduction = false;  // NVLS
  double tree_gb_per_s = 0;          // most that one domain drives across domains; 0: its NICs set the limit
  std::span<const InDomainFit> in_domain;
  DispatchFit deepep, hybridep;
  std::string_view source;
};

// Constants for a device; one that was not measured takes those of the class with the nearest NVLink rate.
[[nodiscard]] const CollectiveFits& collective_fits(const Device& device);
[[nodiscard]] std::span<const CollectiveFits> all_collective_fits();

// The constants of an operation at a group size: measured sizes as they are, between them linear in log2 n for B and
// gamma and linear in n for alpha, above the largest alpha by its last slope.
[[nodiscard]] InDomainFit in_domain_fit(const CollectiveFits& fits, Collective kind, int ranks);

}  // namespace stepcast::topology
