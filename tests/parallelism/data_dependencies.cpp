#include "tests/parallelism/data_dependencies.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "sim/record/recorder.h"

namespace stepcast::parallelism::testing {
namespace {

using sim::Opcode;
using sim::Stream;

bool starts(const std::string& name, const char* with) { return name.rfind(with, 0) == 0; }

// A moment and the operation that ended then.
struct Made {
  Ticks end = 0;
  std::string by = "nothing";
};
Made later(const Made& a, const Made& b) { return b.end > a.end ? b : a; }

struct Op {
  const sim::Instruction* instruction;
  const sim::Work* work;
  Ticks begin, end;
};

// One list of one call.
class Chain {
 public:
  Chain(std::string where, std::vector<std::string>& faults) : where_(std::move(where)), faults_(faults) {}

  void add(const Op& op) {
    const std::string& name = op.work->name;
    const Made made{op.end, name};
    if (op.instruction->op == Opcode::host_sync) {
      if (op.end < value_.end) fault(name, op.end, value_);
      return;
    }
    if (op.instruction->stream == Stream::compute) {
      if (op.end > op.begin) kernel(op, made);
      return;
    }
    switch (op.instruction->stream) {
      case Stream::tp:
      case Stream::cp:
        if (op.instruction->op != Opcode::compute) transfer(op, made);
        return;
      case Stream::ep:
        if (op.instruction->op == Opcode::compute) return;
        need(op, all());
        branch_ = value_ = later(value_, exchange_ ? later(branch_, *exchange_) : branch_);
        exchange_ = made;
        return;
      case Stream::pp_send:
        if (op.instruction->op == Opcode::send) need(op, all());
        return;
      case Stream::pp_receive:
        consume({}, later(value_, made));
        return;
      case Stream::dp:
        if (starts(name, "gradient_reduce")) need(op, kernel_);
        return;
      case Stream::copy:
        if (starts(name, "offload")) need(op, kernel_);
        if (starts(name, "reload")) reloads_[op.work->layer] = made;
        return;
      case Stream::compute:
        return;
    }
  }

  [[nodiscard]] Made all() const {
    Made m = later(value_, branch_);
    if (exchange_) m = later(m, *exchange_);
    if (hidden_) m = later(m, *hidden_);
    return m;
  }
  [[nodiscard]] const std::optional<Ticks>& first() const { return first_; }
  [[nodiscard]] const std::string& first_name() const { return first_name_; }

 private:
  [[nodiscard]] static bool beside(const std::string& name) { return starts(name, "shared_expert"); }
  // Weight gradients read what the chain had before the exchange, and only the reduction reads them.
  [[nodiscard]] static bool delayed(const std::string& name) {
    return starts(name, "expert_fc") && name.find(".wgrad") != std::string::npos;
  }

  // Made from what the input gradient was made from, and read by the reduction only.
  [[nodiscard]] static bool weight_gradient(const std::string& name) {
    return name.find(".wgrad") != std::string::npos || name.find(".accumulate") != std::string::npos;
  }

  void fault(const std::string& name, Ticks at, const Made& needs) {
    faults_.push_back(fmt::format("{}: {} at {} before the end of {} at {}", where_, name, at, needs.by, needs.end));
  }
  void need(const Op& op, const Made& needs) {
    if (op.begin < needs.end) fault(op.work->name, op.begin, needs);
    if (!first_) {
      first_ = op.begin;
      first_name_ = op.work->name;
    }
  }
  // The value passes to what `name` makes of it, on the branch beside an exchange or on the chain.
  void consume(const std::string& name, const Made& made) {
    if (exchange_ && beside(name)) {
      branch_ = made;
      return;
    }
    value_ = made;
    branch_ = {};
    exchange_.reset();
  }
  [[nodiscard]] Made needed(const std::string& name) const {
    if (exchange_ && beside(name)) return branch_;
    return exchange_ ? later(later(value_, branch_), *exchange_) : value_;
  }

  void kernel(const Op& op, const Made& made) {
    const std::string& name = op.work->name;
    if (exchange_ && delayed(name)) {
      need(op, value_);
      kernel_ = made;
      return;
    }
    if (before_gradient_ && weight_gradient(name)) {
      need(op, *before_gradient_);
      kernel_ = made;
      return;
    }
    before_gradient_.reset();
    Made needs = needed(name);
    if (starts(name, "attention_core") && !hops_.empty()) {
      if (core_ > 0 && core_ <= hops_.size()) needs = later(needs, hops_[core_ - 1]);
      ++core_;
    } else {
      hops_.clear();
      core_ = 0;
    }
    if (hidden_ && hidden_covered_) needs = later(needs, *hidden_);
    const auto reload = reloads_.find(op.work->layer);
    if (reload != reloads_.end()) needs = later(needs, reload->second);
    need(op, needs);
    if (hidden_ && hidden_covered_) hidden_.reset();
    if (op.work->category != sim::Category::quantise) hidden_covered_ = true;
    consume(name, made);
    kernel_ = made;
  }

  void transfer(const Op& op, const Made& made) {
    const std::string& name = op.work->name;
    if (name.find(".overlapped") != std::string::npos) {
      need(op, needed(name));
      if (op.work->collective != "all_gather") return;  // beside the kernel that makes it: the exposed part follows
      hidden_ = made;
      hidden_covered_ = false;
      return;
    }
    if (starts(name, "cp_ring_hop")) {
      ring_hop(op, made);
      return;
    }
    need(op, hidden_ ? later(needed(name), *hidden_) : needed(name));
    hidden_.reset();
    if (name.find(".gradient") != std::string::npos) before_gradient_ = needed(name);
    consume(name, made);
  }

  // Hops of a ring follow each other and bring the blocks of later core kernels; the mixed kind's one hop is plain.
  void ring_hop(const Op& op, const Made& made) {
    if (hops_.empty()) {
      need(op, needed(op.work->name));
    } else if (op.begin < hops_.back().end) {
      fault(op.work->name, op.begin, hops_.back());
    }
    hops_.push_back(made);
  }

  std::string where_;
  std::vector<std::string>& faults_;
  Made value_, branch_, kernel_;
  std::optional<Made> exchange_, hidden_;
  std::optional<Made> before_gradient_;  // what the input gradient that leaves a tensor-parallel region was made of
  bool hidden_covered_ = false;
  std::vector<Made> hops_;
  std::size_t core_ = 0;
  std::map<int, Made> reloads_;
  std::optional<Ticks> first_;
  std::string first_name_;
};

// What a microbatch's pass through a piece begins with and leaves, by (pass, piece, microbatch).
struct Passed {
  Ticks begin = 0;
  std::string first;
  Made left;
};
using Passes = std::map<std::tuple<bool, int, int>, Passed>;

class StageCheck {
 public:
  StageCheck(const LoweredStep& step, int stage, std::vector<std::string>& faults, Passes& passes)
      : step_(step),
        stage_(stage),
        cohort_(step.program.cohorts[static_cast<std::size_t>(stage)]),
        faults_(faults),
        passes_(passes) {}

  // `update`: end of the optimizer step before.
  void run(const std::vector<sim::TimelineOp>& ops, const Made& update) {
    Made reduced, first_update;
    bool gathered = false;
    for (std::size_t i = 0; i < ops.size();) {
      const std::int32_t call = ops[i].call;
      const std::string where = fmt::format("stage {}, call {}", stage_, call);
      Chain chains[2] = {{where, faults_}, {where + ", second", faults_}};
      for (; i < ops.size() && ops[i].call == call; ++i) {
        const auto& body = cohort_.bodies[cohort_.calls[static_cast<std::size_t>(call)].body];
        const sim::Instruction& in = body.instructions[static_cast<std::size_t>(ops[i].pc)];
        const sim::Work& work = cohort_.works[in.work];
        if (in.stream == Stream::dp && starts(work.name, "parameter_gather") && !gathered) {
          gathered = true;
          if (ops[i].begin < update.end)
            faults_.push_back(fmt::format("{}: {} at {} before the {} before it at {}", where, work.name, ops[i].begin,
                                          update.by, update.end));
        }
        if (in.stream == Stream::dp && !starts(work.name, "parameter_gather"))
          reduced = later(reduced, {ops[i].end, work.name});
        if (starts(work.name, "optimizer_step") && ops[i].begin < reduced.end)
          faults_.push_back(fmt::format("{}: {} at {} before the end of {} at {}", where, work.name, ops[i].begin,
                                        reduced.by, reduced.end));
        // Parameters that are gathered within the step are those of the chunk that is updated first.
        if (work.name == "optimizer_step.first") first_update = {ops[i].end, work.name};
        if (starts(work.name, "parameter_gather") && ops[i].begin < first_update.end)
          faults_.push_back(fmt::format("{}: {} at {} before the end of {} at {}", where, work.name, ops[i].begin,
                                        first_update.by, first_update.end));
        chains[(in.flags & sim::flag_second_instance) != 0 ? 1 : 0].add({&in, &work, ops[i].begin, ops[i].end});
      }
      pass(call, chains);
    }
  }

 private:
  void pass(std::int32_t call, const Chain (&chains)[2]) {
    const auto& slots = step_.schedule.ranks[static_cast<std::size_t>(stage_)];
    const auto first_call = static_cast<std::int32_t>(cohort_.calls.size() - slots.size()) - 1;
    const std::int32_t at = call - first_call;
    if (at < 0 || at >= static_cast<std::int32_t>(slots.size())) return;
    const Slot& s = slots[static_cast<std::size_t>(at)];
    const auto note = [&](bool backward, int chunk, int microbatch, const Chain& chain) {
      const auto& pieces = step_.schedule.virtual_stage[static_cast<std::size_t>(stage_)];
      if (!chain.first()) return;
      passes_[{backward, pieces[static_cast<std::size_t>(chunk)], microbatch}] = {*chain.first(), chain.first_name(),
                                                                                  chain.all()};
    };
    if (s.kind == SlotKind::forward || s.kind == SlotKind::forward_backward)
      note(false, s.chunk, s.microbatch, chains[0]);
    if (s.kind == SlotKind::backward || s.kind == SlotKind::backward_input)
      note(true, s.chunk, s.microbatch, chains[0]);
    if (s.kind == SlotKind::forward_backward) note(true, s.second_chunk, s.second_microbatch, chains[1]);
  }

  const LoweredStep& step_;
  int stage_;
  const sim::Cohort& cohort_;
  std::vector<std::string>& faults_;
  Passes& passes_;
};

// From piece to piece, and from the last forward to the first backward.
void check_passes(const LoweredStep& step, const Passes& passes, std::vector<std::string>& faults) {
  for (const auto& [key, passed] : passes) {
    const auto [backward, piece, microbatch] = key;
    auto before = passes.find({backward, backward ? piece + 1 : piece - 1, microbatch});
    if (backward && piece + 1 == step.schedule.virtual_stages) before = passes.find({false, piece, microbatch});
    if (before == passes.end() || passed.begin >= before->second.left.end) continue;
    faults.push_back(
        fmt::format("{} of microbatch {} on piece {}: {} at {} before the end of {} at {} on the piece before",
                    backward ? "backward" : "forward", microbatch, piece, passed.first, passed.begin,
                    before->second.left.by, before->second.left.end));
  }
}

}  // namespace

std::vector<std::string> dependency_faults(const LoweredStep& step, const sim::Conditions& conditions) {
  std::vector<std::string> faults;
  std::vector<RankId> ranks;
  for (const sim::Cohort& cohort : step.program.cohorts) ranks.push_back(cohort.ranks.front());
  // Both clocks begin with step 0.
  sim::RecordOptions options;
  options.step = 0;
  options.warm_steps = 0;
  const auto before = sim::record_timeline(step.program, conditions, options, ranks);
  options.step = 1;
  options.warm_steps = 1;
  const auto now = sim::record_timeline(step.program, conditions, options, ranks);
  if (!before || !now) return {"the step cannot be recorded"};
  Passes passes;
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    std::vector<sim::TimelineOp> ops;
    Made update;
    for (const sim::TimelineOp& op : now->ops) {
      if (op.cohort == static_cast<std::int32_t>(stage)) ops.push_back(op);
    }
    const sim::Cohort& cohort = step.program.cohorts[stage];
    for (const sim::TimelineOp& op : before->ops) {
      if (op.cohort != static_cast<std::int32_t>(stage)) continue;
      const auto& body = cohort.bodies[cohort.calls[static_cast<std::size_t>(op.call)].body];
      const std::string& name = cohort.works[body.instructions[static_cast<std::size_t>(op.pc)].work].name;
      if (name == "optimizer_step") update = {op.end, name};
    }
    StageCheck(step, static_cast<int>(stage), faults, passes).run(ops, update);
  }
  check_passes(step, passes, faults);
  return faults;
}

}  // namespace stepcast::parallelism::testing
