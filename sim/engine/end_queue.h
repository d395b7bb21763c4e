// Which flow ends next: a heap of (end, key) by flow, where an end that moves is moved in place.
//
// Four children a node; the heap holds what it compares, so that a move touches only heap and positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/units.h"

namespace stepcast::sim {

class EndQueue {
 public:
  struct Entry {
    Ticks end;
    std::uint64_t key;
    std::uint32_t flow;
    [[nodiscard]] bool before(const Entry& o) const { return end != o.end ? end < o.end : key < o.key; }
  };

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] const Entry& top() const { return heap_.front(); }

  // Adds the flow, or moves it.
  void set(const Entry& entry) {
    if (entry.flow >= place_.size()) place_.resize(entry.flow + std::size_t{1}, outside);
    std::size_t at = place_[entry.flow];
    if (at == outside) {
      at = heap_.size();
      heap_.push_back(entry);
      up(at, entry);
    } else if (entry.before(heap_[at])) {
      up(at, entry);
    } else {
      down(at, entry);
    }
  }
  void pop() { remove(heap_.front().flow); }
  void remove(std::uint32_t flow) {
    const std::size_t at = place_[flow];
    place_[flow] = outside;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    if (at > 0 && last.before(heap_[(at - 1) / children])) {
      up(at, last);
    } else {
      down(at, last);
    }
  }

 private:
  static constexpr std::size_t outside = static_cast<std::size_t>(-1), children = 4;

  void put(std::size_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[entry.flow] = at;
  }
  void up(std::size_t at, const Entry& entry) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / children;
      if (!entry.before(heap_[parent])) break;
      put(at, heap_[parent]);
      at = parent;
    }
    put(at, entry);
  }
  void down(std::size_t at, const Entry& entry) {
    while (true) {
      const std::size_t first = children * at + 1;
      if (first >= heap_.size()) break;
      std::size_t least = first;
      for (std::size_t c = first + 1; c < heap_.size() && c < first + children; ++c) {
        if (heap_[c].before(heap_[least])) least = c;
      }
      if (!heap_[least].before(entry)) break;
      put(at, heap_[least]);
      at = least;
    }
    put(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::size_t> place_;  // by flow
};

}  // namespace stepcast::sim
