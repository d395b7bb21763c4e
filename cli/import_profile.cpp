#include "cli/import_profile.h"

#include <fmt/format.h>

#include "cli/render.h"
#include "scenarios/profile/profile.h"
#include "scenarios/profile/profile_compare.h"
#include "scenarios/profile/topo.h"
#include "scenarios/scenario.h"

namespace stepcast::cli {
namespace {

// Values of the forecast's scenario that a comparison with a profile may name.
scenarios::Constants constants_of(const Invocation& invocation, const JsonDocument& forecast) {
  scenarios::Constants constants;
  if (!forecast.root.contains("scenario")) return constants;
  scenarios::ScenarioRequest request;
  request.text = forecast.root["scenario"].dump();
  request.text_name = forecast.file;
  request.catalog_root = invocation.globals.catalog_root;
  const auto scenario = scenarios::load_scenario(request);
  if (!scenario) return constants;
  const topology::Cluster& cluster = scenario->spec.cluster;
  constants["cluster.sustained_gemm"] = cluster.device.sustained_gemm;
  constants["cluster.hbm_bandwidth_gb_per_s"] = cluster.device.hbm_bandwidth.value / 1e9;
  constants["cluster.nvlink_gb_per_s"] = cluster.nvlink_bandwidth.value / 1e9;
  constants["cluster.nic_gb_per_s"] = cluster.nic_bandwidth.value / 1e9;
  constants["runtime.host_launch_us"] = scenario->spec.runtime.host_launch_us;
  return constants;
}

scenarios::ImportOptions options_of(const Invocation& invocation) {
  static const std::vector<std::pair<std::string, scenarios::GroupKind>> kinds = {{"tp", scenarios::GroupKind::tp},
                                                                                  {"cp", scenarios::GroupKind::cp},
                                                                                  {"ep", scenarios::GroupKind::ep},
                                                                                  {"pp", scenarios::GroupKind::pp},
                                                                                  {"dp", scenarios::GroupKind::dp}};
  scenarios::ImportOptions options;
  for (const std::string& text : invocation.arguments.list("group")) {
    const auto equals = text.rfind('=');
    bool known = false;
    for (const auto& [kind, value] : kinds) {
      if (equals == std::string::npos || equals == 0 || text.substr(equals + 1) != kind) continue;
      options.groups.emplace_back(text.substr(0, equals), value);
      known = true;
    }
    if (!known) {
      invocation.arguments.fail("group",
                                fmt::format("found '{}'; NAME=KIND with tp, cp, ep, pp or dp is needed", text));
    }
  }
  return options;
}

}  // namespace

Result<Output> import_kineto(const Invocation& invocation, const std::vector<std::string>& files) {
  const auto options = options_of(invocation);
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  const auto profile = scenarios::import_kineto({files.begin(), files.end()}, options);
  if (!profile) return profile.errors();
  return Output{render(
      invocation.globals, [&] { return to_json(*profile); },
      [&] { return to_table(*profile, invocation.globals.colour); }, [&] { return to_csv(*profile); })};
}

Result<Output> import_topo(const Invocation& invocation, const std::vector<std::string>& files) {
  const auto box = scenarios::import_topo(files.front());
  if (!box) return box.errors();
  return Output{render(
      invocation.globals, [&] { return to_json(*box); }, [&] { return to_table(*box, invocation.globals.colour); },
      [&] { return to_csv(*box); })};
}

Result<Output> compare_with_profile(const Invocation& invocation, const JsonDocument& forecast,
                                    const JsonDocument& profile) {
  const auto comparison = scenarios::compare_profile(forecast, profile, constants_of(invocation, forecast));
  if (!comparison) return comparison.errors();
  return Output{render(
      invocation.globals, [&] { return to_json(*comparison); },
      [&] { return to_table(*comparison, invocation.globals.colour); }, [&] { return to_csv(*comparison); })};
}

}  // namespace stepcast::cli
