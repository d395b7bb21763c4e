#include "scenarios/report/diagnosis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

// Where a rule speaks up. Large MoE runs reach 20 to 35 % MFU, dense ones 40 to 55 %.
constexpr double low_mfu = 0.30, high_mfu = 0.40;
constexpr double much_recompute = 1.20;  // HFU over MFU; full recompute is 1.33
constexpr double low_goodput = 0.90;
constexpr double much_exposed = 0.10;  // share of the step
constexpr double much_bubble = 0.10, much_host = 0.05;
constexpr double long_tail = 1.10;  // p95 over mean
constexpr double uneven_experts = 1.30;

double share_of(const Forecast& forecast, std::string_view category) {
  const auto found = forecast.breakdown.find(std::string(category));
  if (found == forecast.breakdown.end() || forecast.step_time.mean_s <= 0) return 0;
  return to_seconds(found->second.mean).value / forecast.step_time.mean_s;
}

void communication_hint(const Symptoms& s, std::vector<Hint>& hints) {
  struct Kind {
    double share;
    const char* name;
    const char* look_at;
  };
  const std::array<Kind, 5> kinds = {{
      {s.exposed_ep, "expert all-to-all",
       "expert load, placement of the EP group (inside a box or across), capacity padding, overlap"},
      {s.exposed_tp, "tensor parallelism", "a smaller tp, sequence parallelism, TP overlap"},
      {s.exposed_cp, "context parallelism", "a smaller cp, another kind (ring, all-gather, all-to-all)"},
      {s.exposed_pp, "pipeline messages", "overlap of p2p, fewer virtual stages, placement of neighbouring stages"},
      {s.exposed_dp, "gradients and parameters",
       "gradient and parameter overlap, bucket size, sharding, more microbatches"},
  }};
  const auto* most =
      std::max_element(kinds.begin(), kinds.end(), [](const Kind& a, const Kind& b) { return a.share < b.share; });
  if (most->share < much_exposed) return;
  hints.push_back({fmt::format("MFU {}, most exposed time in {}: {} of the step", percent_text(s.mfu), most->name,
                               percent_text(most->share)),
                   most->look_at});
}

}  // namespace

std::vector<Hint> diagnose(const Symptoms& s) {
  std::vector<Hint> hints;
  if (s.mfu > 0 && s.mfu < low_mfu && s.hfu >= much_recompute * s.mfu) {
    hints.push_back({fmt::format("MFU {} is low while HFU is {}", percent_text(s.mfu), percent_text(s.hfu)),
                     "recompute or padding: the devices compute what the model does not need"});
  }
  if (s.mfu >= high_mfu && s.goodput >= 0 && s.goodput < low_goodput) {
    hints.push_back({fmt::format("MFU {} is high while goodput is {}", percent_text(s.mfu), percent_text(s.goodput)),
                     "failures, checkpoints, data: time lost outside of the steps"});
  }
  if (s.mfu < high_mfu) communication_hint(s, hints);
  if (s.p95_over_mean >= long_tail) {
    hints.push_back(
        {fmt::format("p95 of the step time is {:.2f} times the mean", s.p95_over_mean), "hot experts, a slow rank"});
  }
  if (s.stages >= 4 && s.microbatches == 1) {
    hints.push_back({fmt::format("1 microbatch on {} stages: bubble {} of the step", s.stages, percent_text(s.bubble)),
                     "bubble: more microbatches a pipeline, fewer stages"});
  } else if (s.bubble >= much_bubble) {
    hints.push_back(
        {fmt::format("bubble {} of the step with {} microbatches on {} stages", percent_text(s.bubble), s.microbatches,
                     s.stages),
         "bubble: more microbatches a pipeline, interleaving or a zero-bubble schedule, an even split of stages"});
  }
  if (s.host >= much_host) {
    hints.push_back({fmt::format("the host holds the devices up for {} of the step", percent_text(s.host)),
                     "CUDA graphs, host binding, fewer and larger kernels, a dispatcher without synchronisation"});
  }
  if (s.imbalance >= uneven_experts) {
    hints.push_back({fmt::format("the busiest rank has {:.2f} times the mean expert rows", s.imbalance),
                     "balancing loss or bias of the router, expert placement, a capacity factor"});
  }
  return hints;
}

Symptoms symptoms_of(const Forecast& forecast) {
  const auto& spec = forecast.scenario.spec;
  Symptoms s;
  s.mfu = forecast.utilisation.mfu;
  s.hfu = forecast.utilisation.hfu;
  s.exposed_ep = share_of(forecast, "exposed_ep") + share_of(forecast, "wait_ep");
  s.exposed_tp = share_of(forecast, "exposed_tp") + share_of(forecast, "wait_tp");
  s.exposed_cp = share_of(forecast, "exposed_cp") + share_of(forecast, "wait_cp");
  s.exposed_pp = share_of(forecast, "exposed_pp");
  s.exposed_dp = share_of(forecast, "exposed_dp") + share_of(forecast, "wait_dp");
  s.bubble = forecast.bubble_fraction;
  s.host = share_of(forecast, "host");
  s.stages = spec.degrees.pp;
  const int dp = spec.cluster.devices / std::max(1, spec.degrees.tp * spec.degrees.cp * spec.degrees.pp);
  s.microbatches = spec.workload.global_batch / std::max(1, dp * spec.workload.micro_batch);
  if (forecast.step_time.p95_s >= 0 && forecast.step_time.mean_s > 0) {
    s.p95_over_mean = forecast.step_time.p95_s / forecast.step_time.mean_s;
  }
  if (forecast.moe) s.imbalance = forecast.expert_load.imbalance;
  return s;
}

}  // namespace stepcast::scenarios
