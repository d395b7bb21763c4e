#include "topology/collective_fits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "topology/collectives/dispatch_table.h"
#include "topology/collectives/in_domain_table.h"

namespace stepcast::topology {
namespace {

using namespace tables;

constexpr std::string_view nccl_box = "nccl-tests in one box (aiconfigurator @095f58a), fitted";
constexpr std::string_view nccl_rack =
    "nccl-tests on a tray (aiconfigurator @095f58a) and one rack (coreweave), fitted";
constexpr std::string_view derived = "not measured: fractions of NVLink of the same generation";

constexpr std::array table{
    CollectiveFits{"a100", 300, false, 0, a100_box, h100_deepep, hopper_hybridep, nccl_box},
    CollectiveFits{"h100", 450, true, 0, h100_box, h100_deepep, hopper_hybridep, nccl_box},
    CollectiveFits{"h200", 450, true, 0, h200_box, h200_deepep, hopper_hybridep, nccl_box},
    // The catalogue gives the H800 its reached NVLink rate, 160 of 200 GB/s: set against what H100 reaches of its 450.
    CollectiveFits{"h800", 369, true, 0, h100_box, h100_deepep, hopper_hybridep, derived},
    CollectiveFits{"h20", 450, true, 0, h200_box, h100_deepep, hopper_hybridep, derived},
    CollectiveFits{"b200", 900, true, 0, b200_box, b200_deepep, blackwell_hybridep, nccl_box},
    CollectiveFits{"b300", 900, true, 0, b300_box, b300_deepep, blackwell_hybridep, nccl_box},
    // The 20-rack all-reduce tops out at 445 GB/s and two racks at twice that: what the channels of one domain
    // drive into the network, whatever its 72 NICs could.
    CollectiveFits{"gb200", 900, true, 445, gb200_box, gb200_deepep, blackwell_hybridep, nccl_rack},
    CollectiveFits{"gb300", 900, true, 445, gb300_box, gb300_deepep, blackwell_hybridep, nccl_rack},
    CollectiveFits{"mi300x", 448, false, 0, mi300x_box, h100_deepep, hopper_hybridep,
                   "rccl-tests in one box, all-reduce and all-to-all"},
    CollectiveFits{"mi325x", 448, false, 0, mi300x_box, h100_deepep, hopper_hybridep, derived},
    CollectiveFits{"mi355x", 448, false, 0, mi300x_box, h100_deepep, hopper_hybridep, derived},
    CollectiveFits{"v100", 300, false, 0, a100_box, h100_deepep, hopper_hybridep, derived},
};

double between(double low, double high, double share) { return low + (high - low) * share; }

}  // namespace

std::span<const CollectiveFits> all_collective_fits() { return table; }

const CollectiveFits& collective_fits(const Device& device) {
  // "a100-40gb" and "h100-500w-96gb" are boxes of the class their name starts with.
  const auto starts = [&device](const CollectiveFits& fits) {
    return device.name == fits.device || device.name.starts_with(std::string(fits.device) + "-");
  };
  const auto named = std::ranges::find_if(table, starts);
  if (named != table.end()) return *named;
  const double rate = std::max(device.nvlink_bandwidth.value / 1e9, 1.0);
  const auto distance = [rate](const CollectiveFits& fits) { return std::abs(std::log(fits.nvlink_gb_per_s / rate)); };
  return *std::ranges::min_element(table, {}, distance);
}

InDomainFit in_domain_fit(const CollectiveFits& fits, Collective kind, int ranks) {
  std::vector<InDomainFit> sizes;
  std::ranges::copy_if(fits.in_domain, std::back_inserter(sizes), [kind](const auto& f) { return f.kind == kind; });
  STEPCAST_ASSERT(sizes.size() >= 2);  // every box has two sizes of the four operations
  auto above = std::ranges::find_if(sizes, [ranks](const auto& f) { return f.ranks >= ranks; });
  if (above != sizes.end() && above->ranks == ranks) return *above;
  if (above == sizes.begin()) return sizes.front();
  const bool outside = above == sizes.end();
  if (outside) --above;
  const InDomainFit& high = *above;
  const InDomainFit& low = *(above - 1);
  InDomainFit fit = high;
  fit.ranks = ranks;
  fit.alpha_us = between(low.alpha_us, high.alpha_us,
                         static_cast<double>(ranks - low.ranks) / static_cast<double>(high.ranks - low.ranks));
  if (outside) return fit;
  const double share =
      std::log2(static_cast<double>(ranks) / low.ranks) / std::log2(static_cast<double>(high.ranks) / low.ranks);
  fit.busbw_gb_per_s = between(low.busbw_gb_per_s, high.busbw_gb_per_s, share);
  fit.gamma_us = between(low.gamma_us, high.gamma_us, share);
  return fit;
}

}  // namespace stepcast::topology
