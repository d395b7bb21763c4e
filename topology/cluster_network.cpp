#include "topology/cluster_network.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <fmt/format.h>

namespace stepcast::topology {

namespace {

constexpr std::array<ConstantKey, 12> keys{{
    {"devices_per_node", "", 1, max_domain, false, true},
    {"nvlink_domain", "", 1, max_domain, false, true},
    {"domain_devices", "", 1, max_domain, false, true},
    {"rails", "", 1, max_domain, false, true},
    {"leaf_radix", "nodes", 1, max_devices, false, true},
    {"nvlink_gb_per_s", "GB/s", 0.001, 1e5, false},
    {"nic_gb_per_s", "GB/s", 0.001, 1e5, false},
    {"oversubscription", "", 0.1, 1000, false},
    {"nvlink_latency_us", "us", 0, 1e4, false},
    {"nic_latency_us", "us", 0, 1e4, false},
    {"switch_latency_us", "us", 0, 1e4, false},
    {"nic_efficiency", "", 0.01, 1, false},
}};

constexpr int max_mesh = 64;  // a mesh has devices x (domain - 1) links

void disagree(Errors& errors, const char* key, std::string message) {
  errors.push_back(make_error(ErrorCode::invalid, std::move(message), fmt::format("cluster.{}", key)));
}

bool nests(int a, int b) { return a % b == 0 || b % a == 0; }

void check_boxes(const Cluster& c, Errors& errors) {
  if (c.devices < 1 || c.devices > max_devices) {
    disagree(errors, "devices", fmt::format("found {}, allowed: 1 to {}", c.devices, max_devices));
    return;
  }
  if (c.devices > c.devices_per_node && c.devices % c.devices_per_node != 0) {
    const int below = c.devices / c.devices_per_node * c.devices_per_node;
    disagree(errors, "devices",
             fmt::format("{} devices do not fill whole nodes of {}; nearest: {} or {}", c.devices, c.devices_per_node,
                         below, below + c.devices_per_node));
  }
  if (c.devices_per_node % c.rails != 0) {
    disagree(errors, "rails",
             fmt::format("{} rails do not divide the {} devices of a node", c.rails, c.devices_per_node));
  }
  if (!nests(c.domain_slots, c.devices_per_node)) {
    disagree(errors, "nvlink_domain",
             fmt::format("a domain of {} devices and nodes of {}: one must be a multiple of the other", c.domain_slots,
                         c.devices_per_node));
  }
  if (c.domain_devices > 0 && (c.domain_devices > c.domain_slots || !nests(c.domain_devices, c.devices_per_node))) {
    disagree(errors, "domain_devices",
             fmt::format("found {}, allowed: at most the domain's {}, in whole nodes of {}", c.domain_devices,
                         c.domain_slots, c.devices_per_node));
  }
  if (c.scale_up == ScaleUp::mesh && c.domain_slots > max_mesh) {
    disagree(errors, "nvlink_domain",
             fmt::format("found {}, a mesh of direct links has at most {} devices", c.domain_slots, max_mesh));
  }
}

// A job that fits one domain or fills whole ones uses all slots; any other takes the largest power of two of each, so
// that groups of powers of two stay inside a domain (64 of 72).
int chosen_domain(const Cluster& c) {
  if (c.domain_devices > 0) return c.domain_devices;
  const bool whole =
      c.domain_slots <= c.devices_per_node || c.devices <= c.domain_slots || c.devices % c.domain_slots == 0;
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(c.domain_slots)));
  return whole || power % c.devices_per_node != 0 ? c.domain_slots : power;
}

void note_domain(Cluster& c) {
  if (c.nvlink_domain < c.domain_slots) {
    c.assumptions.push_back(
        fmt::format("cluster: the job uses {} of the {} devices of each NVLink domain{}", c.nvlink_domain,
                    c.domain_slots, c.domain_devices > 0 ? "" : ", the largest power of two (domain_devices sets it)"));
    return;
  }
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(c.domain_slots)));
  if (c.devices > c.domain_slots && power != c.domain_slots && c.devices % power == 0) {
    c.assumptions.push_back(
        fmt::format("cluster: the job uses all {} devices of each NVLink domain; groups of {} then straddle domains "
                    "(domain_devices "
                    "= {} would keep them inside)",
                    c.domain_slots, power, power));
  }
}

}  // namespace

std::span<const ConstantKey> network_keys() { return keys; }

std::map<std::string, Constant> generic_network() {
  constexpr Provenance assumed = Provenance::assumption;
  return {
      {"leaf_radix", {32, assumed, "64-port leaf switches, half of the ports down"}},
      {"oversubscription", {1, assumed, "1:1 within a training pod (usual; not checked against this fabric)"}},
      {"nvlink_latency_us", {0.94, assumed, "936 ns a hop in astra-sim's validated HGX-H100 example"}},
      {"nic_latency_us", {5, assumed, "NCCL's tuning model, network hop of the tree (LL)"}},
      {"switch_latency_us", {0.3, assumed, "port to port of a 400 Gb/s switch and its cable, from memory"}},
      {"nic_efficiency",
       {0.95, assumed,
        "all-reduce across nodes reaches 0.93-0.97 of the NICs' rate on other fabrics (calibration 5.2)"}},
  };
}

void complete(Cluster& c) {
  const auto keep = [&](const char* key, double value) {
    c.provenance.try_emplace(key, Constant{value, Provenance::given, "set by the caller"});
  };
  keep("devices_per_node", c.devices_per_node);
  keep("nvlink_domain", c.domain_slots);
  keep("rails", c.rails);
  keep("leaf_radix", c.leaf_radix);
  keep("nvlink_gb_per_s", c.nvlink_bandwidth.value / 1e9);
  keep("nic_gb_per_s", c.nic_bandwidth.value / 1e9);
  keep("oversubscription", c.oversubscription);
  keep("nvlink_latency_us", c.nvlink_latency.value * 1e6);
  keep("nic_latency_us", c.nic_latency.value * 1e6);
  keep("switch_latency_us", c.switch_latency.value * 1e6);
  keep("nic_efficiency", c.nic_efficiency);
}

void take_network(Cluster& c) {
  const auto value = [&](const char* key) { return c.provenance.at(key).value; };
  const auto whole = [&](const char* key) { return static_cast<int>(value(key)); };
  c.devices_per_node = whole("devices_per_node");
  c.domain_slots = whole("nvlink_domain");
  c.domain_devices = c.provenance.contains("domain_devices") ? whole("domain_devices") : 0;
  c.rails = whole("rails");
  c.leaf_radix = whole("leaf_radix");
  c.nvlink_bandwidth = gb_per_s(value("nvlink_gb_per_s"));
  c.nic_bandwidth = gb_per_s(value("nic_gb_per_s"));
  c.oversubscription = value("oversubscription");
  c.nvlink_latency = microseconds(value("nvlink_latency_us"));
  c.nic_latency = microseconds(value("nic_latency_us"));
  c.switch_latency = microseconds(value("switch_latency_us"));
  c.nic_efficiency = value("nic_efficiency");
}

Errors settle(Cluster& c) {
  Errors errors;
  check_boxes(c, errors);
  if (!errors.empty()) return errors;
  c.nvlink_domain = chosen_domain(c);
  c.assumptions.clear();
  for (const auto& [key, constant] : c.provenance) {
    if (constant.provenance != Provenance::secondary && constant.provenance != Provenance::assumption) continue;
    c.assumptions.push_back(
        fmt::format("cluster: {} = {:g}: {}: {}", key, constant.value, name(constant.provenance), constant.source));
  }
  note_domain(c);
  if (c.placement == Placement::scattered) {
    c.assumptions.emplace_back("cluster: boxes are spread round-robin over the leaves that the job's size needs");
  }
  const std::vector<std::string> device = assumptions_of(c.device);
  c.assumptions.insert(c.assumptions.end(), device.begin(), device.end());
  return errors;
}

}  // namespace stepcast::topology
