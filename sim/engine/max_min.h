// Weighted max-min fair levels of flows on links, kept up to date change by change.
//
// Knows neither time nor transfers. A flow has a cap T(f) and a weight w(f, l) on each of its links; its level t(f) is
//   max-min fair under   sum over f of w(f, l) t(f) <= c(l)   and   t(f) <= T(f):
// every flow is at its cap, or crosses a full link on which no flow has a higher level (the certificate).
//
// From scratch this is progressive filling: one level rises from 0 for all, a flow stops at its cap or when one of its
// links fills up. solve() replays that sweep only where a change reaches. Flows are frozen at their old levels; those
// that began rise from 0, and in the order of levels
//   - a link that fills up at level s stops what rises on it; frozen flows above s join the rise first, highest first;
//   - a link that kept flows at level L and has room left at L lets them rise from there;
//   - everything else on the way stays as it was.
// What lies below the lowest change is never looked at. A link whose flows together cannot exceed it is not looked at
// either. Starting everything at once is the plain sweep: the solution from scratch is the same code.
//
// Levels, weights and sums are integers (levels in 2^-50, weights in 2^-34 of a link, sums in 128 bits), rounded down:
// sums do not depend on order or history, no link carries more than its capacity, and the order in which flows are
// added or numbered changes nothing. Against the sweep from scratch a level differs by rounding at most (1e-12).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace stepcast::sim {

class MaxMin {
 public:
  struct Load {
    std::int32_t link;
    std::int64_t q;  // share of the link at the cap, in 2^-30
  };

  static constexpr double highest_cap = 64;

  // Capacities by link, 0 to 1 of nominal.
  explicit MaxMin(std::span<const double> capacity);

  // Another link, of capacity 1; its number.
  std::int32_t add_link();
  // `flow` is a small number of the caller's choice that is not in use; `cap` lies in (0, highest_cap], `loads` are
  // positive.
  void add(std::uint32_t flow, double cap, std::span<const Load> loads);
  void remove(std::uint32_t flow);
  // Fair again; the flows that are new or whose level changed, in no meaningful order. Valid until the next call.
  [[nodiscard]] std::span<const std::uint32_t> solve();
  [[nodiscard]] bool changed() const { return !dirty_.empty() || !fresh_.empty(); }

  // Level over cap, the level, the link that holds a flow below its cap, and the flows that the last solve() looked at.
  [[nodiscard]] double rate(std::uint32_t flow) const;
  [[nodiscard]] double level(std::uint32_t flow) const;
  [[nodiscard]] std::int32_t stopped_by(std::uint32_t flow) const { return flows_[flow].stopped_by; }
  [[nodiscard]] std::size_t looked_at() const { return active_.size(); }
  // Whether the predicate holds for a flow on the link.
  template <class Predicate>
  [[nodiscard]] bool any_of(std::int32_t l, const Predicate& holds) const {
    const auto& members = users_[static_cast<std::size_t>(l)].members;
    return std::any_of(members.begin(), members.end(), [&](const Member& m) { return holds(m.flow); });
  }
  // Largest violation of capacity and of the certificate, relative: over all flows, or over those that the last solve()
  // looked at and the links they load. For tests and debug builds.
  [[nodiscard]] double certificate_error() const;
  [[nodiscard]] double last_certificate_error() const;
  // Share of the link's nominal capacity that its flows take.
  [[nodiscard]] double used(std::int32_t link) const;

 private:
  using Sum = __int128;
  enum class State : std::uint8_t { absent, frozen, rising, fixed };
  struct alignas(64) Link {             // one cache line: sweeps wait for memory
    Sum used = 0;                       // by flows that do not rise; kept while the link is watched
    std::int64_t capacity = 0;          // 2^-30
    std::int64_t rising = 0, kept = 0;  // weights of rising flows, and of those that it stopped at `level`
    std::int64_t level = 0;
    std::int64_t queued = 0;                         // lowest level in the queue
    bool dirty = false, met = false, final = false;  // met: of this solve; final: it filled up in this solve
  };
  struct Member {
    std::uint32_t flow, load;  // the flow's load that this is
  };
  struct Users {
    std::int64_t load = 0;  // with all flows at their caps, 2^-30
    std::vector<Member> members;
  };
  struct FlowLoad {
    std::int32_t link;
    std::uint32_t member;
    std::int64_t weight;
  };
  struct Flow {
    std::uint32_t first = 0, count = 0, room = 0;  // of loads_; q of them
    std::int32_t stopped_by = none;                // link
  };
  struct Level {
    std::int64_t now = 0, cap = 0;
  };
  struct Active {
    std::uint32_t flow;
    std::int64_t before;
  };
  struct Event {
    std::int64_t level;
    std::int32_t link;
    bool operator>(const Event& o) const { return level != o.level ? level > o.level : link > o.link; }
  };
  static constexpr std::int32_t none = -1;

  [[nodiscard]] Link& link(std::int32_t l) { return links_[static_cast<std::size_t>(l)]; }
  [[nodiscard]] const Link& link(std::int32_t l) const { return links_[static_cast<std::size_t>(l)]; }
  [[nodiscard]] std::span<FlowLoad> loads(std::uint32_t flow);
  [[nodiscard]] std::span<const FlowLoad> loads(std::uint32_t flow) const;
  [[nodiscard]] bool watched(std::int32_t l) const { return watched_[static_cast<std::size_t>(l)] != 0; }
  void reserve(std::uint32_t flow, std::size_t count);
  void watch(std::int32_t l);
  void unwatch_idle(std::int32_t l);
  void meet(std::int32_t l);
  void queue(std::int32_t l);
  void raise(std::uint32_t flow);
  void fix(std::uint32_t flow, std::int64_t level, std::int32_t stopped_by);
  void process(std::int32_t l, std::int64_t at);
  void stop_all(std::int32_t l, std::int64_t level);
  [[nodiscard]] bool raise_kept(std::int32_t l);
  [[nodiscard]] bool raise_above(std::int32_t l);
  [[nodiscard]] Sum sum(std::int32_t l) const;
  [[nodiscard]] double error_of(std::span<const std::uint32_t> flows) const;

  std::vector<Link> links_;
  std::vector<Users> users_;           // by link
  std::vector<std::uint8_t> watched_;  // by link: its flows could exceed it, or it has stopped some
  std::vector<Flow> flows_;
  std::vector<FlowLoad> loads_;
  std::vector<std::int64_t> q_;  // of loads_
  std::vector<Level> level_;     // by flow, as the next
  std::vector<State> state_;
  std::vector<std::uint32_t> fresh_, changed_, above_;
  std::vector<Active> active_;
  std::vector<std::int32_t> dirty_, met_;
  std::vector<Event> events_;  // a heap
};

}  // namespace stepcast::sim
