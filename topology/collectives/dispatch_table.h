// Fitted constants of expert dispatch and combine, by box: data only.
//
// DeepEP normal kernels, fp8 dispatch (1 + 4/128 B an element) and bf16 combine, 20 and 24 SMs and, on H100 with two
// and four nodes, 4 to 24 (validation/data/calibration/moe_a2a.csv without the flagged rows; validation/components
// checks that they still fit). Work across domains was measured on H100 only and is carried over. HybridEP: four times
// each on GB200 (one NVLink domain) and H100, EP8 to EP64 (dispatch_published.csv).
//
// Order: fixed, hop, nvlink, nic_share, token, copy, kb, kb_copy, kb_forward, join.
#pragma once

#include "topology/collective_fits.h"

namespace stepcast::topology::tables {

constexpr DispatchFit h100_deepep{{31.6, 3.39, 298, 0.956, 0.116, 0.118, 0.0500, 0.0254, 0.0907, 11.0},
                                  {50.1, 5.37, 303, 0.937, 0.0532, 0.0167, 0.106, 0.0350, 0.157, 30.0},
                                  24};
constexpr DispatchFit h200_deepep{{33.3, 3.39, 298, 0.956, 0.137, 0.127, 0.0534, 0.0160, 0.0907, 8.06},
                                  {47.6, 5.37, 310, 0.937, 0.0773, 0.0376, 0.125, 0.0177, 0.157, 6.03},
                                  24};
constexpr DispatchFit b200_deepep{{42.6, 3.39, 383, 0.956, 0.0782, 0.172, 0.0764, 0.0170, 0.0907, 6.58},
                                  {57.3, 5.37, 444, 0.937, 0.0773, 0.166, 0.0874, 0.0192, 0.157, 8.25},
                                  24};
constexpr DispatchFit b300_deepep{{43.6, 3.39, 398, 0.956, 0.0791, 0.171, 0.0744, 0.0160, 0.0907, 6.27},
                                  {57.2, 5.37, 457, 0.937, 0.0842, 0.173, 0.0843, 0.0179, 0.157, 7.35},
                                  24};
constexpr DispatchFit gb200_deepep{{33.7, 3.39, 531, 0.956, 0.229, 0.288, 0.0286, 0.0132, 0.0907, 3.06},
                                   {40.5, 5.37, 690, 0.937, 0.146, 0.258, 0.0207, 0.0385, 0.157, 6.95},
                                   24};
constexpr DispatchFit gb300_deepep{{32.7, 3.39, 454, 0.956, 0.188, 0.300, 0.0329, 0.0109, 0.0907, 3.49},
                                   {39.3, 5.37, 697, 0.937, 0.122, 0.267, 0.0196, 0.0377, 0.157, 6.97},
                                   24};
// Bulk-copy engines move the data, so the SM terms vanish.
constexpr DispatchFit hopper_hybridep{
    {165, 0, 373, 0.900, 0, 0, 0, 0, 0, 8}, {37, 0, 315, 0.885, 0, 0, 0, 0, 0, 8}, 16};
constexpr DispatchFit blackwell_hybridep{
    {165, 0, 830, 0.900, 0, 0, 0, 0, 0, 8}, {37, 0, 586, 0.885, 0, 0, 0, 0, 0, 8}, 16};

}  // namespace stepcast::topology::tables
