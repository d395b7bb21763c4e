#include "sim/engine/calendar_queue.h"

#include <algorithm>
#include <limits>

#include "sim/base/error.h"

namespace stepcast::sim {

namespace {
constexpr std::size_t first_buckets = 1024;
constexpr std::size_t adaptation_period = 4096;  // buckets opened or events collected between looks at the density
}  // namespace

CalendarQueue::CalendarQueue() : heads_(first_buckets, nobody) {}

void CalendarQueue::store(const Event& event) {
  std::uint32_t n = free_;
  if (n == nobody) {
    n = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({event, nobody});
  } else {
    free_ = nodes_[n].next;
    nodes_[n].event = event;
  }
  std::uint32_t& head = heads_[static_cast<std::size_t>(event.time >> shift_) & (heads_.size() - 1)];
  nodes_[n].next = head;
  head = n;
}

void CalendarQueue::insert_today(const Event& event) {
  std::size_t i = today_.size();
  today_.push_back(event);
  for (; i > 0 && today_[i - 1] < event; --i) today_[i] = today_[i - 1];
  today_[i] = event;
}

void CalendarQueue::push(Ticks time, std::uint32_t id) {
  ++size_;
  if ((time >> shift_) <= day_) {
    insert_today({time, id});
  } else {
    store({time, id});
  }
}

CalendarQueue::Event CalendarQueue::pop() {
  fresh_ = today_.empty();
  if (fresh_) open_next();
  const Event event = today_.back();
  today_.pop_back();
  --size_;
  return event;
}

Ticks CalendarQueue::next_time() {
  if (today_.empty()) open_next();
  return today_.back().time;
}

// Goes to the next day that has events.
void CalendarQueue::open_next() {
  STEPCAST_ASSERT(size_ > 0);
  std::size_t empty_days = 0;
  while (today_.empty()) {
    ++day_;
    ++opened_;
    if (++empty_days > heads_.size()) {  // nothing within a year: jump to the earliest event
      Ticks first = std::numeric_limits<Ticks>::max();
      for (std::uint32_t head : heads_) {
        for (std::uint32_t n = head; n != nobody; n = nodes_[n].next) first = std::min(first, nodes_[n].event.time);
      }
      day_ = first >> shift_;
    }
    std::uint32_t* link = &heads_[static_cast<std::size_t>(day_) & (heads_.size() - 1)];
    while (*link != nobody) {
      const std::uint32_t n = *link;
      if ((nodes_[n].event.time >> shift_) == day_) {
        today_.push_back(nodes_[n].event);
        *link = nodes_[n].next;
        nodes_[n].next = free_;
        free_ = n;
      } else {
        link = &nodes_[n].next;
      }
    }
  }
  collected_ += today_.size();
  std::sort(today_.begin(), today_.end(), [](const Event& a, const Event& b) { return b < a; });
  if (opened_ + collected_ > adaptation_period) adapt();
}

// Aims at 8 to 32 events a day: enough to prefetch what they touch, few enough to sort; and at a year of as many days
// as events pend.
void CalendarQueue::adapt() {
  const std::size_t opened = opened_;
  const std::size_t collected = collected_;
  opened_ = collected_ = 0;
  int shift = shift_;
  if (collected > 32 * opened && shift > 0) shift -= 1;
  if (collected < 8 * opened && shift < 44) shift += 1;
  std::size_t buckets = heads_.size();
  while (buckets < size_) buckets *= 2;
  if (std::max(shift, 0) != shift_ || buckets != heads_.size()) resize(buckets, std::max(shift, 0));
}

void CalendarQueue::resize(std::size_t buckets, int shift) {
  std::vector<Event> all = today_;
  for (std::uint32_t head : heads_) {
    for (std::uint32_t n = head; n != nobody; n = nodes_[n].next) all.push_back(nodes_[n].event);
  }
  today_.clear();
  nodes_.clear();
  free_ = nobody;
  heads_.assign(buckets, nobody);
  shift_ = shift;
  Ticks first = std::numeric_limits<Ticks>::max();
  for (const Event& event : all) first = std::min(first, event.time);
  day_ = first >> shift_;
  for (const Event& event : all) {
    if ((event.time >> shift_) <= day_) {
      today_.push_back(event);
    } else {
      store(event);
    }
  }
  std::sort(today_.begin(), today_.end(), [](const Event& a, const Event& b) { return b < a; });
}

}  // namespace stepcast::sim
