// ZB-V (Qi et al. 2023, arXiv 2401.10241; 2024, arXiv 2405.15362): two pieces a rank, r and 2p-1-r, so that the first
// rank also holds the last piece and turns a microbatch round without a neighbour. Input and weight gradients are
// apart; weight gradients follow at once in the steady state and fill the tail.
//
// Rank r: 2(p-r)-1 forwards of chunk 0; r forwards of either chunk in turn; p-r rounds of chunk 1 (forward, input and
// weight gradient); then full rounds of both chunks; then input gradients that leave their weight gradients for last.
// At one cost for all passes no rank idles between its first and its last slot; at most 2p pieces are in flight, as
// many activations as 1F1B's p stages.
#include <algorithm>

#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {
namespace {

// The slots of one rank. Passes beyond the last microbatch are left out, so that the phases need no special cases.
class Writer {
 public:
  Writer(std::vector<Slot>& slots, int microbatches) : slots_(slots), microbatches_(microbatches) {}

  void forwards(int chunk) { put(forward(chunk, forward_[chunk]++)); }
  void input_gradient(int chunk) { put(backward_input(chunk, input_[chunk]++)); }
  void weight_gradient(int chunk) { put(backward_weight(chunk, weight_[chunk]++)); }
  void round(int chunk) {
    forwards(chunk);
    gradients(chunk);
  }
  void gradients(int chunk) {
    input_gradient(chunk);
    weight_gradient(chunk);
  }
  [[nodiscard]] int forwards_done(int chunk) const { return forward_[chunk]; }
  [[nodiscard]] bool weights_due(int chunk) const { return weight_[chunk] < input_[chunk]; }

 private:
  void put(const Slot& slot) {
    if (slot.microbatch < microbatches_) slots_.push_back(slot);
  }

  std::vector<Slot>& slots_;
  int microbatches_;
  int forward_[2] = {0, 0};
  int input_[2] = {0, 0};
  int weight_[2] = {0, 0};
};

}  // namespace

Result<Schedule> make_zb_v(const ScheduleShape& given) {
  ScheduleShape shape = given;
  Errors errors = shape_faults("zb-v", shape);
  require_two_chunks(errors, "zb-v", shape);
  if (!errors.empty()) return errors;
  Schedule s = v_shaped(ScheduleKind::zb_v, shape);
  const int p = shape.stages;
  // The pattern needs 2p-1 microbatches to fill; with fewer, the missing ones are left out of it.
  const int pattern = std::max(shape.microbatches, 2 * p - 1);
  for (int rank = 0; rank < p; ++rank) {
    Writer w(s.ranks[static_cast<std::size_t>(rank)], shape.microbatches);
    for (int i = 0; i < 2 * (p - rank) - 1; ++i) w.forwards(0);
    for (int i = 0; i < rank; ++i) {
      w.forwards(1);
      w.forwards(0);
    }
    for (int i = 0; i < p - rank; ++i) w.round(1);
    while (w.forwards_done(1) < pattern) {
      if (w.forwards_done(0) < pattern) w.forwards(0);
      w.gradients(0);
      w.round(1);
    }
    for (int i = 0; i < rank; ++i) {
      w.input_gradient(0);
      w.input_gradient(1);
    }
    for (int i = 0; i < p - rank; ++i) w.gradients(0);  // the weight gradients put off first
    while (w.weights_due(1)) w.weight_gradient(1);
    while (w.weights_due(0)) w.weight_gradient(0);
  }
  return s;
}

// With a barrier at the step's end only the start of the last rank remains, (p-1) f, at one cost for all passes.
double bubble_zb_v(const ScheduleShape& shape, double f, double b, double w) {
  if (f != b || b != w || shape.microbatches < 2 * shape.stages - 1) return -1;
  return (shape.stages - 1) * f / (2 * shape.microbatches * (f + b + w));
}

}  // namespace stepcast::parallelism::pipeline
