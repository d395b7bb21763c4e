#include "sim/engine/delays.h"

#include <algorithm>

namespace stepcast::sim {

Delays::Delays(const Program& program, std::uint64_t first_step, int steps) : first_step_(first_step) {
  for (const Cohort& cohort : program.cohorts) {
    first_unit_.push_back(units_);
    units_ += static_cast<std::size_t>(cohort.units);
  }
  entries_.resize(units_ * static_cast<std::size_t>(steps));
}

std::size_t Delays::index(std::uint64_t step, int cohort, int unit) const {
  return static_cast<std::size_t>(step - first_step_) * units_ + first_unit_[static_cast<std::size_t>(cohort)] +
         static_cast<std::size_t>(unit);
}

void Delays::add(std::uint64_t step, int cohort, int unit, std::uint64_t ordinal, Ticks delay) {
  entries_[index(step, cohort, unit)].push_back({ordinal, delay});
}

void Delays::sort() {
  for (auto& list : entries_) {
    std::sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) { return a.ordinal < b.ordinal; });
  }
}

Ticks Delays::of(std::uint64_t step, int cohort, int unit, std::uint64_t ordinal) const {
  if (step < first_step_) return 0;
  const std::size_t at = index(step, cohort, unit);
  if (at >= entries_.size()) return 0;
  const auto& list = entries_[at];
  const auto found = std::lower_bound(list.begin(), list.end(), ordinal,
                                      [](const Entry& e, std::uint64_t wanted) { return e.ordinal < wanted; });
  return found != list.end() && found->ordinal == ordinal ? found->delay : 0;
}

std::size_t Delays::size() const {
  std::size_t sum = 0;
  for (const auto& list : entries_) sum += list.size();
  return sum;
}

}  // namespace stepcast::sim
