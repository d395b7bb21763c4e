#include "sim/record/trace.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/record/dependencies.h"
#include "sim/record/output_file.h"

namespace stepcast::sim {
namespace {

constexpr int host_track = stream_count + 1;  // streams are 1 .. stream_count

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One line of the trace before it is formatted; sorted by time.
struct Line {
  enum class Kind : std::uint8_t { slice, waiting, host, counter, flow_begin, flow_end } kind = Kind::slice;
  std::uint32_t op = 0;
  Ticks at = 0, end = 0;
  double value = 0;        // counter: bytes
  std::uint32_t flow = 0;  // flows: index of the dependency
};

class TraceWriter {
 public:
  TraceWriter(const Program& program, const Timeline& timeline)
      : program_(program), timeline_(timeline), dependencies_(dependencies(program, timeline)) {
    for (const Cohort& cohort : program.cohorts) {
      std::vector<std::string>& names = names_.emplace_back();
      for (const Work& work : cohort.works) names.push_back(quoted(work.name));
    }
    collect();
  }

  void write(OutputFile& file) {
    file.write("{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"traceName\":\"stepcast\",\n");
    file.write(
        fmt::format("\"otherData\":{{\"step\":{},\"step_begin_us\":{},\"step_end_us\":{}}},\n\"traceEvents\":[\n",
                    timeline_.step, us(timeline_.step_begin), us(timeline_.step_end)));
    metadata(file);
    for (const Line& line : lines_) {
      text_.clear();
      format(line);
      file.write(text_);
    }
    // The step itself, as a process of its own; last, so that every line before ends in a comma.
    file.write(fmt::format(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":1,\"ts\":{},\"dur\":{},\"name\":\"step {}\",\"cat\":\"step\"}}\n]}}\n",
        program_.ranks, us(timeline_.step_begin), us(timeline_.step_end - timeline_.step_begin + origin_),
        timeline_.step));
  }

  // From the mean length of a few thousand lines.
  [[nodiscard]] std::int64_t estimate() {
    constexpr std::size_t samples = 4096;
    constexpr std::int64_t metadata_bytes_per_rank = 2000;
    const std::size_t stride = lines_.size() / samples + 1;
    std::int64_t bytes = 0, taken = 0;
    for (std::size_t i = 0; i < lines_.size(); i += stride, ++taken) {
      text_.clear();
      format(lines_[i]);
      bytes += static_cast<std::int64_t>(text_.size());
    }
    const auto lines = static_cast<std::int64_t>(lines_.size());
    return (taken > 0 ? bytes * lines / taken : 0) +
           metadata_bytes_per_rank * static_cast<std::int64_t>(timeline_.ranks.size());
  }

 private:
  // Nanoseconds, as readers keep times: neighbouring slices, rounded one by one at both ends, cannot overlap.
  [[nodiscard]] Ticks ns(Ticks t) const { return (t - origin_ + 500) / 1000; }
  [[nodiscard]] std::string us(Ticks t) const { return fmt::format("{}.{:03}", ns(t) / 1000, ns(t) % 1000); }

  void collect() {
    origin_ = timeline_.step_begin;
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      slices(i);
      origin_ = std::min(origin_, timeline_.ops[i].ready);
    }
    host_slices();
    for (const Line& line : lines_) origin_ = std::min(origin_, line.at);
    memory();
    for (std::uint32_t d = 0; d < dependencies_.size(); ++d) flow(d);
    std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.at < b.at; });
  }

  void slices(std::uint32_t i) {
    const TimelineOp& op = timeline_.ops[i];
    const Instruction& in = instruction_of(program_, op);
    if (in.op == Opcode::host_sync) {
      lines_.push_back({Line::Kind::host, i, op.host, op.end, 0, 0});
      return;
    }
    if (op.ready < op.begin) lines_.push_back({Line::Kind::waiting, i, op.ready, op.begin, 0, 0});
    lines_.push_back({Line::Kind::slice, i, op.begin, op.end, 0, 0});
  }

  // What the host issues of one call without a pause is one slice.
  void host_slices() {
    std::size_t open = lines_.size();  // index of the slice that may grow
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      const TimelineOp& op = timeline_.ops[i];
      const Instruction& in = instruction_of(program_, op);
      const Ticks launch = program_.cohorts[static_cast<std::size_t>(op.cohort)].launch_ticks;
      if (in.op == Opcode::host_sync) open = lines_.size();
      if (in.op == Opcode::host_sync || (in.flags & flag_no_launch) != 0 || launch == 0) continue;
      if (open < lines_.size()) {
        const TimelineOp& first = timeline_.ops[lines_[open].op];
        if (first.rank == op.rank && first.call == op.call && lines_[open].end == op.host - launch) {
          lines_[open].end = op.host;
          continue;
        }
      }
      open = lines_.size();
      lines_.push_back({Line::Kind::host, i, op.host - launch, op.host, 0, 0});
    }
  }

  // Running bytes in issue order, as sim/record/memory.h counts them, at times that never fall.
  void memory() {
    double bytes = 0;
    Ticks at = origin_;
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      const TimelineOp& op = timeline_.ops[i];
      if (i == 0 || op.rank != timeline_.ops[i - 1].rank) {
        bytes = 0;
        for (double part : program_.cohorts[static_cast<std::size_t>(op.cohort)].static_bytes) bytes += part;
        at = origin_;
        lines_.push_back({Line::Kind::counter, i, at, at, bytes, 0});
      }
      const Work& work = work_of(program_, op);
      for (const bool at_end : {false, true}) {
        const double before = bytes;
        for (const MemoryEffect& m : work.memory) {
          if (m.at_end == at_end) bytes += m.bytes + m.bytes_per_row * static_cast<double>(op.rows);
        }
        if (bytes == before) continue;
        at = std::max(at, at_end ? op.end : op.begin);
        lines_.push_back({Line::Kind::counter, i, at, at, bytes, 0});
      }
    }
  }

  void flow(std::uint32_t d) {
    const Dependency& dependency = dependencies_[d];
    const TimelineOp& from = timeline_.ops[dependency.from];
    const TimelineOp& to = timeline_.ops[dependency.to];
    if (dependency.kind == Dependency::Kind::message) {
      lines_.push_back({Line::Kind::flow_begin, dependency.from, from.begin, 0, 0, d});
      lines_.push_back({Line::Kind::flow_end, dependency.to, std::max(from.begin, to.begin), 0, 0, d});
    } else if (dependency.kind == Dependency::Kind::group) {
      lines_.push_back({Line::Kind::flow_begin, dependency.from, from.begin, 0, 0, d});
      lines_.push_back({Line::Kind::flow_end, dependency.to, to.begin, 0, 0, d});
    }
  }

  void metadata(OutputFile& file) {
    const auto named = [&](const char* what, int pid, int tid, const std::string& key, const std::string& value) {
      file.write(fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"{}\":{}}}}},\n", pid,
                             tid, what, key, value));
    };
    named("process_name", program_.ranks, 0, "name", "\"step\"");
    named("process_sort_index", program_.ranks, 0, "sort_index", "-1");
    std::vector<const Cohort*> home(static_cast<std::size_t>(program_.ranks), nullptr);
    for (const Cohort& cohort : program_.cohorts) {
      for (RankId rank : cohort.ranks) home[static_cast<std::size_t>(rank.value)] = &cohort;
    }
    for (RankId rank : timeline_.ranks) {
      const Cohort& cohort = *home[static_cast<std::size_t>(rank.value)];
      named("process_name", rank.value, 0, "name", quoted(fmt::format("rank {} ({})", rank.value, cohort.name)));
      named("process_sort_index", rank.value, 0, "sort_index", std::to_string(rank.value));
      for (int tid = 1; tid <= host_track; ++tid) {
        const char* const track = tid == host_track ? "host" : name(static_cast<Stream>(tid - 1));
        named("thread_name", rank.value, tid, "name", quoted(track));
        named("thread_sort_index", rank.value, tid, "sort_index", std::to_string(tid == host_track ? 0 : tid));
      }
    }
  }

  template <class... Arguments>
  void print(fmt::format_string<Arguments...> format_string, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format_string, std::forward<Arguments>(arguments)...);
  }

  void format(const Line& line) {
    const TimelineOp& op = timeline_.ops[line.op];
    const Instruction& in = instruction_of(program_, op);
    const Work& work = work_of(program_, op);
    const int track = line.kind == Line::Kind::host ? host_track : static_cast<int>(in.stream) + 1;
    switch (line.kind) {
      case Line::Kind::slice:
        begin_slice(line, op, track);
        print("\"name\":{},\"cat\":\"{}\",\"args\":{{", name_of(op, in),
              in.op == Opcode::compute ? name(work.category) : "communication");
        slice_arguments(op, in, work);
        print("}}}},\n");
        break;
      case Line::Kind::waiting:
        begin_slice(line, op, track);
        print("\"name\":\"wait for peers\",\"cat\":\"wait\"}},\n");
        break;
      case Line::Kind::host: {
        begin_slice(line, op, track);
        const Cohort& cohort = program_.cohorts[static_cast<std::size_t>(op.cohort)];
        const std::string& body = cohort.bodies[cohort.calls[static_cast<std::size_t>(op.call)].body].name;
        print("\"name\":{},\"cat\":\"host\"}},\n",
              in.op == Opcode::host_sync ? name_of(op, in) : quoted("issue " + body));
        break;
      }
      case Line::Kind::counter:
        print("{{\"ph\":\"C\",\"pid\":{},\"tid\":0,\"ts\":{},\"name\":\"memory\",\"args\":{{\"gib\":{:.6f}}}}},\n",
              op.rank.value, us(line.at), line.value / 1073741824.0);
        break;
      case Line::Kind::flow_begin:
      case Line::Kind::flow_end: {
        const bool begins = line.kind == Line::Kind::flow_begin;
        print("{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"id\":{},\"name\":\"{}\",\"cat\":\"dependency\"{}}},\n",
              begins ? 's' : 'f', op.rank.value, track, us(line.at), line.flow + 1, name(dependencies_[line.flow].kind),
              begins ? "" : ",\"bp\":\"e\"");
        break;
      }
    }
  }

  [[nodiscard]] const std::string& name_of(const TimelineOp& op, const Instruction& in) const {
    return names_[static_cast<std::size_t>(op.cohort)][in.work];
  }

  void begin_slice(const Line& line, const TimelineOp& op, int track) {
    const Ticks length = ns(line.end) - ns(line.at);
    print("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}.{:03},", op.rank.value, track, us(line.at),
          length / 1000, length % 1000);
  }

  void slice_arguments(const TimelineOp& op, const Instruction& in, const Work& work) {
    const char* comma = "";
    const auto argument = [&](const char* key, const auto& value) {
      print("{}\"{}\":{}", comma, key, value);
      comma = ",";
    };
    if (op.instance >= 0) argument("microbatch", op.instance);
    if (work.layer >= 0) argument("layer", work.layer);
    if (in.load != none16) argument("rows", op.rows);
    if (!work.collective.empty()) argument("collective", quoted(work.collective));
    const auto rows = static_cast<double>(op.rows);
    if (const double bytes = work.payload_bytes + work.payload_per_row * rows; bytes > 0) {
      argument("payload_bytes", static_cast<std::int64_t>(bytes));
    }
    if (const double bytes = work.wire_bytes + work.wire_per_row * rows; bytes > 0) {
      argument("wire_bytes", static_cast<std::int64_t>(bytes));
    }
    if (const double flops = work.executed_flops + work.flops_per_row * rows; flops > 0)
      argument("gflop", flops * 1e-9);
  }

  const Program& program_;
  const Timeline& timeline_;
  std::vector<Dependency> dependencies_;
  std::vector<std::vector<std::string>> names_;  // JSON strings, by cohort and work
  std::vector<Line> lines_;
  Ticks origin_ = 0;  // zero of the trace's clock
  std::string text_;
};

}  // namespace

std::int64_t estimate_trace_bytes(const Program& program, const Timeline& timeline) {
  return TraceWriter(program, timeline).estimate();
}

Status write_trace(const Program& program, const Conditions&, const Timeline& timeline,
                   const std::filesystem::path& file) {
  OutputFile out(file);
  TraceWriter(program, timeline).write(out);
  return out.close();
}

}  // namespace stepcast::sim
