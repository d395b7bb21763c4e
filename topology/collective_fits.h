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

// Expert dispatch or combine by a library that sends a token once per destination (calibration 5.3):
//
//   T = fixed + hop log2 N + ( S^q + L^q )^(1/q)
//   S = tokens (token + copy D + kB (kb + kb_copy D + kb_forward D_N)) / SMs      work of the kernel's SMs
//   L = max( tokens payload D (g-1)/g / nvlink,  tokens payload D_N (N-1)/N / nic )
//
// D distinct destination ranks and D_N distinct domains of a token, kB its payload, g members a domain, N domains
// (kb_forward only for N > 1). Times in us on one SM.
struct DispatchPhaseFit {
  double fixed_us = 0, hop_us = 0;
  double nvlink_gb_per_s = 0;  // at the box's NVLink rate
  double nic_share = 1;        // of what a large message gets
  double token_us = 0, copy_us = 0;
  double kb_us = 0, kb_copy_us = 0, kb_forward_us = 0;
  double join = 8;  // q
};

struct DispatchFit {
  DispatchPhaseFit dispatch, combine;
  int default_sms = 24;
};

struct CollectiveFits {
  std::string_view device;           // catalogue name, or the class it stands for
  double nvlink_gb_per_s = 0;        // of the measured box, per direction
  bool in_switch_reduction = false;  // NVLS
  double across_gb_per_s = 0;        // busbw that one domain drives into the network; 0: its NICs set the limit
  std::span<const InDomainFit> in_domain;
  DispatchFit deepep, hybridep;
  std::string_view source;
};

// SMs that an exchange of experts' rows runs on: as stated (above 0), else the dispatcher's default; NCCL's kernels are
// taken to use as many.
[[nodiscard]] int dispatch_sms(const Device& device, Dispatcher dispatcher, int stated);

// Constants for a device; one that was not measured takes those of the class with the nearest NVLink rate.
[[nodiscard]] const CollectiveFits& collective_fits(const Device& device);
[[nodiscard]] std::span<const CollectiveFits> all_collective_fits();

// The constants of an operation at a group size: measured sizes as they are, between them linear in log2 n for B and
// gamma and linear in n for alpha, above the largest alpha by its last slope.
[[nodiscard]] InDomainFit in_domain_fit(const CollectiveFits& fits, Collective kind, int ranks);

}  // namespace stepcast::topology
