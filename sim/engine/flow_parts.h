// What an operation asks of shared links, and how it is cut into the flows of its parts.
//
// Alone, an operation takes W ticks. As one macro-flow its lanes progress alike, at the pace of the busiest. Cut, each
// part p (program.h: a box pair, or a pair of NICs) is a flow of its own:
//
//   work       w(p) = W v(p)            ticks at its even rate; v: volume of the busiest lane of its place, of all
//   links      q(p, l) = share of l in the pattern x mean over busiest lane of the place, at the even rate
//   ports      sum over parts p of a port of even(p) x(p) <= sum of even(p)
//   level      t(p) = x(p) I            I as of the operation, so that it meets others as its macro-flow does
//
// with the place that receives the rows, or the one that sends them (LinkUse::rows_leave). So links carry the bytes of
// the lanes, a part takes over the room that others leave at its ports, and ends early where it has less to move. On
// links of its own every part runs at x = 1 until w(p): parts of the busiest place end at W, and nothing ends before
// its alone time because a flow without links stands for the operation itself.
//
// Shares of links that would exceed the link alone are scaled to fill it, as those of macro-flows are.
//
// Where that would be too many flows, parts are folded: those whose volumes lie in the same of `volume_classes` equal
// steps move together as one flow without ports, with the work of the busiest and the bytes of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/max_min.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// All that it points to is borrowed until the operation has ended.
struct FlowDemand {
  const std::vector<LinkShare>* links = nullptr;
  double nic = 0, nvlink = 0;                         // rate of the busiest port of each kind, of its full rate
  const LinkParts *boxes = nullptr, *nics = nullptr;  // null: cannot be cut so
  const std::vector<float>* volume = nullptr;         // of each lane, of the busiest one's; null: all alike
  bool rows_leave = false;

  // The pattern's list of the unit, and how it can be cut.
  void follow(const LinkPattern& pattern, std::size_t unit);
  // Busiest port's rate: the flow's share of it gives it its level.
  [[nodiscard]] double intensity() const;
  [[nodiscard]] double load(const LinkShare& share) const {
    return static_cast<double>(share.nic) * nic + static_cast<double>(share.nvlink) * nvlink;
  }
  [[nodiscard]] const LinkParts* parts(FlowLevel level) const;
  [[nodiscard]] bool cuttable() const { return boxes != nullptr || nics != nullptr; }
};

// Volumes by lane as FlowDemand has them; empty where lanes are alike.
[[nodiscard]] std::vector<float> lane_volumes(const LinkUse& use, const float* rows, std::size_t lanes);
// Whether lanes differ by more than `unequal_share`, among all or between those of a place.
inline constexpr float unequal_share = 0.02F;
[[nodiscard]] bool unequal(const std::vector<float>* volume);
[[nodiscard]] bool unequal_within(const std::vector<float>* volume, const LinkParts& parts);

struct CutFlow {
  double left = 0;            // ticks at its even rate
  double level = 1, cap = 1;  // at its even rate, and at all that its ports give
  std::size_t first = 0, count = 0;
};
struct Cut {
  std::vector<CutFlow> flows;
  std::vector<MaxMin::Load> loads;  // of flow f: first, count; links below 0 are ports, numbered from -1 down
  std::int32_t ports = 0;
};

// Cuts operations; keeps nothing from call to call but memory.
class Cutter {
 public:
  static constexpr std::size_t volume_classes = 8;

  // Of `work` ticks `elapsed` are over, for all parts alike. More than `most` parts are folded. The result is valid
  // until the next call.
  const Cut& cut(const FlowDemand& demand, const LinkParts& parts, double work, double elapsed, std::size_t most);

 private:
  struct Place {
    double most = 1, mean = 1;  // volume of its lanes
    double out = 0, in = 0;     // even shares of all its parts
    int out_users = 0, in_users = 0;
    std::int32_t out_port = 0, in_port = 0;
  };
  struct Class {
    double most = 0;            // volume
    std::vector<double> loads;  // by link of the list, times volume
  };
  void measure(const FlowDemand& demand, const LinkParts& parts);
  [[nodiscard]] const Place& governing(const FlowDemand& demand, const LinkParts::Part& part) const {
    return places_[static_cast<std::size_t>(demand.rows_leave ? part.out : part.in)];
  }
  void split(const FlowDemand& demand, const LinkParts& parts, double work, double elapsed);
  void fold(const FlowDemand& demand, const LinkParts& parts, double work, double elapsed);
  void add(const FlowDemand& demand, const LinkParts::Part& part, double left);
  void add_load(std::int32_t link, double share);
  void load_rest(const FlowDemand& demand, double part);
  void load_port(std::int32_t& port, int users, double share);

  Cut cut_;
  std::vector<Place> places_;
  const Place* busiest_ = nullptr;  // whose flows load the links that no part names; null: none does
  std::vector<double> full_;        // by link of the list: its load at x = 1, where that is more than the link
  std::vector<bool> of_parts_;      // by link of the list: some part loads it
  std::vector<Class> classes_;
};

}  // namespace stepcast::sim
