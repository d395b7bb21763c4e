// Judges all points that share their degrees: which are valid, how fast and how small they can be at best.
//
// Three answers, each admissible (never above the simulation):
//   quick    the busiest rank: its kernels and blocking communication over all slots, what must come before its first
//            slot and after its last, gradients that nothing can hide, norm and update
//   close    every slot of the schedule in order, with the outlines of its bodies: fill, drain and waiting included
//   memory   weights, gradients, optimizer and context, and activations along the schedule's first slots
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "parallelism/schedule.h"
#include "scenarios/plan/groups.h"
#include "scenarios/plan/outline.h"
#include "scenarios/plan/space.h"
#include "scenarios/plan/state.h"

namespace stepcast::scenarios::plan {

// Why a point is no layout that could run.
enum class Refusal : unsigned char {
  degrees,    // divisibility of model and devices
  batch,      // microbatches do not fill the global batch
  split,      // more stages than layers
  schedule,   // the schedule's own rules
  framework,  // combinations that no framework runs
  twin,       // another point is the same step: a dispatcher without expert exchange, sharding of one rank
  memory,     // cannot fit
};
inline constexpr std::size_t refusal_count = 7;
[[nodiscard]] const char* name(Refusal refusal);
[[nodiscard]] const char* words(Refusal refusal);

struct Judged {
  Point point;
  double seconds = 0;     // lower bound of the step
  double peak_bytes = 0;  // lower bound of the memory account's peak
};

// What the families of one search share; constant while they are judged.
struct SearchBase {
  const parallelism::StepSpec& spec;  // with the right number of devices
  const Space& space;
  const topology::Fabric& fabric;
  double memory_limit = 0;  // bytes
  double speed = 1;         // smallest factor that noise can put on a kernel
};

// The degrees of a family.
struct Degrees {
  int global_batch = 0;
  std::int16_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1;
  friend bool operator==(const Degrees&, const Degrees&) = default;
};

class Family {
 public:
  // `outliners`: shared with families that differ in pp only.
  Family(const SearchBase& base, const Degrees& degrees, OutlinerCache& outliners);
  ~Family();

  // All valid points in the order of the space, with the quick bound; refused ones are counted.
  [[nodiscard]] std::vector<Judged> judge(std::vector<std::int64_t>& refused);
  // The close bound of one of them.
  [[nodiscard]] double close(const Point& point);
  // Its quick bound and its memory, unless it is refused.
  [[nodiscard]] std::optional<Refusal> quick(const Point& point, Judged& judged);

 private:
  struct Pipeline;   // schedule and split
  struct Bodies;     // outlines of all pieces
  struct Evaluated;  // what both bounds need of a point

  // `whole`: with all slots of the schedule; else with as many as its memory needs.
  std::optional<Refusal> evaluate(const Point& point, bool whole, Evaluated& out);
  Pipeline& pipeline(const Point& point, bool whole);
  Bodies& bodies(const Point& point, Pipeline& pipeline);
  const State& state(const Point& point, Pipeline& pipeline);
  const Groups& groups(const Point& point);
  [[nodiscard]] bool twin(const Point& point) const;
  [[nodiscard]] double quick_seconds(const Evaluated& e) const;
  [[nodiscard]] double peak_bytes(const Evaluated& e) const;
  [[nodiscard]] double send_seconds(const Evaluated& e, int from, int to) const;

  SearchBase base_;
  Degrees degrees_;
  parallelism::StepSpec spec_;
  std::optional<parallelism::Layout> layout_;
  std::map<int, Groups> groups_;  // by shard group
  std::map<std::tuple<parallelism::ScheduleKind, int, int, int>, std::unique_ptr<Pipeline>> pipelines_;
  OutlinerCache& outliners_;
  std::map<std::tuple<int, int, int, int, int>, std::unique_ptr<Bodies>> bodies_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<State>> states_;
};

}  // namespace stepcast::scenarios::plan
