// A priority queue of (time, id) for simulation: a calendar of buckets.
//
// An event goes to the bucket of its time, modulo the calendar's length; the
// current bucket is kept sorted, so events come out in exact (time, id) order.
// Pushing before the last popped time is not allowed. The bucket width follows
// the density of events (Brown 1988): few events a bucket, few empty buckets.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.h"

namespace stepcast::sim {

class CalendarQueue {
 public:
  struct Event {
    Ticks time;
    std::uint32_t id;
    friend bool operator<(const Event& a, const Event& b) { return a.time != b.time ? a.time < b.time : a.id < b.id; }
  };

  CalendarQueue();
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  void push(Ticks time, std::uint32_t id);
  Event pop();
  // Time of the next event; there must be one.
  [[nodiscard]] Ticks next_time();
  // True when the last pop opened a new bucket; today() is then what comes next, the earliest last, for prefetching.
  [[nodiscard]] bool opened() const { return fresh_; }
  [[nodiscard]] const std::vector<Event>& today() const { return today_; }

 private:
  static constexpr std::uint32_t nobody = 0xffffffff;
  struct Node {
    Event event;
    std::uint32_t next;
  };

  void open_next();
  void insert_today(const Event& event);
  void store(const Event& event);
  void resize(std::size_t buckets, int shift);
  void adapt();

  std::vector<std::uint32_t> heads_;  // by bucket
  std::vector<Node> nodes_;
  std::uint32_t free_ = nobody;
  std::vector<Event> today_;  // sorted, earliest last
  Ticks day_ = 0;             // time >> shift_ of the open bucket
  int shift_ = 20;            // bucket width is 2^shift_ ticks
  bool fresh_ = false;
  std::size_t size_ = 0;
  std::size_t opened_ = 0, collected_ = 0;  // since the last adaptation
};

}  // namespace stepcast::sim
