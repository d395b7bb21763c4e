// stepcast list: the catalogues.
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/render.h"
#include "models/catalog.h"
#include "parallelism/schedule.h"
#include "parallelism/software.h"
#include "scenarios/report/text_table.h"
#include "scenarios/scenario.h"
#include "topology/cluster.h"
#include "topology/device.h"

namespace stepcast::cli {
namespace {

struct Listing {
  std::vector<std::string> columns;  // the first is "name"
  std::vector<std::vector<std::string>> rows;
};

using Root = std::filesystem::path;

Result<Listing> list_of_models(const Root& root) {
  const auto entries = models::list_models(root);
  if (!entries) return entries.errors();
  Listing listing{{"name", "summary"}, {}};
  for (const auto& entry : *entries) listing.rows.push_back({entry.name, entry.summary});
  return listing;
}

std::string peaks_text(const topology::Device& device) {
  std::string text;
  for (const auto& [precision, flops] : device.peak_flops) {
    text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", topology::name(precision), flops / 1e12);
  }
  return text;
}

Result<Listing> list_of_devices(const Root& root) {
  const auto names = topology::list_devices(root);
  if (!names) return names.errors();
  Listing listing{{"name", "peak_tflops", "hbm_gib", "hbm_gb_per_s", "nvlink_gb_per_s", "nic_gb_per_s", "figures"}, {}};
  for (const std::string& name : *names) {
    const auto device = topology::load_device(root, name);
    if (!device) return device.errors();
    listing.rows.push_back({name, peaks_text(*device), fmt::format("{:.4g}", device->hbm / gib(1)),
                            fmt::format("{:.4g}", device->hbm_bandwidth.value / 1e9),
                            fmt::format("{:.4g}", device->nvlink_bandwidth.value / 1e9),
                            fmt::format("{:.4g}", device->nic_bandwidth.value / 1e9),
                            device->secondary        ? "secondary sources"
                            : device->low_confidence ? "carried over"
                                                     : "measured or specified"});
  }
  return listing;
}

Result<Listing> list_of_clusters(const Root& root) {
  const auto presets = topology::list_clusters(root);
  if (!presets) return presets.errors();
  Listing listing{{"name", "device", "summary"}, {}};
  for (const auto& preset : *presets) listing.rows.push_back({preset.name, preset.device, preset.summary});
  return listing;
}

Result<Listing> list_of_scenarios(const Root& root) {
  const auto entries = scenarios::list_library(root);
  if (!entries) return entries.errors();
  Listing listing{{"name", "summary"}, {}};
  for (const auto& entry : *entries) listing.rows.push_back({entry.name, entry.summary});
  return listing;
}

Result<Listing> list_of_schedules(const Root&) {
  Listing listing{{"name", "summary"}, {}};
  for (const auto& info : parallelism::schedules()) {
    listing.rows.push_back({std::string(info.name), std::string(info.summary)});
  }
  return listing;
}

Result<Listing> list_of_software(const Root& root) {
  const auto names = parallelism::list_software(root);
  if (!names) return names.errors();
  Listing listing{{"name", "summary"}, {}};
  for (const std::string& name : *names) {
    const auto profile = parallelism::load_software(root, name);
    if (!profile) return profile.errors();
    listing.rows.push_back({name, profile->summary});
  }
  return listing;
}

struct Catalogue {
  const char* name;
  Result<Listing> (*list)(const Root&);
};
constexpr std::array<Catalogue, 6> catalogues = {{{"models", list_of_models},
                                                  {"devices", list_of_devices},
                                                  {"clusters", list_of_clusters},
                                                  {"scenarios", list_of_scenarios},
                                                  {"schedules", list_of_schedules},
                                                  {"software", list_of_software}}};

std::string table_text(const Listing& listing) {
  std::vector<std::string> headers;
  for (const std::string& column : listing.columns) headers.push_back("<" + column);
  scenarios::TextTable table(headers);
  for (const auto& row : listing.rows) table.row(row);
  return table.text(0);
}

nlohmann::ordered_json json_of(const std::string& what, const Listing& listing) {
  nlohmann::ordered_json json = {{"schema", "stepcast.list/1"}, {"catalogue", what}};
  json["entries"] = nlohmann::ordered_json::array();
  for (const auto& row : listing.rows) {
    nlohmann::ordered_json entry;
    for (std::size_t c = 0; c < row.size(); ++c) entry[listing.columns[c]] = row[c];
    json["entries"].push_back(std::move(entry));
  }
  return json;
}

std::string csv_of(const Listing& listing) {
  std::string text = scenarios::csv_line(listing.columns);
  for (const auto& row : listing.rows) text += scenarios::csv_line(row);
  return text;
}

void add_options(boost::program_options::options_description&) {}

Result<Output> run(const Invocation& invocation) {
  std::vector<std::string> names;
  for (const Catalogue& catalogue : catalogues) names.emplace_back(catalogue.name);
  const auto words = invocation.arguments.list("catalogue");
  const std::string what = words.empty() ? "" : words.front();
  for (const Catalogue& catalogue : catalogues) {
    if (what != catalogue.name) continue;
    const auto listing = catalogue.list(invocation.globals.catalog_root);
    if (!listing) return listing.errors();
    return Output{render(
        invocation.globals, [&] { return json_of(what, *listing); }, [&] { return table_text(*listing); },
        [&] { return csv_of(*listing); })};
  }
  return make_error(ErrorCode::usage,
                    fmt::format("{}one of {} is needed{}", what.empty() ? "" : "found '" + what + "', ",
                                fmt::join(names, ", "), suggestion(what, names)),
                    "list");
}

}  // namespace

const Command list_command = {"list",
                              "models|devices|clusters|scenarios|schedules|software",
                              "Lists a catalogue.",
                              {"stepcast list models", "stepcast list devices --format csv"},
                              "catalogue",
                              1,
                              add_options,
                              run,
                              false,
                              false};

}  // namespace stepcast::cli
