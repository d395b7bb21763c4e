#include "topology/cluster.h"

#include <cmath>
#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "cluster_fixture.h"

namespace stepcast::topology {

namespace {

using Catch::Matchers::Contains;

Error refusal(const std::string& preset_and_count) {
  const auto cluster = load_cluster(catalog_root(), preset_and_count);
  REQUIRE_FALSE(cluster);
  return cluster.errors().front();
}

std::string refusal(const Cluster& cluster, const ClusterOverrides& overrides) {
  const auto changed = apply_overrides(cluster, overrides);
  REQUIRE_FALSE(changed);
  return messages(changed.errors());
}

ClusterOverrides devices_of(int devices) {
  ClusterOverrides o;
  o.devices = devices;
  return o;
}

}  // namespace

TEST_CASE("every preset loads at 8 and at 1,024 devices") {
  const auto presets = list_clusters(catalog_root());
  REQUIRE(presets);
  CHECK(presets->size() >= 16);
  for (const ClusterPreset& preset : *presets) {
    INFO(preset.name);
    CHECK_FALSE(preset.summary.empty());
    for (const int devices : {8, 1024}) {
      const Cluster c = cluster_of(preset.name + ":" + std::to_string(devices));
      CHECK(c.devices == devices);
      CHECK(c.device.name == preset.device);
      CHECK(c.nodes() * c.devices_per_node == devices);
      CHECK(c.domains() * c.nvlink_domain >= devices);
      CHECK(c.nvlink_bandwidth.value > c.nic_bandwidth.value);
      CHECK(c.nic_latency.value > 0);
      for (const Fact& fact : describe(c)) {
        INFO(fact.key);
        CHECK(std::isfinite(fact.value));
        CHECK_FALSE(fact.source.empty());
      }
    }
  }
}

TEST_CASE("every device has a usual box") {
  const auto devices = list_devices(catalog_root());
  REQUIRE(devices);
  for (const std::string& device : *devices) {
    INFO(device);
    const auto cluster = make_cluster(catalog_root(), device, 64, {});
    REQUIRE(cluster);
    CHECK(cluster->device.name == device);
    CHECK(cluster->name == "inline");
    CHECK(load_cluster(catalog_root(), device + ":64"));
  }
}

TEST_CASE("hostile names and counts are refused") {
  for (const char* text : {"h800:", "h800", "h800:0", "h800:-8", "h800:1e9", "h800:12abc", "h800:99999999999999999999",
                           "h800:1048577", "h800: 8", "h800:8:8", "h800:+8", "h800:8.0", "h800:0x8", "h800:nan"}) {
    INFO(text);
    const Error e = refusal(text);
    CHECK(e.code == ErrorCode::invalid);
    CHECK_THAT(e.message, Contains("h800:COUNT") && Contains("1048576"));
  }
  CHECK_THAT(refusal("h8000:8").message, Contains("did you mean 'h800'"));
  for (const char* text : {"", ":", ":8", "nope:8", "../clusters/h800:8", "h800.json:8"}) {
    INFO(text);
    CHECK(refusal(text).code == ErrorCode::not_found);
  }
}

TEST_CASE("a count above one node fills whole nodes") {
  for (const int devices : {1, 2, 4, 7, 8, 16, 1048576})
    CHECK(cluster_of("h800:" + std::to_string(devices)).devices == devices);
  CHECK_THAT(refusal("h800:12").message, Contains("12 devices do not fill whole nodes of 8; nearest: 8 or 16"));
  CHECK_THAT(refusal("gb200:6").message, Contains("nearest: 4 or 8"));
}

TEST_CASE("an NVL72 job uses 64 of 72 devices unless it fits or fills domains") {
  CHECK(cluster_of("gb200:64").nvlink_domain == 72);
  CHECK(cluster_of("gb200:72").nvlink_domain == 72);
  CHECK(cluster_of("gb200:144").nvlink_domain == 72);
  const Cluster c = cluster_of("gb200:256");
  CHECK(c.nvlink_domain == 64);
  CHECK(c.domain_slots == 72);
  CHECK(c.domains() == 4);
  CHECK_THAT(c.assumptions,
             Catch::VectorContains(
                 std::string("cluster: the job uses 64 of the 72 devices of each NVLink domain, the largest power of "
                             "two (domain_devices sets it)")));
  // The choice follows a later count, and a stated domain is the physical one.
  const auto grown = apply_overrides(c, devices_of(64));
  REQUIRE(grown);
  CHECK(grown->nvlink_domain == 72);
  CHECK(grown->name == "gb200:64");
  ClusterOverrides stated;
  stated.nvlink_domain = 72;
  CHECK(cluster_of("gb200:512", stated).nvlink_domain == 64);
  ClusterOverrides used;
  used.domain_devices = 64;
  CHECK(cluster_of("gb200:576", used).nvlink_domain == 64);
  CHECK(cluster_of("gb200:576").nvlink_domain == 72);
  used.domain_devices = 73;
  CHECK_THAT(refusal(c, used), Contains("cluster.domain_devices"));
}

TEST_CASE("overrides replace numbers and keep their origin") {
  ClusterOverrides o;
  o.nic_gb_per_s = 12.5;
  o.oversubscription = 4;
  o.leaf_radix = 16;
  o.nic_latency_us = 9;
  o.nic_efficiency = 0.8;
  o.hbm_gib = 96;
  o.hbm_bandwidth_gb_per_s = 2400;
  o.sustained_gemm = 0.7;
  o.placement = Placement::scattered;
  o.routing = Routing::hashed;
  const Cluster c = cluster_of("h100:64", o);
  CHECK(c.nic_bandwidth.value == 12.5e9);
  CHECK(c.oversubscription == 4);
  CHECK(c.leaf_radix == 16);
  CHECK(c.nic_latency.value == Approx(9e-6));
  CHECK(c.device.hbm.value == gib(96).value);
  CHECK(c.device.hbm_bandwidth.value == 2.4e12);
  CHECK(c.device.sustained_gemm == 0.7);
  CHECK(c.placement == Placement::scattered);
  CHECK(c.provenance.at("nic_gb_per_s").provenance == Provenance::given);
  CHECK(c.provenance.at("nvlink_gb_per_s").provenance == Provenance::specification);
  CHECK(c.device.provenance.at("sustained_gemm.value").provenance == Provenance::given);
}

TEST_CASE("rails and domain follow the box unless stated") {
  ClusterOverrides o;
  o.devices_per_node = 4;
  const Cluster c = cluster_of("a100:64", o);
  CHECK(c.nvlink_domain == 4);
  CHECK(c.rails == 4);
  CHECK(c.nodes() == 16);
  o.nvlink_domain = 8;
  o.rails = 1;
  const Cluster d = cluster_of("a100:64", o);
  CHECK(d.nvlink_domain == 8);
  CHECK(d.rails == 1);
}

TEST_CASE("hostile overrides are refused, all at once") {
  const Cluster c = cluster_of("h100:64");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, inf, -inf, 0.0, -1.0, 1e300}) {
    INFO(bad);
    ClusterOverrides o;
    o.nvlink_gb_per_s = o.nic_gb_per_s = o.oversubscription = o.nic_efficiency = bad;
    o.sustained_gemm = o.hbm_bandwidth_gb_per_s = o.hbm_gib = bad;
    const auto changed = apply_overrides(c, o);
    REQUIRE_FALSE(changed);
    CHECK(changed.errors().size() == 7);
  }
  for (const int bad : {0, -1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    INFO(bad);
    ClusterOverrides o;
    o.devices_per_node = o.nvlink_domain = o.rails = o.leaf_radix = o.domain_devices = bad;
    const auto changed = apply_overrides(c, o);
    REQUIRE_FALSE(changed);
    CHECK(changed.errors().size() == 5);
    CHECK_FALSE(apply_overrides(c, devices_of(bad)));
  }
  ClusterOverrides o;
  o.rails = 3;
  CHECK_THAT(refusal(c, o), Contains("cluster.rails: 3 rails do not divide"));
  o = {};
  o.nvlink_domain = 12;
  CHECK_THAT(refusal(c, o), Contains("cluster.nvlink_domain"));
}

TEST_CASE("assumptions list what is neither measured nor specified") {
  const Cluster c = cluster_of("h20:64");
  bool leaf = false;
  bool device = false;
  for (const std::string& line : c.assumptions) {
    leaf = leaf || line.starts_with("cluster: leaf_radix = 32: assumption: ");
    device = device || line.starts_with("device h20: secondary: ");
  }
  CHECK(leaf);
  CHECK(device);
  ClusterOverrides o;
  o.leaf_radix = 32;
  for (const std::string& line : cluster_of("h20:64", o).assumptions) CHECK_THAT(line, !Contains("leaf_radix"));
}

TEST_CASE("the DeepSeek box") {
  const Cluster c = cluster_of("h800:2048");
  CHECK(c.name == "h800:2048");
  CHECK(c.nvlink_bandwidth.value == 160e9);
  CHECK(c.nic_bandwidth.value == 50e9);
  CHECK(c.rails == 8);
  CHECK(c.domains() == 256);
}

}  // namespace stepcast::topology
