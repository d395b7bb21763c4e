// Each break of a scaling curve by its name, and traffic over leaf switches against the routes of every pair.
#include "scenarios/scaling_breaks.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "parallelism/lower.h"
#include "scenarios/leaf_traffic.h"
#include "tests/scenarios/load.h"
#include "topology/fabric.h"

using namespace stepcast;
using namespace stepcast::scenarios;

namespace {

Scenario olmoe(const std::vector<std::string>& more) {
  ScenarioRequest request;
  request.file = "olmoe-1b-7b-h100-8";
  request.catalog_root = source_dir;
  request.sets = {"workload.global_batch=128", "workload.micro_batch=1", "workload.steps=1"};
  request.sets.insert(request.sets.end(), more.begin(), more.end());
  auto scenario = load_scenario(request);
  REQUIRE(scenario.ok());
  return std::move(*scenario);
}

std::vector<std::string> breaks(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  ForecastOptions options;
  options.threads = 1;
  options.ignore_memory = options.representative = true;
  const auto a = forecast(olmoe(before), options);
  const auto b = forecast(olmoe(now), options);
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  const ScaleMarks marks = scale_marks(*a);
  return scaling_breaks(&marks, scale_marks(*b));
}

bool has(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

std::string leaves(int nodes) { return "cluster.leaf_radix=" + std::to_string(nodes); }

}  // namespace

TEST_CASE("a group that leaves the NVLink domain is named") {
  const std::vector<std::string> eight = {"cluster.devices=16", "parallelism.ep=8"};
  CHECK(has(breaks(eight, {"cluster.devices=16", "parallelism.ep=16"}), "ep leaves the NVLink domain: 16 ranks"));
  CHECK_FALSE(has(breaks(eight, {"cluster.devices=32", "parallelism.ep=8"}), "ep leaves"));
  CHECK(has(breaks({"cluster.devices=16", "parallelism.ep=1", "parallelism.tp=8"},
                   {"cluster.devices=16", "parallelism.ep=1", "parallelism.tp=16"}),
            "tp leaves the NVLink domain: 16 ranks"));
}

TEST_CASE("traffic that crosses a leaf switch is named by its kind") {
  // Two nodes under a leaf switch.
  const std::vector<std::string> one = {"cluster.devices=16", "parallelism.ep=16", leaves(2)};
  const auto experts = breaks(one, {"cluster.devices=32", "parallelism.ep=32", leaves(2)});
  CHECK(has(experts, "ep traffic crosses a leaf switch: 32 ranks over 4 NVLink domains, under 2 leaf groups"));
  const auto replicas = breaks(one, {"cluster.devices=32", "parallelism.ep=16", leaves(2)});
  CHECK(has(replicas, "dp traffic crosses a leaf switch: 32 ranks"));
  CHECK_FALSE(has(replicas, "ep traffic"));
  const std::vector<std::string> pipeline = {"cluster.devices=16", "parallelism.pp=2", "parallelism.ep=8", leaves(2)};
  const auto stages = breaks(pipeline, {"cluster.devices=32", "parallelism.pp=4", "parallelism.ep=8", leaves(2)});
  CHECK(has(stages, "pp traffic crosses a leaf switch: pipeline neighbours"));
  CHECK_FALSE(has(stages, "dp traffic"));
  // All under one.
  CHECK_FALSE(has(breaks({"cluster.devices=16", "parallelism.ep=16", leaves(32)},
                         {"cluster.devices=32", "parallelism.ep=32", leaves(32)}),
                  "leaf switch"));
}

TEST_CASE("microbatches that run out are named") {
  const std::vector<std::string> enough = {"cluster.devices=16", "parallelism.pp=4", "parallelism.ep=4"};
  CHECK(has(breaks(enough, {"cluster.devices=256", "parallelism.pp=4", "parallelism.ep=4"}),
            "microbatches run out: 2 on 4 stages"));
  CHECK_FALSE(has(breaks(enough, {"cluster.devices=32", "parallelism.pp=4", "parallelism.ep=4"}), "run out"));
}

TEST_CASE("few rows an expert are named") {
  // 64 experts, top 8: rows = sequence length x ep / 8.
  const auto at = [](const char* ep, const char* length) {
    return std::vector<std::string>{std::string("parallelism.ep=") + ep, "routing.skew=balanced",
                                    std::string("workload.sequence_length=") + length};
  };
  CHECK(has(breaks(at("8", "4096"), at("1", "1024")), "rows per expert below the knee: 128"));
  CHECK_FALSE(has(breaks(at("8", "4096"), at("4", "4096")), "rows per expert"));
}

TEST_CASE("traffic over leaf switches is what the routes of its pairs say") {
  const auto shape = GENERATE(
      as<std::vector<std::string>>{}, std::vector<std::string>{}, std::vector<std::string>{"parallelism.pp=2"},
      std::vector<std::string>{"parallelism.tp=2", "parallelism.pp=4"},
      std::vector<std::string>{"parallelism.tp=16", "parallelism.ep=1"}, std::vector<std::string>{"parallelism.ep=32"});
  for (const char* leaf : {"1", "2", "3", "32"}) {
    for (const std::vector<std::string>& fabric :
         {std::vector<std::string>{"cluster.pxn=true"}, {"cluster.pxn=false"}, {"cluster.rail_optimised=false"}}) {
      std::vector<std::string> sets = {"cluster.devices=32", std::string("cluster.leaf_radix=") + leaf};
      sets.insert(sets.end(), fabric.begin(), fabric.end());
      sets.insert(sets.end(), shape.begin(), shape.end());
      CAPTURE(sets);
      const Scenario scenario = olmoe(sets);
      const auto lowered = parallelism::lower(scenario.spec);
      REQUIRE(lowered.ok());
      const topology::Fabric network(scenario.spec.cluster);
      const auto uplink = [&](DeviceId a, DeviceId b) {
        const auto route = network.route(a, b);
        return std::any_of(route.begin(), route.end(), [&](topology::LinkId link) {
          return network.link(link).kind == topology::LinkKind::leaf_up;
        });
      };
      const auto device = [&](const sim::Cohort& cohort, std::size_t lane) {
        return lowered->placement[static_cast<std::size_t>(cohort.ranks[lane].value)];
      };
      const auto found = leaf_traffic(*lowered, scenario.spec.cluster);
      const auto crosses = [&](const std::string& group) {
        const auto at = found.find(group);
        return at != found.end() && at->second.crosses;
      };
      bool experts = false;
      for (const sim::Cohort& cohort : lowered->program.cohorts) {
        for (const sim::GroupClass& group : cohort.groups) {
          if (group.name != "ep") continue;
          const auto size = static_cast<std::size_t>(group.group_size);
          for (std::size_t i = 0; i < group.lanes.size(); ++i) {
            for (std::size_t j = i / size * size; j < i / size * size + size; ++j) {
              experts = experts || uplink(device(cohort, static_cast<std::size_t>(group.lanes[i])),
                                          device(cohort, static_cast<std::size_t>(group.lanes[j])));
            }
          }
        }
      }
      CHECK(crosses("ep") == experts);
      bool neighbours = false;
      for (const sim::Channel& channel : lowered->program.channels) {
        const auto& to = lowered->program.cohorts[static_cast<std::size_t>(channel.to)];
        for (std::size_t lane = 0; lane < to.ranks.size(); ++lane) {
          const std::size_t source =
              channel.from_lane.empty() ? lane : static_cast<std::size_t>(channel.from_lane[lane]);
          neighbours =
              neighbours || uplink(device(lowered->program.cohorts[static_cast<std::size_t>(channel.from)], source),
                                   device(to, lane));
        }
      }
      CHECK(crosses("pp") == neighbours);
    }
  }
}
