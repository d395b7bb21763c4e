// Reads Chrome trace JSON event by event: PyTorch profiler (Kineto) traces, and the product's own.
//
// The file streams through nlohmann's SAX parser, gzip or not, so memory does
// not grow with it. Times become whole nanoseconds from their decimal text: a
// double of microseconds since 1970 is good to a quarter of a microsecond only.
// A file that breaks off keeps the events before the break and says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::scenarios {

inline constexpr std::int64_t absent = INT64_MIN;

// One event; texts are empty and numbers `absent` where the event has none. Valid during the call only.
struct TraceEvent {
  std::string phase, name, category;
  std::int64_t begin_ns = absent, length_ns = absent;
  std::int64_t pid = absent, tid = absent;
  // args
  std::string label;  // "name" of metadata
  std::string collective, group_name, group_description, element_type;
  std::string exposed_as, waits_as;
  std::int64_t correlation = absent, in_elements = absent, out_elements = absent, group_size = absent;
  std::int64_t order = absent, issued_ns = absent, ready_ns = absent, sent_ns = absent, stage_end_ns = absent;

  void clear();
};

struct TraceInfo {
  std::string trace_name, device;  // device: name of the first of deviceProperties
  std::int64_t rank = absent, world_size = absent;
  std::int64_t events = 0;
  std::int64_t malformed = 0;  // elements of traceEvents that are no events, or have impossible times
  std::string broken;          // where and why the file breaks off; empty: it does not
};

// Calls `each` for the events of "traceEvents", or of a list at the root. Errors: unreadable, not JSON from its first
// event on, no traceEvents.
[[nodiscard]] Result<TraceInfo> read_trace_events(const std::filesystem::path& file,
                                                  const std::function<void(const TraceEvent&)>& each);

}  // namespace stepcast::scenarios
