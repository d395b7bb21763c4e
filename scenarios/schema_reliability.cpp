// The block reliability: what fails, what it costs, until when to run, and prices.
#include <fmt/format.h>

#include "scenarios/draft.h"
#include "scenarios/reliability/settings_of.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr double longest_s = 1e9;
constexpr std::size_t most_failures = 1'000'000;

// Numbers and where they belong, with their allowed range.
struct NumberKey {
  const char* key;
  std::optional<double> Reliability::*member;
  double low, high;
};
const NumberKey number_keys[] = {
    {"device_mtbf_hours", &Reliability::device_mtbf_hours, 1, 1e9},
    {"node_mtbf_hours", &Reliability::node_mtbf_hours, 1, 1e9},
    {"link_mtbf_hours", &Reliability::link_mtbf_hours, 1, 1e9},
    {"job_mtbf_hours", &Reliability::job_mtbf_hours, 0.001, 1e9},
    {"planned_interval_hours", &Reliability::planned_interval_hours, 0.1, 1e6},
    {"planned_stop_s", &Reliability::planned_stop_s, 0, longest_s},
    {"checkpoint_gb", &Reliability::checkpoint_gb, 0, 1e9},
    {"checkpoint_gb_per_s", &Reliability::checkpoint_gb_per_s, 0.001, 1e6},
    {"checkpoint_write_s", &Reliability::checkpoint_write_s, 0, 1e6},
    {"checkpoint_blocking_s", &Reliability::checkpoint_blocking_s, 0, 1e6},
    {"detect_s", &Reliability::detect_s, 0, 1e6},
    {"restart_s", &Reliability::restart_s, 0, 1e6},
    {"load_s", &Reliability::load_s, 0, 1e6},
    {"repair_hours", &Reliability::repair_hours, 0, 1e5},
    {"total_tokens", &Reliability::total_tokens, 1, 1e18},
    {"duration_hours", &Reliability::duration_hours, 1e-3, 1e6},
    {"price_per_device_hour", &Reliability::price_per_device_hour, 0, 1e6},
    {"price_per_kwh", &Reliability::price_per_kwh, 0, 1e4},
    {"idle_power_w", &Reliability::idle_power_w, 0, 1e5},
    {"busy_power_w", &Reliability::busy_power_w, 0, 1e5},
    {"host_power_w", &Reliability::host_power_w, 0, 1e5},
    {"pue", &Reliability::pue, 1, 10},
};

void read_interval(JsonFields& fields, Reliability& r, Json& kept) {
  constexpr const char* key = "checkpoint_interval_s";
  static const std::vector<std::string> rules = {"young", "daly", "sampled"};
  const Json* value = fields.find(key);
  if (value == nullptr) return;
  if (value->is_string()) {
    if (const auto i = fields.choice(key, rules)) kept[key] = r.interval_rule = rules[*i];
  } else if (const auto number = fields.number(key, 1, 1e8)) {
    kept[key] = *number;
    r.checkpoint_interval_s = *number;
  }
}

void read_failures(JsonFields& fields, Reliability& r, Json& kept) {
  constexpr const char* key = "failures_at_s";
  bool sound = true;
  std::vector<double> times;
  const bool there = fields.list(key, [&](const Json& element, const std::string& pointer) {
    const double at = element.is_number() ? element.get<double>() : -1;
    const double before = times.empty() ? 0 : times.back();
    if (at >= before && at <= longest_s && times.size() < most_failures) {
      times.push_back(at);
      return;
    }
    if (sound) {
      fields.errors().push_back(make_error(
          ErrorCode::invalid,
          fmt::format("found {}; failures are seconds since the run's begin, ascending, at most {:g}, {} of them",
                      shown(element), longest_s, most_failures),
          fields.document().where(pointer)));
    }
    sound = false;
  });
  if (!there) return;
  kept[key] = times;
  r.failures_at_s = std::move(times);
}

void check_agreement(JsonFields& fields, const Reliability& r) {
  const bool rates = r.device_mtbf_hours || r.node_mtbf_hours || r.link_mtbf_hours || r.job_mtbf_hours;
  if (r.failures_at_s && rates) {
    fields.fail("failures_at_s", "failures come from a log or from mean times between failures; give one of them");
  }
  if (r.total_tokens && r.duration_hours) {
    fields.fail("duration_hours", "the run ends with total_tokens or with duration_hours; give one of them");
  }
  if (r.planned_stop_s && !r.planned_interval_hours) {
    fields.fail("planned_stop_s", "needs planned_interval_hours beside it");
  }
  if (r.repair_hours && !r.spare_nodes) fields.fail("repair_hours", "needs spare_nodes beside it");
  if (r.checkpoint_blocking_s && r.asynchronous_checkpoint && !*r.asynchronous_checkpoint) {
    fields.fail("checkpoint_blocking_s", "belongs to an asynchronous checkpoint; a synchronous one blocks throughout");
  }
  if (r.idle_power_w && r.busy_power_w && *r.idle_power_w > *r.busy_power_w) {
    fields.fail("idle_power_w",
                fmt::format("found {:g}, at most busy_power_w ({:g}) is allowed", *r.idle_power_w, *r.busy_power_w));
  }
}

}  // namespace

void read_reliability(Draft& draft) {
  JsonFields fields = draft.block("reliability");
  Json& kept = draft.reliability;
  Reliability r;
  for (const NumberKey& n : number_keys) {
    if (const auto v = fields.number(n.key, n.low, n.high)) {
      kept[n.key] = *v;
      r.*n.member = *v;
    }
  }
  read_interval(fields, r, kept);
  read_failures(fields, r, kept);
  if (const auto spares = fields.integer("spare_nodes", 0, 1'000'000)) {
    kept["spare_nodes"] = *spares;
    r.spare_nodes = static_cast<int>(*spares);
  }
  if (const auto back = fields.integer("rollback_checkpoints", 0, 1000)) {
    kept["rollback_checkpoints"] = *back;
    r.rollback_checkpoints = static_cast<int>(*back);
  }
  if (const auto on = fields.boolean("asynchronous_checkpoint")) {
    kept["asynchronous_checkpoint"] = *on;
    r.asynchronous_checkpoint = *on;
  }
  if (const auto currency = fields.text("currency")) kept["currency"] = r.currency = *currency;
  fields.refuse_unknown();
  check_agreement(fields, r);
}

Reliability reliability_of(const Json& resolved) {
  Reliability r;
  if (!resolved.contains("reliability")) return r;
  const Json& block = resolved["reliability"];
  for (const NumberKey& n : number_keys) {
    if (block.contains(n.key)) r.*n.member = block[n.key].get<double>();
  }
  if (block.contains("checkpoint_interval_s")) {
    const Json& interval = block["checkpoint_interval_s"];
    if (interval.is_string()) {
      r.interval_rule = interval.get<std::string>();
    } else {
      r.checkpoint_interval_s = interval.get<double>();
    }
  }
  if (block.contains("failures_at_s")) r.failures_at_s = block["failures_at_s"].get<std::vector<double>>();
  if (block.contains("spare_nodes")) r.spare_nodes = block["spare_nodes"].get<int>();
  if (block.contains("rollback_checkpoints")) r.rollback_checkpoints = block["rollback_checkpoints"].get<int>();
  if (block.contains("asynchronous_checkpoint")) {
    r.asynchronous_checkpoint = block["asynchronous_checkpoint"].get<bool>();
  }
  if (block.contains("currency")) r.currency = block["currency"].get<std::string>();
  return r;
}

}  // namespace stepcast::scenarios
