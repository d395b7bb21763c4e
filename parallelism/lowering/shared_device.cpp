#include "parallelism/lowering/shared_device.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "topology/collective_fits.h"

namespace stepcast::parallelism {
namespace {

struct Factors {
  double ep = 1, dp = 1;
  int exchange_sms = 0;
};

// Of kernels beside an exchange: what its SMs leave them.
Factors factors_of(const StepSpec& spec) {
  Factors f{spec.software.kernel_slowdown_ep, spec.software.kernel_slowdown_dp, 0};
  if (!spec.model.is_moe()) return f;
  const int sms = topology::dispatch_sms(spec.cluster.device, spec.runtime.dispatcher, stated_sms(spec));
  f.exchange_sms = sms;
  const int left = std::max(1, spec.cluster.device.sms - sms);
  if (spec.cluster.device.sms > 0) f.ep *= static_cast<double>(spec.cluster.device.sms) / left;
  return f;
}

// Walks a list as it runs at mean rows: exchanges one after another on their stream, kernels beside them.
class Walk {
 public:
  Walk(const sim::Cohort& cohort, const Factors& factors, double rows)
      : cohort_(cohort), factors_(factors), rows_(rows) {}

  // The factor on each instruction's time; empty where all are 1.
  std::vector<double> run(const std::vector<sim::Instruction>& list) {
    std::vector<double> slowed;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const sim::Instruction& in = list[i];
      if (in.op == sim::Opcode::collective && in.stream == sim::Stream::ep) {
        exchanges_.push_back({in.record_slot, ticks(in)});
      } else if (in.op == sim::Opcode::collective && in.stream == sim::Stream::dp) {
        reduces_ = true;
      } else if (in.op == sim::Opcode::compute) {
        await(in);
        const double factor = kernel(in);
        if (factor <= 1) continue;
        if (slowed.empty()) slowed.assign(list.size(), 1);
        slowed[i] = factor;
      }
    }
    return slowed;
  }

 private:
  struct Exchange {
    std::uint16_t slot;
    double left;  // ticks
  };

  [[nodiscard]] double ticks(const sim::Instruction& in) const {
    const sim::Cost& cost = cohort_.costs[in.cost];
    return std::max(cost.floor_ticks, cost.base_ticks + (in.load == sim::none16 ? 0 : cost.per_row_ticks * rows_));
  }

  void await(const sim::Instruction& in) {
    if ((in.wait_streams & sim::bit(sim::Stream::ep)) != 0) exchanges_.clear();
    if ((in.wait_streams & sim::bit(sim::Stream::dp)) != 0) reduces_ = false;
    const auto slot = [&](const Exchange& e) { return in.wait_slot != sim::none16 && e.slot == in.wait_slot; };
    const auto waited = std::find_if(exchanges_.begin(), exchanges_.end(), slot);
    if (waited != exchanges_.end()) exchanges_.erase(exchanges_.begin(), waited + 1);
  }

  double kernel(const sim::Instruction& in) {
    const double alone = ticks(in);
    double work = alone;  // left, at full rate
    double taken = 0;
    while (work > 0 && !exchanges_.empty()) {
      const double beside = std::min(exchanges_.front().left, work * factors_.ep);
      taken += beside;
      work -= beside / factors_.ep;
      exchanges_.front().left -= beside;
      if (exchanges_.front().left > 0) break;
      exchanges_.pop_front();
    }
    taken += std::max(0.0, work);
    return std::max(alone > 0 ? taken / alone : 1.0, reduces_ ? factors_.dp : 1.0);
  }

  const sim::Cohort& cohort_;
  const Factors& factors_;
  double rows_;
  std::deque<Exchange> exchanges_;  // that nobody has waited for, in the order of their stream
  bool reduces_ = false;
};

double mean_rows(const StepSpec& spec, const Layout& layout, double routed_tokens) {
  return spec.model.is_moe() ? routed_tokens * spec.model.moe.top_k * layout.etp : 0;
}

}  // namespace

std::vector<double> slowed_beside_transfers(const StepSpec& spec, const Layout& layout, double routed_tokens,
                                            const sim::Cohort& cohort, const std::vector<sim::Instruction>& list) {
  const Factors factors = factors_of(spec);
  if (factors.ep == 1 && factors.dp == 1) return {};
  return Walk(cohort, factors, mean_rows(spec, layout, routed_tokens)).run(list);
}

void slow_kernels_beside_transfers(Lowering& low) {
  const StepSpec& spec = low.spec;
  const Layout& layout = low.step.layout;
  const Factors factors = factors_of(spec);
  const double routed = low.documents.tokens / layout.cp / layout.tp;
  bool any = false;
  for (sim::Cohort& cohort : low.step.program.cohorts) {
    for (const sim::Body& body : cohort.bodies) {
      const std::vector<double> slowed = slowed_beside_transfers(spec, layout, routed, cohort, body.instructions);
      any = any || !slowed.empty();
      for (std::size_t i = 0; i < slowed.size(); ++i) {
        sim::Cost& cost = cohort.costs[body.instructions[i].cost];
        cost.base_ticks *= slowed[i];
        cost.per_row_ticks *= slowed[i];
        cost.floor_ticks *= slowed[i];
      }
    }
  }
  if (!any) return;
  low.step.assumptions.push_back(fmt::format(
      "kernels of every kind beside an expert exchange take {:.3g} times their time while it lasts (it holds "
      "{} SMs, NCCL taken as DeepEP), beside a reduction {:.3g} times",
      factors.ep, factors.exchange_sms, factors.dp));
}

}  // namespace stepcast::parallelism
