#include "validation/calibrate/observations.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "scenarios/scenario.h"
#include "scenarios/step_time.h"
#include "validation/rates.h"

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;

scenarios::ScenarioRequest request_for(const Json& scenario, const Json& calibration, const std::string& id,
                                       const std::vector<std::string>& sets, const std::filesystem::path& root) {
  scenarios::ScenarioRequest request;
  Json with = scenario;
  if (!calibration.empty()) with["calibration"] = calibration;
  request.text = with.dump();
  request.text_name = id;
  request.sets = sets;
  request.catalog_root = root;
  return request;
}

Result<double> step_time(const Json& scenario, const Json& calibration, const std::string& id,
                         const std::vector<std::string>& sets, const std::filesystem::path& root) {
  const auto loaded = scenarios::load_scenario(request_for(scenario, calibration, id, sets, root));
  if (!loaded) return loaded.errors();
  return scenarios::forecast_step_time(*loaded, true);
}

Result<scenarios::Forecast> whole_step(const Json& scenario, const Json& calibration, const std::string& id,
                                       const std::filesystem::path& root) {
  const auto loaded = scenarios::load_scenario(request_for(scenario, calibration, id, {}, root));
  if (!loaded) return loaded.errors();
  scenarios::ForecastOptions options;
  options.threads = 1;
  options.ignore_memory = true;
  options.representative = true;
  options.critical_path = false;
  return scenarios::forecast(*loaded, options);
}

// As validate does: where the row leaves recomputation open and would not fit without, the least that fits.
void settle_recompute(MappedRun& mapped, const std::string& id, const std::filesystem::path& root) {
  const std::string key = "recompute";
  const auto open = [&](const Alternative& a) { return a.field == key && a.sets.front().starts_with(key + "="); };
  if (std::none_of(mapped.alternatives.begin(), mapped.alternatives.end(), open)) return;
  auto now = whole_step(mapped.scenario, {}, id, root);
  for (const Alternative& a : mapped.alternatives) {
    if (!now || now->memory.fits) return;
    if (!open(a)) continue;
    Json other = mapped.scenario;
    other[key] = a.sets.front().substr(key.size() + 1);
    auto then = whole_step(other, {}, id, root);
    if (!then || then->memory.peak_bytes >= now->memory.peak_bytes) continue;
    now = std::move(then);
    mapped.scenario = std::move(other);
    mapped.assumed.push_back("it does not fit without recompute: " + a.sets.front());
  }
}

std::string first_words(const Errors& errors) {
  std::string text = errors.front().message;
  if (errors.size() > 1) text += fmt::format(" (and {} more)", errors.size() - 1);
  return text;
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

Observations observe_runs(const RunsFile& runs, const std::filesystem::path& root, const std::vector<std::string>& only,
                          const std::function<bool()>& cancelled) {
  Observations out;
  out.refused = runs.refused;
  const std::set<std::string> wanted(only.begin(), only.end());
  std::map<std::string, std::size_t> known;  // case -> index
  std::vector<std::vector<double>> times;    // by index
  for (const MeasuredRun& run : runs.runs) {
    if (cancelled && cancelled()) break;
    if (!wanted.empty() && !wanted.contains(run.id)) continue;
    auto mapped = map_run(run, root);
    if (!mapped) {
      out.refused.push_back({run.id, run.line, first_words(mapped.errors())});
      continue;
    }
    const std::string one_case = run.text("family") + '\n' + mapped->scenario.dump();
    if (const auto same = known.find(one_case); same != known.end()) {
      out.rows[same->second].ids.push_back(run.id);
      times[same->second].push_back(run.step_time_s());
      continue;
    }
    const auto loaded = scenarios::load_scenario(request_for(mapped->scenario, {}, run.id, {}, root));
    if (!loaded) {
      out.refused.push_back({run.id, run.line, first_words(loaded.errors())});
      continue;
    }
    if (std::string why = mixed_units(run, loaded->spec); !why.empty()) {
      out.refused.push_back({run.id, run.line, std::move(why)});
      continue;
    }
    settle_recompute(*mapped, run.id, root);
    Observation o;
    o.id = run.id;
    o.ids = {run.id};
    o.family = run.text("family");
    o.kind = loaded->spec.model.is_moe() ? "moe" : "dense";
    o.model = run.text("model");
    o.device = loaded->spec.cluster.device.name;
    o.software = loaded->spec.software.name;
    o.software_assumed = mapped->scenario["software"] == "generic" && run.text("software") != "generic";
    o.devices = loaded->spec.cluster.devices;
    o.scenario = std::move(mapped->scenario);
    o.alternatives = std::move(mapped->alternatives);
    o.assumed = std::move(mapped->assumed);
    o.forecast = [scenario = o.scenario, id = o.id, root](const Json& calibration,
                                                          const std::vector<std::string>& sets) {
      return step_time(scenario, calibration, id, sets, root);
    };
    o.account = [scenario = o.scenario, id = o.id, root](const Json& calibration) {
      return whole_step(scenario, calibration, id, root);
    };
    known.emplace(one_case, out.rows.size());
    out.rows.push_back(std::move(o));
    times.push_back({run.step_time_s()});
  }
  for (std::size_t i = 0; i < out.rows.size(); ++i) {
    const auto [low, high] = std::minmax_element(times[i].begin(), times[i].end());
    out.rows[i].spread = *high / *low - 1;
    out.rows[i].measured_s = middle(times[i]);
  }
  return out;
}

void weigh_families(std::vector<Observation>& rows, double most) {
  std::map<std::string, double> count;
  for (const Observation& o : rows) count[o.family] += 1;
  for (Observation& o : rows) o.weight = std::min(1.0, most / count[o.family]);
}

}  // namespace stepcast::validation
