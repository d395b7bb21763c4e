#include "scenarios/samples.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>

namespace stepcast::scenarios {
namespace {

using parallelism::LoweredStep;
using parallelism::StepSpec;

struct One {
  double seconds = -1;
  std::int64_t rank_ops = 0;
  sim::FlowStats flows;
  Errors errors;
};

One run_one(const StepSpec& spec, const LoweredStep& lowered, const Simulated& simulated, std::uint64_t sample,
            int threads) {
  const SampleConditions met(spec, lowered, simulated.loads, sample);
  const sim::Program& program = *simulated.program;
  sim::RunOptions run;
  run.first_step = sample;
  run.steps = 1 + warm_steps;
  run.threads = threads;
  One one;
  const auto take = [&one](const sim::RunResult& result) {
    one.seconds = to_seconds(result.last_step()).value;
    one.rank_ops = result.rank_ops;
  };
  if (sim::shares_links(program)) {
    const auto result = sim::run_contended(program, met.conditions(), run);
    if (!result) {
      one.errors = result.errors();
    } else {
      take(result->result);
      one.flows = result->flows;
    }
    return one;
  }
  const auto result = sim::run_lockstep(program, met.conditions(), run);
  if (!result) {
    one.errors = result.errors();
  } else {
    take(*result);
  }
  return one;
}

}  // namespace

void choose_program(const StepSpec& spec, const LoweredStep& lowered, bool representative, Simulated& out) {
  out.program = &lowered.program;
  out.loads = lowered.routing.get();
  const bool alike = spec.noise.kernel_sigma == 0 && parallelism::describe_tails(spec.noise).empty();
  const bool even = !lowered.routing || spec.routing.kind == parallelism::SkewKind::balanced;
  if (!representative || !alike || !even || sim::shares_links(lowered.program)) return;
  auto one = sim::representative(lowered.program);
  if (!one) return;
  if (lowered.routing) {
    out.one_loads = sim::representative_loads(lowered.program, *lowered.routing);
    if (!out.one_loads) return;
    out.loads = &*out.one_loads;
  }
  out.one = std::move(*one);
  out.program = &out.one;
  out.representative = true;
}

SampleConditions::SampleConditions(const StepSpec& spec, const LoweredStep& lowered, const sim::LoadSource* loads,
                                   std::uint64_t sample)
    : sample_(sample), tails_(parallelism::draw_tails(spec, lowered.placement, sample)) {
  conditions_ = parallelism::conditions_of(spec, tails_, loads, reported_step());
}

Status SampleConditions::find_delays(const sim::Program& program) {
  if (!sim::shares_links(program)) return Unit{};
  sim::RunOptions run;
  run.first_step = sample_;
  run.steps = 1 + warm_steps;
  auto result = sim::run_contended(program, conditions_, run);
  if (!result) return result.errors();
  contended_ = std::move(*result);
  conditions_.delays = &contended_->delays;
  return Unit{};
}

Result<Samples> run_samples(const StepSpec& spec, const LoweredStep& lowered, const Simulated& simulated,
                            const SampleOptions& options) {
  const int n = simulated.representative ? 1 : spec.workload.steps;
  std::vector<One> ran(static_cast<std::size_t>(n));
  std::atomic<int> done{0};
  std::mutex progress_lock;
  const int within = std::max(1, options.threads / n);
  const auto one = [&](int k) {
    if (options.cancelled && options.cancelled()) return;
    ran[static_cast<std::size_t>(k)] = run_one(spec, lowered, simulated, static_cast<std::uint64_t>(k), within);
    const int count = ++done;
    if (options.progress) {
      const std::scoped_lock lock(progress_lock);
      options.progress(count, n);
    }
  };
  if (options.threads <= 1) {
    // Without a limit on threads: it would hold for the whole process, and so for other forecasts beside this one.
    for (int k = 0; k < n; ++k) one(k);
  } else {
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                                      static_cast<std::size_t>(std::max(1, options.threads)));
    tbb::parallel_for(0, n, one, tbb::simple_partitioner());
  }
  Samples out;
  for (const One& r : ran) {
    if (!r.errors.empty()) return r.errors;  // samples fail alike: the first tells it
    out.seconds.push_back(r.seconds);
    out.rank_ops += r.rank_ops;
    out.flows.add(r.flows);
  }
  return out;
}

}  // namespace stepcast::scenarios
