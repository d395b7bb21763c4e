// The link and SM model behind deepep and hybridep, apart from where its constants come from.
#pragma once

#include "topology/collective_fits.h"

namespace stepcast::topology {

struct DispatchLoad {
  double tokens = 0;
  double payload = 0;          // bytes of one copy
  double ranks_reached = 1;    // distinct destination ranks of a token, its own included
  double domains_reached = 1;  // distinct destination domains, its own included
  double domains = 1;
  double inside = 1;  // members in a domain
  double sms = 24;
  double nvlink_scale = 1;  // the cluster's NVLink rate over the measured box's
  double member_nic = 0;    // bytes/s a large message gets
};

struct DispatchParts {
  double fixed = 0;     // seconds
  double variable = 0;  // seconds, proportional to the tokens
  double nic_bytes = 0, nvlink_bytes = 0;
};

[[nodiscard]] DispatchParts dispatch_parts(const DispatchPhaseFit& fit, const DispatchLoad& load);

}  // namespace stepcast::topology
