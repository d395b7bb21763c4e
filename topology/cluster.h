// A cluster: how many of which device, in which boxes, on which network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "topology/device.h"

namespace stepcast::topology {

enum class Placement : unsigned char {
  packed,     // rank r on device r: boxes filled in order
  scattered,  // boxes of one job spread round-robin over the leaves
};

enum class Routing : unsigned char { sprayed, hashed };  // over equal-cost uplinks

struct Cluster {
  std::string name;             // "h800:2048" or "inline"
  Device device;
  int devices = 0;
  int devices_per_node = 8;     // share a host
  int nvlink_domain = 8;        // share NVLink
  int rails = 8;                // NICs of a node on distinct rails
  BytesPerSecond nvlink_bandwidth;  // per direction and device
  BytesPerSecond nic_bandwidth;     // per direction and device
  int leaf_radix = 32;          // nodes under one leaf (rail-optimised: one leaf switch per rail)
  double oversubscription = 1;  // leaf downlinks over uplinks
  Seconds nvlink_latency;
  Seconds nic_latency;          // one way, host to host through one switch
  double nic_efficiency = 0.95; // reached share of the NIC's rate for large messages
  Placement placement = Placement::packed;
  Routing routing = Routing::sprayed;
  std::vector<std::string> assumptions;

  [[nodiscard]] int nodes() const { return (devices + devices_per_node - 1) / devices_per_node; }
  [[nodiscard]] int domains() const { return (devices + nvlink_domain - 1) / nvlink_domain; }
};

struct ClusterPreset {
  std::string name;     // "h100", "gb200-nvl72", ...
  std::string summary;
};

[[nodiscard]] Result<std::vector<ClusterPreset>> list_clusters(const std::filesystem::path& catalog_root);

// "NAME:COUNT", for example "h800:2048". Errors: unknown preset (nearest named), count not a positive integer,
// or above 1,048,576; a count that does not fill whole nodes when above one node.
[[nodiscard]] Result<Cluster> load_cluster(const std::filesystem::path& catalog_root, const std::string& preset_and_count);

// Overrides of an inline cluster; absent fields keep the device's or preset's value.
struct ClusterOverrides {
  std::optional<int> devices, devices_per_node, nvlink_domain, rails, leaf_radix;
  std::optional<double> nvlink_gb_per_s, nic_gb_per_s, oversubscription, nic_latency_us, nic_efficiency;
  std::optional<double> sustained_gemm, hbm_bandwidth_gb_per_s, hbm_gib;  // site profile: power level, memory variant
  std::optional<Placement> placement;
  std::optional<Routing> routing;
};

// A cluster of `devices` of a catalogue device with its usual box and network, then the overrides.
[[nodiscard]] Result<Cluster> make_cluster(const std::filesystem::path& catalog_root, const std::string& device, int devices,
                                           const ClusterOverrides& overrides);
[[nodiscard]] Result<Cluster> apply_overrides(Cluster cluster, const ClusterOverrides& overrides);

}  // namespace stepcast::topology
