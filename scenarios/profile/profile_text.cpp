// The three formats of a profile.
#include <algorithm>

#include <fmt/format.h>

#include "scenarios/profile/profile.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

double seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

// Over ranks and steps.
struct Spread {
  double mean = 0, p50 = 0, p95 = 0, max = 0;
  std::int64_t max_rank = 0;
};

template <class Value>
Spread spread(const Profile& profile, const Value& value) {
  Spread s;
  std::vector<double> all;
  for (const ProfiledRank& rank : profile.ranks) {
    for (const ProfiledStep& step : rank.steps) {
      const double v = value(step);
      if (all.empty() || v > s.max) {
        s.max = v;
        s.max_rank = rank.rank;
      }
      all.push_back(v);
      s.mean += v;
    }
  }
  if (all.empty()) return s;
  s.mean /= static_cast<double>(all.size());
  std::sort(all.begin(), all.end());
  // Nearest rank, as for a forecast.
  const auto at = [&](double p) {
    const auto n = static_cast<double>(all.size());
    return all[std::min(all.size() - 1, static_cast<std::size_t>(p * n))];
  };
  s.p50 = at(0.5);
  s.p95 = at(0.95);
  return s;
}

Spread step_spread(const Profile& profile) {
  return spread(profile, [](const ProfiledStep& step) { return seconds(step.end_ns - step.begin_ns); });
}

Spread category_spread(const Profile& profile, int category) {
  return spread(profile,
                [&](const ProfiledStep& step) { return seconds(step.partition[static_cast<std::size_t>(category)]); });
}

Json hta_json(const HtaBreakdown& h) {
  return {{"compute_s", h.compute_s},
          {"non_compute_s", h.non_compute_s},
          {"idle_s", h.idle_s},
          {"host_wait_s", h.host_wait_s},
          {"kernel_wait_s", h.kernel_wait_s},
          {"other_idle_s", h.other_idle_s},
          {"communication_s", h.communication_s},
          {"communication_computation_overlap", h.overlap()}};
}

Json ranks_json(const Profile& profile) {
  Json list = Json::array();
  for (const ProfiledRank& rank : profile.ranks) {
    Json json = {{"rank", rank.rank}, {"file", rank.file}, {"steps", Json::array()}};
    for (const ProfiledStep& step : rank.steps) {
      Json one = {{"step_s", seconds(step.end_ns - step.begin_ns)}, {"breakdown_s", Json::object()}};
      for (int c = 0; c < sim::category_count; ++c) {
        const std::int64_t ns = step.partition[static_cast<std::size_t>(c)];
        if (ns != 0) one["breakdown_s"][sim::name(static_cast<sim::Category>(c))] = seconds(ns);
      }
      json["steps"].push_back(std::move(one));
    }
    if (!profile.of_forecast) json["hta"] = hta_json(rank.hta);
    list.push_back(std::move(json));
  }
  return list;
}

std::string list_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

}  // namespace

double Profile::step_s() const { return step_spread(*this).mean; }

Json to_json(const Profile& profile) {
  const Spread step = step_spread(profile);
  Json json;
  json["schema"] = profile_schema;
  json["name"] = profile.name;
  json["of_forecast"] = profile.of_forecast;
  if (!profile.device.empty()) json["device"] = profile.device;
  if (profile.world_size > 0) json["world_size"] = profile.world_size;
  std::size_t samples = 0;
  for (const ProfiledRank& rank : profile.ranks) samples += rank.steps.size();
  json["step_time_s"] = {{"mean", step.mean}, {"p50", step.p50}, {"max", step.max}, {"samples", samples}};
  json["breakdown"] = Json::object();
  for (int c = 0; c < sim::category_count; ++c) {
    const Spread s = category_spread(profile, c);
    json["breakdown"][sim::name(static_cast<sim::Category>(c))] = {
        {"mean_s", s.mean}, {"p50_s", s.p50}, {"p95_s", s.p95}, {"max_s", s.max}, {"max_rank", s.max_rank}};
  }
  json["communication"] = Json::array();
  for (const ProfiledCommunication& c : profile.communication) {
    json["communication"].push_back({{"kind", c.collective},
                                     {"group", c.group},
                                     {"calls", c.calls},
                                     {"payload_bytes", c.bytes},
                                     {"raw_s", c.raw_s},
                                     {"exposed_s", c.exposed_s}});
  }
  json["kernels"] = Json::array();
  for (const ProfiledKernel& k : profile.kernels) {
    json["kernels"].push_back({{"name", k.name},
                               {"counted_as", k.counted_as},
                               {"recognised", k.recognised},
                               {"calls", k.calls},
                               {"seconds", k.seconds}});
  }
  json["ranks"] = ranks_json(profile);
  json["assumptions"] = profile.assumptions;
  json["warnings"] = profile.warnings;
  return json;
}

std::string to_table(const Profile& profile, bool colour) {
  const Spread step = step_spread(profile);
  std::size_t samples = 0;
  for (const ProfiledRank& rank : profile.ranks) samples += rank.steps.size();
  std::string text = bold(fmt::format("{}: {} rank(s), {} step(s), {} a step", profile.name, profile.ranks.size(),
                                      samples, time_text(step.mean)),
                          colour) +
                     "\n";
  TextTable parts({"category", "mean", "share", "<", "p95", "max", "rank"});
  for (int c = 0; c < sim::category_count; ++c) {
    const Spread s = category_spread(profile, c);
    if (s.max == 0) continue;
    const double share = step.mean > 0 ? s.mean / step.mean : 0;
    parts.row({sim::name(static_cast<sim::Category>(c)), time_text(s.mean), percent_text(share), bar(share, 24),
               time_text(s.p95), time_text(s.max), std::to_string(s.max_rank)});
  }
  text += parts.text();
  if (!profile.communication.empty()) {
    TextTable table({"collective", "<group", "calls", "bytes", "raw", "exposed"});
    for (const ProfiledCommunication& c : profile.communication) {
      table.row({c.collective, c.group, fmt::format("{:.1f}", c.calls), bytes_text(c.bytes), time_text(c.raw_s),
                 time_text(c.exposed_s)});
    }
    text += "\n" + bold("Communication of a rank and step", colour) + "\n" + table.text();
  }
  if (!profile.of_forecast) {
    TextTable table({"rank", "compute", "non-compute", "idle", "host wait", "kernel wait", "other", "overlap"});
    constexpr std::size_t shown = 16;
    for (std::size_t i = 0; i < std::min(shown, profile.ranks.size()); ++i) {
      const HtaBreakdown& h = profile.ranks[i].hta;
      table.row({std::to_string(profile.ranks[i].rank), time_text(h.compute_s), time_text(h.non_compute_s),
                 time_text(h.idle_s), time_text(h.host_wait_s), time_text(h.kernel_wait_s), time_text(h.other_idle_s),
                 percent_text(h.overlap())});
    }
    text += "\n" + bold("As HolisticTraceAnalysis counts it", colour) + "\n" + table.text();
  }
  if (!profile.warnings.empty()) text += "\n" + bold("Warnings", colour) + "\n" + list_text(profile.warnings);
  if (!profile.assumptions.empty()) text += "\n" + bold("Assumptions", colour) + "\n" + list_text(profile.assumptions);
  return text;
}

std::string to_csv(const Profile& profile) {
  std::string text = csv_line({"rank", "step", "category", "seconds"});
  for (const ProfiledRank& rank : profile.ranks) {
    for (std::size_t i = 0; i < rank.steps.size(); ++i) {
      for (int c = 0; c < sim::category_count; ++c) {
        text += csv_line({std::to_string(rank.rank), std::to_string(i), sim::name(static_cast<sim::Category>(c)),
                          csv_number(seconds(rank.steps[i].partition[static_cast<std::size_t>(c)]))});
      }
    }
  }
  return text;
}

}  // namespace stepcast::scenarios
