#include "scenarios/headroom.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <oneapi/tbb/info.h>

#include "scenarios/report/text_table.h"
#include "scenarios/samples.h"

namespace stepcast::scenarios {
namespace {

using parallelism::LoweredStep;
using parallelism::StepSpec;
using sim::Opcode;
using sim::Stream;

// Enough that no kernel is bound by memory: floors and launch costs stay.
constexpr double endless_bandwidth = 1e6;

bool transfers(const sim::Instruction& in) {
  return in.op == Opcode::collective || in.op == Opcode::send || in.op == Opcode::join;
}

// Transfers that `is` picks take no time; whoever takes part still waits for the others.
template <class Pick>
bool free_transfers(sim::Program& program, Pick is) {
  bool any = false;
  for (sim::Cohort& cohort : program.cohorts) {
    for (sim::Body& body : cohort.bodies) {
      for (sim::Instruction& in : body.instructions) {
        if (!transfers(in) || !is(cohort, in)) continue;
        sim::Cost& cost = cohort.costs[in.cost];
        any = any || cost.base_ticks + cost.per_row_ticks + cost.floor_ticks > 0;
        cost = {0, 0, 0, cost.noise};
        in.flags = static_cast<std::uint8_t>(in.flags & ~sim::flag_shared);
      }
    }
  }
  return any;
}

bool free_stream(sim::Program& program, Stream stream) {
  return free_transfers(program,
                        [stream](const sim::Cohort&, const sim::Instruction& in) { return in.stream == stream; });
}

// Nobody waits for a pipeline neighbour: messages are there when they are wanted.
bool no_pipeline(sim::Program& program) {
  bool any = false;
  for (sim::Cohort& cohort : program.cohorts) {
    sim::Work none;
    none.name = "no message";
    cohort.works.push_back(none);
    cohort.costs.push_back({});
    if (!cohort.uses.empty()) cohort.uses.emplace_back();
    for (sim::Body& body : cohort.bodies) {
      for (sim::Instruction& in : body.instructions) {
        if (in.op != Opcode::send && in.op != Opcode::receive) continue;
        any = true;
        in.op = Opcode::compute;
        in.flags = static_cast<std::uint8_t>(in.flags & ~sim::flag_shared);
        in.target = sim::none16;
        in.cost = static_cast<std::uint16_t>(cohort.costs.size() - 1);
        in.work = static_cast<std::uint16_t>(cohort.works.size() - 1);
      }
    }
  }
  program.channels.clear();
  return any;
}

bool no_host(sim::Program& program) {
  bool any = false;
  for (sim::Cohort& cohort : program.cohorts) {
    any = any || cohort.launch_ticks + cohort.sync_ticks + cohort.step_host_ticks > 0;
    cohort.launch_ticks = cohort.sync_ticks = cohort.step_host_ticks = 0;
  }
  return any;
}

bool balance(StepSpec& spec) {
  const bool any = spec.model.is_moe() && spec.routing.kind != parallelism::SkewKind::balanced;
  spec.routing.kind = parallelism::SkewKind::balanced;
  return any;
}

bool no_jitter(StepSpec& spec) {
  const bool any = spec.noise.kernel_sigma > 0;
  spec.noise.kernel_sigma = 0;
  return any;
}

bool no_stragglers(StepSpec& spec) {
  const double kernel = spec.noise.kernel_sigma;
  const bool any = !parallelism::describe_tails(spec.noise).empty();
  spec.noise = {};
  spec.noise.kernel_sigma = kernel;
  return any;
}

bool no_recompute(StepSpec& spec) {
  const bool any = spec.recompute.mode != parallelism::RecomputeMode::none;
  spec.recompute = {};
  return any;
}

bool endless_memory_bandwidth(StepSpec& spec) {
  auto& device = spec.cluster.device;
  device.hbm_bandwidth = device.hbm_bandwidth * endless_bandwidth;
  return true;
}

bool twice_the_network(StepSpec& spec) {
  spec.cluster.nic_bandwidth = spec.cluster.nic_bandwidth * 2.0;
  return spec.cluster.domains() > 1;
}

bool no_contention(StepSpec& spec) {
  const bool any = spec.fabric.contention;
  spec.fabric = {};
  return any;
}

// An ideal changes the specification before lowering, or the program after it; false: nothing to change.
struct Ideal {
  const char* name;
  const char* meaning;
  bool (*of_spec)(StepSpec&);
  bool (*of_program)(sim::Program&);
};

constexpr Ideal ideals[] = {
    {"balanced_routing", "every expert gets equally many rows", balance, nullptr},
    {"no_jitter", "kernels take their mean time", no_jitter, nullptr},
    {"no_stragglers", "equal devices and links, no epochs, no stalls", no_stragglers, nullptr},
    {"free_ep", "expert dispatch and combine take no time", nullptr,
     [](sim::Program& p) { return free_stream(p, Stream::ep); }},
    {"free_tp", "tensor-parallel collectives take no time", nullptr,
     [](sim::Program& p) { return free_stream(p, Stream::tp); }},
    {"free_cp", "context-parallel transfers take no time", nullptr,
     [](sim::Program& p) { return free_stream(p, Stream::cp); }},
    {"free_dp", "gradient reductions and parameter gathers take no time", nullptr,
     [](sim::Program& p) { return free_stream(p, Stream::dp); }},
    {"free_pp", "pipeline messages take no time", nullptr,
     [](sim::Program& p) { return free_stream(p, Stream::pp_send); }},
    {"free_communication", "no transfer takes time", nullptr,
     [](sim::Program& p) {
       return free_transfers(p, [](const sim::Cohort&, const sim::Instruction&) { return true; });
     }},
    {"no_bubble", "no stage waits for another's messages: the busiest stage alone sets the step", nullptr, no_pipeline},
    {"no_host", "launches, synchronisations and the host's work once a step take no time", nullptr, no_host},
    {"no_recompute", "nothing is computed twice (memory not checked)", no_recompute, nullptr},
    {"endless_memory_bandwidth", "no kernel is bound by HBM", endless_memory_bandwidth, nullptr},
    {"twice_the_network", "NICs of twice the rate", twice_the_network, nullptr},
    {"no_contention", "transfers have links to themselves", no_contention, nullptr},
};

struct Variant {
  double seconds = 0;
  bool applies = true, complete = true;
};

Result<Variant> simulate(const StepSpec& spec, bool (*change)(sim::Program&), const SampleOptions& options) {
  auto lowered = parallelism::lower(spec);
  if (!lowered) return lowered.errors();
  Variant variant;
  if (change != nullptr && !change(lowered->program)) {
    variant.applies = false;
    return variant;
  }
  Simulated simulated;
  choose_program(spec, *lowered, false, simulated);
  const auto samples = run_samples(spec, *lowered, simulated, options);
  if (!samples) return samples.errors();
  variant.complete = std::none_of(samples->seconds.begin(), samples->seconds.end(), [](double s) { return s < 0; });
  variant.seconds = std::accumulate(samples->seconds.begin(), samples->seconds.end(), 0.0) /
                    static_cast<double>(samples->seconds.size());
  return variant;
}

}  // namespace

Result<Headroom> headroom(const Scenario& scenario, const ForecastOptions& options) {
  SampleOptions run;
  run.threads = options.threads > 0 ? options.threads : tbb::info::default_concurrency();
  run.cancelled = options.cancelled;
  const int total = 1 + static_cast<int>(std::size(ideals));
  int done = 0;
  const auto step = [&] {
    if (options.progress) options.progress(++done, total);
  };
  const auto base = simulate(scenario.spec, nullptr, run);
  if (!base) return base.errors();
  if (!base->complete) {
    return make_error(ErrorCode::infeasible, "interrupted before the scenario itself was simulated");
  }
  step();
  Headroom result;
  result.name = scenario.name;
  result.step_time_s = base->seconds;
  result.samples = scenario.spec.workload.steps;
  result.assumptions = scenario.assumptions;
  for (const Ideal& ideal : ideals) {
    StepSpec spec = scenario.spec;
    if (ideal.of_spec != nullptr && !ideal.of_spec(spec)) {
      result.left_out.push_back(fmt::format("{}: the scenario has none of it", ideal.name));
      step();
      continue;
    }
    const auto variant = simulate(spec, ideal.of_program, run);
    step();
    if (!variant) {
      result.left_out.push_back(fmt::format("{}: {}", ideal.name, variant.errors().front().message));
    } else if (!variant->applies) {
      result.left_out.push_back(fmt::format("{}: the scenario has none of it", ideal.name));
    } else if (!variant->complete) {
      result.interrupted = true;
      break;
    } else {
      result.rows.push_back({ideal.name, ideal.meaning, variant->seconds, base->seconds - variant->seconds,
                             variant->seconds > 0 ? base->seconds / variant->seconds : 1});
    }
  }
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const HeadroomRow& a, const HeadroomRow& b) { return a.saved_s > b.saved_s; });
  return result;
}

nlohmann::ordered_json to_json(const Headroom& headroom) {
  nlohmann::ordered_json json = {{"schema", "stepcast.headroom/1"},
                                 {"name", headroom.name},
                                 {"step_time_s", headroom.step_time_s},
                                 {"samples", headroom.samples},
                                 {"ideals", nlohmann::ordered_json::array()}};
  for (const HeadroomRow& row : headroom.rows) {
    json["ideals"].push_back({{"ideal", row.ideal},
                              {"meaning", row.meaning},
                              {"step_time_s", row.step_time_s},
                              {"saved_s", row.saved_s},
                              {"saved_share", row.saved_s / headroom.step_time_s},
                              {"speedup", row.speedup}});
  }
  json["left_out"] = headroom.left_out;
  json["assumptions"] = headroom.assumptions;
  json["interrupted"] = headroom.interrupted;
  return json;
}

std::string to_table(const Headroom& headroom) {
  std::string text = fmt::format("{}: step time {} as it is, mean of {} sampled step{}\n\n", headroom.name,
                                 time_text(headroom.step_time_s), headroom.samples, headroom.samples == 1 ? "" : "s");
  if (headroom.interrupted) text += "INTERRUPTED: some ideals are missing\n\n";
  TextTable table({"ideal", "step time", "saves", "of the step", "speed-up", "<what is ideal"});
  for (const HeadroomRow& row : headroom.rows) {
    table.row({row.ideal, time_text(row.step_time_s), (row.saved_s < 0 ? "-" : "") + time_text(std::abs(row.saved_s)),
               percent_text(row.saved_s / headroom.step_time_s), fmt::format("{:.3f}", row.speedup), row.meaning});
  }
  text += table.text() + "\nEach ideal alone, simulated again with the same draws; savings do not add up.\n";
  if (!headroom.left_out.empty()) text += "\nLeft out\n";
  for (const std::string& line : headroom.left_out) text += "  - " + wrapped(line, 4) + "\n";
  if (!headroom.assumptions.empty()) text += "\nAssumptions\n";
  for (const std::string& line : headroom.assumptions) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

std::string to_csv(const Headroom& headroom) {
  std::string text = csv_line({"ideal", "step_time_s", "saved_s", "speedup"});
  text += csv_line({"as_it_is", csv_number(headroom.step_time_s), "0", "1"});
  for (const HeadroomRow& row : headroom.rows) {
    text += csv_line({row.ideal, csv_number(row.step_time_s), csv_number(row.saved_s), csv_number(row.speedup)});
  }
  return text;
}

}  // namespace stepcast::scenarios
