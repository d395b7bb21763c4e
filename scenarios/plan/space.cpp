#include "scenarios/plan/space.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stepcast::scenarios::plan {
namespace {

using parallelism::ScheduleKind;
using parallelism::Sharding;
using parallelism::StepSpec;

constexpr int largest_default_pp = 64;
constexpr int tokens_a_cp_rank = 2048;  // no default splits a sequence finer

std::vector<int> divisors(int number, int largest) {
  std::vector<int> out;
  for (int i = 1; i <= std::min(number, largest); ++i) {
    if (number % i == 0) out.push_back(i);
  }
  return out;
}

// Divisors of any of the device counts.
std::vector<int> divisors_of_any(const std::vector<int>& numbers, int largest) {
  std::vector<int> out;
  for (const int n : numbers) {
    for (const int d : divisors(n, largest)) out.push_back(d);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// What is usual, and the scenario's own value: its layout then is a point of the space.
std::vector<int> with_own(std::vector<int> usual, int own) {
  if (std::find(usual.begin(), usual.end(), own) == usual.end()) usual.push_back(own);
  std::sort(usual.begin(), usual.end());
  return usual;
}

std::vector<std::string> with_own(std::vector<std::string> usual, const std::string& own) {
  if (std::find(usual.begin(), usual.end(), own) == usual.end()) usual.push_back(own);
  return usual;
}

std::vector<std::string> listed(const std::vector<std::string>& given, std::vector<std::string> usual) {
  return given.empty() ? std::move(usual) : given;
}

// The place of each name among those allowed.
std::vector<std::size_t> indices(const std::vector<std::string>& given, const std::vector<std::string>& allowed,
                                 const char* flag, Errors& errors) {
  std::vector<std::size_t> out;
  for (const std::string& name : given) {
    const auto found = std::find(allowed.begin(), allowed.end(), name);
    if (found == allowed.end()) {
      errors.push_back(make_error(
          ErrorCode::usage,
          fmt::format("found '{}'; allowed are {}{}", name, fmt::join(allowed, ", "), suggestion(name, allowed)),
          flag));
      continue;
    }
    const auto index = static_cast<std::size_t>(found - allowed.begin());
    if (std::find(out.begin(), out.end(), index) == out.end()) out.push_back(index);
  }
  return out;
}

std::string text_of(const parallelism::Recompute& r) {
  switch (r.mode) {
    case parallelism::RecomputeMode::none:
      return "none";
    case parallelism::RecomputeMode::full:
      return "full";
    case parallelism::RecomputeMode::selective:
      break;
  }
  return fmt::format("selective:{}", fmt::join(r.modules, "+"));
}

// What frees most for least: the up-projections of MLA, norms and activation functions.
parallelism::Recompute usual_selective(const models::Model& model) {
  parallelism::Recompute r;
  r.mode = parallelism::RecomputeMode::selective;
  if (model.attention.mla) r.modules.emplace_back("mla_up_proj");
  r.modules.emplace_back("layernorm");
  r.modules.emplace_back(model.is_moe() ? "moe_act" : "mlp");
  return r;
}

void add_recompute(Space& space, const parallelism::Recompute& r) {
  RecomputeChoice choice{text_of(r), r};
  const auto same = [&](const RecomputeChoice& c) { return c.text == choice.text; };
  if (std::none_of(space.recompute.begin(), space.recompute.end(), same)) space.recompute.push_back(std::move(choice));
}

void read_recompute(Space& space, const StepSpec& spec, const std::vector<std::string>& given, Errors& errors) {
  static const std::vector<std::string> modules = {"core_attn", "mla_up_proj", "layernorm",     "moe_act",
                                                   "mlp",       "moe",         "shared_experts"};
  parallelism::Recompute none;
  parallelism::Recompute full;
  full.mode = parallelism::RecomputeMode::full;
  if (given.empty()) {
    add_recompute(space, none);
    if (spec.recompute.mode == parallelism::RecomputeMode::selective) add_recompute(space, spec.recompute);
    add_recompute(space, usual_selective(spec.model));
    add_recompute(space, full);
    return;
  }
  for (const std::string& text : given) {
    if (text == "none") {
      add_recompute(space, none);
    } else if (text == "full") {
      add_recompute(space, full);
    } else if (text == "scenario" && spec.recompute.mode == parallelism::RecomputeMode::full &&
               spec.recompute.method == "block" && spec.recompute.block_layers > 0) {
      errors.push_back(make_error(ErrorCode::usage,
                                  "the scenario repeats some layers of a stage only (method block), which is not "
                                  "searched; allowed are none, full, selective and selective:MODULE+MODULE",
                                  "--recompute"));
    } else if (text == "scenario") {
      add_recompute(space, spec.recompute);
    } else if (text == "selective") {
      add_recompute(space, usual_selective(spec.model));
    } else if (text.starts_with("selective:")) {
      parallelism::Recompute r;
      r.mode = parallelism::RecomputeMode::selective;
      std::string name;
      for (const char c : text.substr(10) + "+") {
        if (c != '+') {
          name += c;
          continue;
        }
        indices({name}, modules, "--recompute", errors);
        r.modules.push_back(name);
        name.clear();
      }
      add_recompute(space, r);
    } else {
      errors.push_back(make_error(ErrorCode::usage,
                                  fmt::format("found '{}'; allowed are none, full, scenario, selective and "
                                              "selective:MODULE+MODULE with the modules {}",
                                              text, fmt::join(modules, ", ")),
                                  "--recompute"));
    }
  }
}

void read_overlap(Space& space, const StepSpec& spec, const std::vector<std::string>& given, Errors& errors) {
  const parallelism::Overlap& own = spec.overlap;
  const bool hides_tp = spec.software.tp_overlap_share > 0;
  for (const std::size_t i : indices(listed(given, {"profile"}), overlap_names(), "--overlap", errors)) {
    OverlapChoice choice{overlap_names()[i], own.gradients, own.parameters, own.tp, own.p2p};
    if (choice.name == "all") choice = {choice.name, true, true, hides_tp, true};
    if (choice.name == "none") choice = {choice.name, false, false, false, false};
    const bool as_given = choice.p2p == own.p2p;
    choice.p2p_warmup_flush = as_given ? own.p2p_warmup_flush : choice.p2p;
    choice.p2p_batched = as_given && own.p2p_batched;
    choice.with_optimizer = own.parameters_with_optimizer;
    choice.delay_wgrad = own.delay_wgrad && spec.model.is_moe();
    const auto same = [&](const OverlapChoice& c) {
      return c.gradients == choice.gradients && c.parameters == choice.parameters && c.tp == choice.tp &&
             c.p2p == choice.p2p;
    };
    if (std::none_of(space.overlap.begin(), space.overlap.end(), same)) space.overlap.push_back(choice);
  }
}

constexpr int largest_batch = 1 << 28;  // as a scenario's

std::vector<int> positive(std::vector<int> given, std::vector<int> usual, const char* flag, Errors& errors,
                          int largest = parallelism::most_devices) {
  if (given.empty()) return usual;
  for (const int v : given) {
    if (v >= 1 && v <= largest) continue;
    errors.push_back(make_error(ErrorCode::usage, fmt::format("found {}; allowed are 1 to {}", v, largest), flag));
  }
  return given;
}

// What a free batch may be: those of the scenario's batch over 4, 2, 1 and times 2, 4 that are whole.
std::vector<int> free_batches(int batch) {
  std::vector<int> out;
  for (const int part : {4, 2}) {
    if (batch % part == 0) out.push_back(batch / part);
  }
  for (const int times : {1, 2, 4}) {
    if (batch <= largest_batch / times) out.push_back(batch * times);
  }
  return out;
}

bool has_name(const Scenario& scenario, const char* pointer) {
  for (const auto& [key, origin] : scenario.origins) {
    if (key == pointer) return origin != "default" && !origin.starts_with("software ");
  }
  return false;
}

std::vector<std::string> usual_schedules(const StepSpec& spec) {
  std::vector<std::string> names = {"1f1b", "interleaved", "zb-h1", "zb-v"};
  if (spec.model.is_moe()) {
    for (const char* name : {"coscheduled", "dualpipe", "dualpipe-v"}) names.emplace_back(name);
  }
  return names;
}

}  // namespace

std::int64_t Space::points_a_family() const {
  const auto n = [](const auto& axis) { return static_cast<std::int64_t>(axis.size()); };
  return n(micro_batch) * n(vpp) * n(schedule) * n(sharding) * n(recompute) * n(dispatcher) * n(overlap);
}

std::int64_t Space::points() const {
  const auto n = [](const auto& axis) { return static_cast<std::int64_t>(axis.size()); };
  return n(devices) * n(global_batch) * n(tp) * n(cp) * n(pp) * n(ep) * n(etp) * points_a_family();
}

bool paired(ScheduleKind kind) {
  return kind == ScheduleKind::coscheduled || kind == ScheduleKind::dualpipe || kind == ScheduleKind::dualpipe_v;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const auto& s : parallelism::schedules()) names.emplace_back(s.name);
  return names;
}

const std::vector<std::string>& sharding_names() {
  static const std::vector<std::string> names = {"none", "zero1", "zero2", "zero3", "hsdp"};
  return names;
}

const std::vector<std::string>& overlap_names() {
  static const std::vector<std::string> names = {"profile", "all", "none"};
  return names;
}

Result<Space> make_space(const Scenario& scenario, const SpaceRequest& request) {
  const StepSpec& spec = scenario.spec;
  Errors errors;
  Space s;
  s.devices = positive(request.devices, {spec.cluster.devices}, "--devices", errors);
  const int batch = spec.workload.global_batch;
  s.global_batch = positive(request.global_batch, request.free_batch ? free_batches(batch) : std::vector<int>{batch},
                            "--global-batch", errors, largest_batch);
  const int layers = spec.model.layer_count();
  const int domain = spec.cluster.nvlink_domain;
  const bool moe = spec.model.is_moe();
  const int largest_cp = std::max(1, spec.workload.sequence_length / tokens_a_cp_rank);
  s.tp = positive(request.tp, divisors(domain, std::min(domain, 8)), "--tp", errors);
  s.cp = positive(request.cp, divisors_of_any(s.devices, std::min(largest_cp, 16)), "--cp", errors);
  s.pp = positive(request.pp, divisors_of_any(s.devices, std::min(layers, largest_default_pp)), "--pp", errors);
  s.ep = positive(request.ep, moe ? divisors_of_any(s.devices, spec.model.moe.experts) : std::vector<int>{1}, "--ep",
                  errors);
  s.etp = positive(request.etp, moe ? s.tp : std::vector<int>{1}, "--etp", errors);
  s.micro_batch =
      positive(request.micro_batch, with_own({1, 2, 4}, spec.workload.micro_batch), "--micro-batch", errors);
  s.vpp = positive(request.vpp, with_own({1, 2, 4}, spec.degrees.vpp), "--vpp", errors);
  const std::string& own_sharding = sharding_names()[static_cast<std::size_t>(spec.sharding)];
  for (const std::size_t i :
       indices(listed(request.schedule,
                      with_own(usual_schedules(spec), std::string(parallelism::info(spec.schedule).name))),
               schedule_names(), "--schedule", errors))
    s.schedule.push_back(parallelism::schedules()[i].kind);
  for (const std::size_t i : indices(listed(request.sharding, with_own({"zero1", "zero2", "zero3"}, own_sharding)),
                                     sharding_names(), "--sharding", errors))
    s.sharding.push_back(static_cast<Sharding>(i));
  const std::string own(parallelism::name(spec.runtime.dispatcher));
  const auto dispatchers = moe ? std::vector<std::string>{"alltoall", "deepep", own} : std::vector<std::string>{own};
  for (const std::size_t i :
       indices(listed(request.dispatcher, dispatchers), parallelism::dispatcher_names(), "--dispatcher", errors))
    s.dispatcher.push_back(static_cast<topology::Dispatcher>(i));
  read_recompute(s, spec, request.recompute, errors);
  read_overlap(s, spec, request.overlap, errors);
  s.sequence_parallel =
      has_name(scenario, "/parallelism/sequence_parallel") ? spec.sequence_parallel : spec.software.sequence_parallel;
  if (!errors.empty()) return errors;
  return s;
}

namespace {

// Where the point has what the scenario asks for: several chunks a rank, gathered once a step.
bool gathers_with_optimizer(const OverlapChoice& o, const Point& p) {
  const bool chunks = p.vpp > 1 || p.schedule == ScheduleKind::zb_v || p.schedule == ScheduleKind::dualpipe ||
                      p.schedule == ScheduleKind::dualpipe_v;
  const bool once =
      p.sharding == Sharding::zero1 || p.sharding == Sharding::zero2 || (p.sharding != Sharding::none && p.pp > 1);
  return o.with_optimizer && o.parameters && chunks && once;
}

}  // namespace

void apply(const Space& space, const Point& p, StepSpec& spec) {
  spec.cluster.devices = p.devices;
  spec.workload.global_batch = p.global_batch;
  spec.workload.micro_batch = p.micro_batch;
  parallelism::Degrees& d = spec.degrees;
  d.tp = p.tp;
  d.cp = p.cp;
  d.pp = p.pp;
  d.vpp = p.vpp;
  d.ep = p.ep;
  d.etp = p.etp;
  d.dp.reset();
  spec.schedule = p.schedule;
  spec.schedule_group = 0;
  spec.stage_layers.clear();
  spec.pipeline_layout.clear();
  spec.sharding = p.sharding;
  if (p.sharding != Sharding::hsdp) {
    spec.shard_group = 0;
  } else if (spec.shard_group == 0) {
    spec.shard_group = spec.cluster.nvlink_domain;
  }
  spec.reshard_after_forward = p.pp == 1;  // as the loader has it where the scenario does not say
  spec.sequence_parallel = p.tp > 1 && space.sequence_parallel;
  spec.recompute = space.recompute[p.recompute].value;
  spec.runtime.dispatcher = p.dispatcher;
  const OverlapChoice& o = space.overlap[p.overlap];
  spec.overlap.gradients = o.gradients;
  spec.overlap.parameters = o.parameters;
  spec.overlap.tp = o.tp;
  spec.overlap.p2p = o.p2p;
  spec.overlap.p2p_warmup_flush = o.p2p_warmup_flush;
  spec.overlap.p2p_batched = o.p2p_batched;
  spec.overlap.parameters_with_optimizer = gathers_with_optimizer(o, p);
  spec.overlap.delay_wgrad = o.delay_wgrad && paired(p.schedule);
  spec.overlap.ep = paired(p.schedule) && spec.model.is_moe();
}

std::vector<std::string> settings(const Space& space, const Point& p) {
  const OverlapChoice& o = space.overlap[p.overlap];
  const RecomputeChoice& r = space.recompute[p.recompute];
  std::vector<std::string> sets = {
      fmt::format("cluster.devices={}", p.devices),
      fmt::format("workload.global_batch={}", p.global_batch),
      fmt::format("workload.micro_batch={}", p.micro_batch),
      fmt::format("parallelism.tp={}", p.tp),
      fmt::format("parallelism.cp={}", p.cp),
      fmt::format("parallelism.pp={}", p.pp),
      fmt::format("parallelism.vpp={}", p.vpp),
      fmt::format("parallelism.ep={}", p.ep),
      fmt::format("parallelism.etp={}", p.etp),
      "parallelism.dp=null",
      "parallelism.schedule_group=null",
      "parallelism.stage_layers=null",
      "parallelism.pipeline_layout=null",
      "parallelism.reshard_after_forward=null",
      fmt::format("parallelism.schedule={}", parallelism::info(p.schedule).name),
      fmt::format("parallelism.sharding={}", sharding_names()[static_cast<std::size_t>(p.sharding)]),
      fmt::format("parallelism.sequence_parallel={}", p.tp > 1 && space.sequence_parallel),
      fmt::format("runtime.dispatcher={}", parallelism::name(p.dispatcher)),
      fmt::format("overlap.gradients={}", o.gradients),
      fmt::format("overlap.parameters={}", o.parameters),
      fmt::format("overlap.tp={}", o.tp),
      fmt::format("overlap.p2p={}", o.p2p),
      fmt::format("overlap.p2p_warmup_flush={}", o.p2p_warmup_flush),
      fmt::format("overlap.p2p_batched={}", o.p2p_batched),
      fmt::format("overlap.parameters_with_optimizer={}", gathers_with_optimizer(o, p)),
      fmt::format("overlap.delay_wgrad={}", o.delay_wgrad && paired(p.schedule))};
  if (p.sharding != Sharding::hsdp) sets.emplace_back("parallelism.shard_group=null");
  // The schedule decides: on for the paired ones of an MoE model.
  sets.emplace_back("overlap.ep=null");
  std::string text = r.text;
  std::replace(text.begin(), text.end(), '+', ',');
  sets.push_back("recompute=null");
  sets.push_back(fmt::format("recompute={}", text));
  return sets;
}

std::string words(const Space& space, const Point& p) {
  std::string out = fmt::format("tp {}", p.tp);
  if (p.cp > 1) out += fmt::format(", cp {}", p.cp);
  out += p.vpp > 1 ? fmt::format(", pp {} x {}", p.pp, p.vpp) : fmt::format(", pp {}", p.pp);
  if (space.ep.size() > 1 || p.ep > 1) out += fmt::format(", ep {}", p.ep);
  if (p.etp > 1) out += fmt::format(", etp {}", p.etp);
  if (space.global_batch.size() > 1) out += fmt::format(", batch {}", p.global_batch);
  out += fmt::format(", mbs {}, {}, {}, recompute {}", p.micro_batch, parallelism::info(p.schedule).name,
                     sharding_names()[static_cast<std::size_t>(p.sharding)], space.recompute[p.recompute].text);
  if (space.dispatcher.size() > 1) out += fmt::format(", {}", parallelism::name(p.dispatcher));
  if (space.overlap.size() > 1) out += fmt::format(", overlap {}", space.overlap[p.overlap].name);
  return out;
}

}  // namespace stepcast::scenarios::plan
