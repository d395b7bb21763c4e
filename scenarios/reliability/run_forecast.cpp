#include "scenarios/reliability/run_forecast.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "scenarios/reliability/interval.h"
#include "scenarios/report/text_table.h"
#include "sim/base/stats.h"

namespace stepcast::scenarios {
namespace {

constexpr double day = 86400;
constexpr double most_stretch = 1000;     // wall over work
constexpr double most_failures = 3e8;     // of all sampled runs together
constexpr double interval_agrees = 0.02;  // of the sampled optimum
constexpr double penalty_matters = 0.001;
constexpr double few_failures = 10;

Spread spread(const std::vector<double>& values) {
  const auto ascending = sorted(values);
  return {mean(values), quantile(ascending, 0.1), quantile(ascending, 0.5), quantile(ascending, 0.9)};
}

// A run that mostly fails before its next checkpoint never ends; one of endless failures takes as long to simulate.
Status check_feasible(const RunPlan& plan, int replicas) {
  const double mtbf = plan.mtbf_s();
  if (!std::isfinite(mtbf)) return Unit{};
  const double stretch = expected_stretch(plan.interval_s, plan.blocking_s, plan.detect_s + plan.restart_s, mtbf);
  if (!(stretch < most_stretch) && std::isfinite(plan.work_s)) {
    return make_error(ErrorCode::infeasible,
                      fmt::format("the run gets nowhere: a failure every {} on average, against checkpoints every {}, "
                                  "{} each, and {} to come back",
                                  time_text(mtbf), time_text(plan.interval_s), time_text(plan.blocking_s),
                                  time_text(plan.detect_s + plan.restart_s)),
                      "reliability");
  }
  const double wall = std::isfinite(plan.work_s) ? plan.work_s * stretch : plan.duration_s;
  if (const double failures = wall / mtbf * replicas; failures > most_failures) {
    return make_error(ErrorCode::infeasible,
                      fmt::format("{:.3g} failures a run, {} runs: more than can be simulated; lower the replicas, the "
                                  "tokens, or check the MTBF",
                                  wall / mtbf, replicas),
                      "reliability");
  }
  return Unit{};
}

const char* reason(const RunPlan& plan, const SampledInterval& sampled) {
  if (sampled.at_the_shortest) return "the background write leaves no shorter interval";
  if (plan.rollback > 0) return "the rollback goes further than the last checkpoint";
  if (plan.blocking_s > plan.mtbf_s() / 2) return "a checkpoint takes as long as the time between failures";
  if (plan.rule == IntervalRule::young) return "Young's rule is of first order in cost over MTBF";
  return "the rule's assumptions do not hold";
}

void settle_interval(RunForecast& run, bool check) {
  RunPlan& plan = run.plan;
  run.mtbf_s = plan.scripted ? never : plan.mtbf_s();
  if (!std::isfinite(run.mtbf_s)) return;
  run.young_s = young_interval(plan.blocking_s, run.mtbf_s);
  run.daly_s = daly_interval(plan.blocking_s, run.mtbf_s);
  if (!check && plan.rule != IntervalRule::sampled) return;
  SampledInterval sampled = sampled_interval(plan, plan.interval_s);
  run.sampled_s = sampled.optimum_s;
  if (plan.rule == IntervalRule::sampled) {
    plan.interval_s = std::max(sampled.optimum_s, plan.step_s);
    return;
  }
  run.penalty = std::max(0.0, sampled.stretch_at_rule / sampled.stretch - 1);
  const double off = plan.interval_s / sampled.optimum_s - 1;
  if (std::abs(off) <= interval_agrees) return;
  if (plan.rule == IntervalRule::given) {
    if (run.penalty < penalty_matters) return;
    run.warnings.push_back(
        fmt::format("the checkpoint interval of {} is {:+.0f} % off the sampled optimum of {}: {:.2f} "
                    "% more wall time",
                    time_text(plan.interval_s), 100 * off, time_text(sampled.optimum_s), 100 * run.penalty));
    return;
  }
  run.warnings.push_back(
      fmt::format("{}'s checkpoint interval of {} is {:+.1f} % off the sampled optimum of {} ({:.2f} "
                  "% more wall time): {}",
                  plan.rule == IntervalRule::young ? "Young" : "Daly", time_text(plan.interval_s), 100 * off,
                  time_text(sampled.optimum_s), 100 * run.penalty, reason(plan, sampled)));
}

void account_money(RunForecast& run, double wall_s, double busy_s) {
  const RunPlan& plan = run.plan;
  const double spares = std::max(0, plan.spare_nodes) * static_cast<double>(plan.devices_per_node);
  run.device_hours = (plan.devices + spares) * wall_s / 3600;
  if (plan.busy_w > 0) {
    // Spares idle; the job's devices idle while it is down.
    const double watt_s =
        plan.devices * (busy_s * plan.power_w(plan.utilisation) + (wall_s - busy_s) * plan.power_w(0)) +
        spares * wall_s * plan.power_w(0);
    run.energy_kwh = watt_s / 3.6e6;
  }
  if (plan.price_per_device_hour < 0 && plan.price_per_kwh < 0) return;
  run.cost = std::max(0.0, plan.price_per_device_hour) * run.device_hours;
  if (plan.price_per_kwh > 0 && run.energy_kwh >= 0) run.cost += plan.price_per_kwh * run.energy_kwh;
}

}  // namespace

double RunForecast::lost_by_cause_s(Cause cause) const {
  double sum = 0;
  for (double seconds : lost_s[static_cast<std::size_t>(cause)]) sum += seconds;
  return sum;
}

double RunForecast::lost_by_part_s(Part part) const {
  double sum = 0;
  for (const auto& by_part : lost_s) sum += by_part[static_cast<std::size_t>(part)];
  return sum;
}

Result<RunForecast> forecast_run(RunPlan plan, const RunOptions& options) {
  RunForecast run;
  run.plan = std::move(plan);
  run.replicas = run.plan.scripted ? 1 : options.replicas;
  run.assumptions = run.plan.assumptions;
  run.warnings = run.plan.warnings;
  if (auto status = check_feasible(run.plan, run.replicas); !status) return status.errors();
  settle_interval(run, options.check_interval);

  std::vector<RunOutcome> outcomes(static_cast<std::size_t>(run.replicas));
  tbb::parallel_for(0, run.replicas, [&](int r) {
    outcomes[static_cast<std::size_t>(r)] = simulate_run(run.plan, static_cast<std::uint64_t>(r));
  });
  std::vector<double> days, goodput, tokens, rate, interruptions;
  double wall = 0, busy = 0;
  const double share = 1.0 / run.replicas;
  for (const RunOutcome& o : outcomes) {
    if (!o.finished) {
      return make_error(ErrorCode::infeasible, "the run gets nowhere: two million failures did not bring it to its end",
                        "reliability");
    }
    const double done = o.productive_s / run.plan.step_s * run.plan.tokens_per_step;
    days.push_back(o.wall_s / day);
    goodput.push_back(o.goodput());
    tokens.push_back(done);
    rate.push_back(done / (o.wall_s / day));
    double stops = 0;
    for (std::size_t c = 0; c < o.events.size(); ++c) {
      run.events[c] += share * static_cast<double>(o.events[c]);
      if (c != static_cast<std::size_t>(Cause::checkpoint)) stops += static_cast<double>(o.events[c]);
      for (std::size_t p = 0; p < o.lost[c].size(); ++p) run.lost_s[c][p] += share * o.lost[c][p];
    }
    interruptions.push_back(stops);
    wall += share * o.wall_s;
    double rework = 0;
    for (const auto& parts : o.lost) rework += parts[static_cast<std::size_t>(Part::rework)];
    busy += share * (o.productive_s + rework);
  }
  run.days = spread(days);
  run.goodput = spread(goodput);
  run.tokens = spread(tokens);
  run.tokens_per_day = spread(rate);
  run.interruptions = spread(interruptions);
  if (!run.plan.scripted && std::isfinite(run.mtbf_s) && wall / run.mtbf_s < few_failures) {
    run.warnings.push_back(
        fmt::format("{:.1f} failures a run on average: its length is mostly luck", wall / run.mtbf_s));
  }
  account_money(run, wall, busy);
  return run;
}

}  // namespace stepcast::scenarios
