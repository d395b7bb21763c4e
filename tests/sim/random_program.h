// Random programs, loads and a sink that keeps everything: for comparing engines op by op.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/rng.h"
#include "sim/engine/conditions.h"
#include "sim/engine/sink.h"
#include "sim/program/program.h"

namespace stepcast::sim::testing {

// A stream of small random integers under a key.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_(seed, 0, Purpose::program_test) {}
  // 0 .. n-1
  int below(int n) { return static_cast<int>(key_.with(++count_).bits % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  RngKey key_;
  std::uint64_t count_ = 0;
};

// Rows between 0 and 4095, some lanes often 0.
class HashedLoads : public LoadSource {
 public:
  explicit HashedLoads(std::uint64_t seed) : seed_(seed) {}
  void rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const override;

 private:
  std::uint64_t seed_;
};

// Every shape the engines know: cohorts, groups, channels, joins, slots, host costs, loads. Instructions are drawn in
// one global order, so the program is free of deadlocks; with `reordered`, receives and joins are then moved forward
// in their lists, so that lockstep must look ahead, and some programs deadlock.
Program random_program(std::uint64_t seed, bool reordered);

struct Seen {
  InstructionEvent event;
  std::vector<Ticks> host, ready, begin, end;
  std::vector<float> rows;
};

class KeepingSink : public Sink {
 public:
  void on_instruction(const InstructionEvent& event) override;
  void on_step_end(std::uint64_t step, int cohort, std::span<const Ticks> end) override;

  std::vector<Seen> seen;
  std::vector<std::vector<Ticks>> step_ends;
};

// Where the two differ first, in words; empty when they are the same to the tick.
std::string first_difference(const KeepingSink& a, const KeepingSink& b);

}  // namespace stepcast::sim::testing
