// A cluster: how many of which device, in which boxes, on which network.
//
// A preset is one JSON file of catalog/clusters; what it leaves out is the
// device's usual box and a generic rail-optimised network. A cluster holds one
// job: its devices fill boxes, domains and leaves in order.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "topology/device.h"

namespace stepcast::topology {

inline constexpr int max_devices = 1048576;

enum class Placement : unsigned char {
  packed,     // rank r on device r: boxes filled in order
  scattered,  // boxes of one job spread round-robin over the leaves
};

enum class Routing : unsigned char { sprayed, hashed };  // over equal-cost uplinks

struct Cluster {
  std::string name;  // "h800:2048" or "inline"
  Device device;
  int devices = 0;
  int devices_per_node = 8;         // share a host
  int nvlink_domain = 8;            // devices of the job that share NVLink: domain_slots, or 64 of the 72 of an NVL72
  int domain_slots = 8;             // devices of a physical NVLink domain
  int domain_devices = 0;           // nvlink_domain as stated by the user; 0: chosen from the device count
  int rails = 8;                    // NICs of a node, on distinct rails; divides devices_per_node
  BytesPerSecond nvlink_bandwidth;  // per direction and device
  BytesPerSecond nic_bandwidth;     // per direction and device
  int leaf_radix = 32;              // nodes under one leaf (rail-optimised: one leaf switch per rail)
  double oversubscription = 1;      // leaf downlinks over uplinks
  Seconds nvlink_latency;
  Seconds nic_latency;           // one way, host to host through one switch
  Seconds switch_latency;        // of each further switch (leaf to spine, spine to leaf)
  double nic_efficiency = 0.95;  // reached share of the NIC's rate for large messages
  ScaleUp scale_up = ScaleUp::switched;
  bool rail_optimised = true;  // false: all NICs of a node on one leaf switch
  bool pxn = true;             // cross-rail traffic first takes NVLink to the local device on the peer's rail
  Placement placement = Placement::packed;
  Routing routing = Routing::sprayed;
  std::map<std::string, Constant> provenance;  // of the box and network numbers, by their JSON keys
  std::vector<std::string> assumptions;        // cluster and device

  [[nodiscard]] int nodes() const { return (devices + devices_per_node - 1) / devices_per_node; }
  [[nodiscard]] int domains() const { return (devices + nvlink_domain - 1) / nvlink_domain; }
};

struct ClusterPreset {
  std::string name;  // "h100", "gb200", ...
  std::string summary;
  std::string device;
};

// `catalog_root`: the folder that holds topology/catalog.
[[nodiscard]] Result<std::vector<ClusterPreset>> list_clusters(const std::filesystem::path& catalog_root);

// "NAME:COUNT", for example "h800:2048"; NAME is a preset, or a device (its usual box and network). Errors: unknown
// name (nearest named), count not a positive integer, or above 1,048,576; a count that does not fill whole nodes when
// above one node.
[[nodiscard]] Result<Cluster> load_cluster(const std::filesystem::path& catalog_root,
                                           const std::string& preset_and_count);

// Overrides of an inline cluster; absent fields keep the device's or preset's value.
struct ClusterOverrides {
  std::optional<int> devices, devices_per_node, nvlink_domain, rails, leaf_radix;
  std::optional<int> domain_devices;  // devices that the job uses of each domain; absent: see load_cluster
  std::optional<double> nvlink_gb_per_s, nic_gb_per_s, oversubscription, nic_latency_us, nic_efficiency;
  std::optional<double> nvlink_latency_us, switch_latency_us;
  std::optional<double> sustained_gemm, hbm_bandwidth_gb_per_s, hbm_gib;  // site profile: power level, memory variant
  std::optional<bool> rail_optimised, pxn;
  std::optional<Placement> placement;
  std::optional<Routing> routing;
};

// A cluster of `devices` of a catalogue device with its usual box and network, then the overrides.
[[nodiscard]] Result<Cluster> make_cluster(const std::filesystem::path& catalog_root, const std::string& device,
                                           int devices, const ClusterOverrides& overrides);

// Checks every value and their agreement, and returns all errors; `where` is "cluster.KEY". A job that neither fits
// one domain nor fills whole ones uses the largest power of two of each (64 of 72) and says so in `assumptions`.
[[nodiscard]] Result<Cluster> apply_overrides(Cluster cluster, const ClusterOverrides& overrides);

[[nodiscard]] std::string_view name(Placement placement);
[[nodiscard]] std::string_view name(Routing routing);
[[nodiscard]] std::optional<Placement> placement_named(std::string_view name);
[[nodiscard]] std::optional<Routing> routing_named(std::string_view name);

// The cluster's own numbers, then the device's with the prefix "device.".
[[nodiscard]] std::vector<Fact> describe(const Cluster& cluster);

}  // namespace stepcast::topology
