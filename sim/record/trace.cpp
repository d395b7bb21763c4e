#include "sim/record/trace.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/record/dependencies.h"
#include "sim/record/labels.h"
#include "sim/record/output_file.h"
#include "sim/record/trace_accounts.h"
#include "sim/record/trace_counters.h"

namespace stepcast::sim {
namespace {

constexpr int host_track = stream_count + 1;  // streams are 1 .. stream_count
constexpr int data_track = host_track + 1;    // the host's work once a step, which may lie under a synchronisation

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One line of the trace before it is formatted; sorted by time.
struct Line {
  enum class Kind : std::uint8_t {
    slice,
    waiting,
    host,
    data,
    carried,
    counter,
    flow_begin,
    flow_end
  } kind = Kind::slice;
  std::uint32_t op = 0;  // carried: index of the carried op
  Ticks at = 0, end = 0;
  std::uint32_t index = 0;  // flows: of the dependency; counters: of the point
};

class TraceWriter {
 public:
  TraceWriter(const Program& program, const Timeline& timeline, const TraceAccounts& accounts)
      : program_(program),
        timeline_(timeline),
        accounts_(accounts),
        labels_(program),
        dependencies_(dependencies(program, timeline)) {
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
    issue_accounts();
    for (std::uint32_t c = 0; c < accounts_.carried.size(); ++c) {
      const CarriedOp& op = accounts_.carried[c];
      lines_.push_back({Line::Kind::carried, c, std::max(op.begin, timeline_.step_begin), op.end, 0});
    }
    for (const Line& line : lines_) origin_ = std::min(origin_, line.at);
    counters_ = trace_counters(program_, timeline_, origin_);
    for (std::uint32_t c = 0; c < counters_.size(); ++c) {
      lines_.push_back({Line::Kind::counter, counters_[c].op, counters_[c].at, 0, c});
    }
    for (std::uint32_t d = 0; d < dependencies_.size(); ++d) flow(d);
    std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.at < b.at; });
  }

  void slices(std::uint32_t i) {
    const TimelineOp& op = timeline_.ops[i];
    const Instruction& in = instruction_of(program_, op);
    if (in.op == Opcode::host_sync) {
      lines_.push_back({Line::Kind::host, i, op.host, op.end, 0});
      return;
    }
    if (op.ready < op.begin) lines_.push_back({Line::Kind::waiting, i, op.ready, op.begin, 0});
    lines_.push_back({Line::Kind::slice, i, op.begin, op.end, 0});
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
      lines_.push_back({Line::Kind::host, i, op.host - launch, op.host, 0});
    }
  }

  // What the partition reads beside begin and end: the issue order, when the host had issued the kernel behind a gap,
  // when it had issued the rank's last op, and its work once a step.
  void issue_accounts() {
    order_.assign(timeline_.ops.size(), 0);
    issued_.assign(timeline_.ops.size(), -1);
    Ticks cursor = 0, issued = 0, synchronised = 0;
    bool any = false;
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      const TimelineOp& op = timeline_.ops[i];
      const Instruction& in = instruction_of(program_, op);
      const Cohort& cohort = program_.cohorts[static_cast<std::size_t>(op.cohort)];
      const bool first = i == 0 || op.rank != timeline_.ops[i - 1].rank;
      if (first) {
        cursor = issued = synchronised = timeline_.step_begin;
        any = false;
      }
      order_[i] = first ? 1 : order_[i - 1] + 1;
      if (in.op == Opcode::host_sync) {
        synchronised = op.end;
      } else if ((in.flags & flag_no_launch) == 0) {
        issued = std::max(issued, op.host);
        if (!any && cohort.step_host_ticks > 0) {
          const Ticks end = op.host - cohort.launch_ticks;
          lines_.push_back({Line::Kind::data, i, end - cohort.step_host_ticks, end, 0});
        }
        any = true;
      }
      if (in.op == Opcode::compute && in.stream == Stream::compute) {
        if (op.begin > cursor) issued_[i] = issued;
        cursor = std::max(cursor, op.end);
      }
      const bool last = i + 1 == timeline_.ops.size() || timeline_.ops[i + 1].rank != op.rank;
      if (last) rank_issued_.push_back(std::max(issued, synchronised));
    }
  }

  void flow(std::uint32_t d) {
    const Dependency& dependency = dependencies_[d];
    const TimelineOp& from = timeline_.ops[dependency.from];
    const TimelineOp& to = timeline_.ops[dependency.to];
    if (dependency.kind == Dependency::Kind::message) {
      lines_.push_back({Line::Kind::flow_begin, dependency.from, from.begin, 0, d});
      lines_.push_back({Line::Kind::flow_end, dependency.to, std::max(from.begin, to.begin), 0, d});
    } else if (dependency.kind == Dependency::Kind::group) {
      lines_.push_back({Line::Kind::flow_begin, dependency.from, from.begin, 0, d});
      lines_.push_back({Line::Kind::flow_end, dependency.to, to.begin, 0, d});
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
    for (std::size_t r = 0; r < timeline_.ranks.size(); ++r) {
      const RankId rank = timeline_.ranks[r];
      if (r < accounts_.stage_end.size() && r < rank_issued_.size()) {
        file.write(
            fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":0,\"name\":\"stepcast_rank\",\"args\":{{\"issued_us\":{},"
                        "\"stage_end_us\":{}}}}},\n",
                        rank.value, us(rank_issued_[r]), us(accounts_.stage_end[r])));
      }
      const Cohort& cohort = *home[static_cast<std::size_t>(rank.value)];
      named("process_name", rank.value, 0, "name", quoted(fmt::format("rank {} ({})", rank.value, cohort.name)));
      named("process_sort_index", rank.value, 0, "sort_index", std::to_string(rank.value));
      for (int tid = 1; tid <= data_track; ++tid) {
        const char* const track = tid == data_track   ? "data"
                                  : tid == host_track ? "host"
                                                      : name(static_cast<Stream>(tid - 1));
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
    if (line.kind == Line::Kind::carried) {
      carried(line);
      return;
    }
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
        partition_arguments(line.op, op, in);
        print("}}}},\n");
        break;
      case Line::Kind::data:
        print(
            "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"data, "
            "logging\",\"cat\":\"data\"}},\n",
            op.rank.value, data_track, us(line.at), us(line.end - line.at + origin_));
        break;
      case Line::Kind::carried:
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
        counter(counters_[line.index], op.rank);
        break;
      case Line::Kind::flow_begin:
      case Line::Kind::flow_end: {
        const bool begins = line.kind == Line::Kind::flow_begin;
        print("{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"id\":{},\"name\":\"{}\",\"cat\":\"dependency\"{}}},\n",
              begins ? 's' : 'f', op.rank.value, track, us(line.at), line.index + 1,
              name(dependencies_[line.index].kind), begins ? "" : ",\"bp\":\"e\"");
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

  // As the reader in scenarios/profile needs them; `order` follows the other arguments.
  void partition_arguments(std::uint32_t i, const TimelineOp& op, const Instruction& in) {
    print("{}\"order\":{}", text_.back() == '{' ? "" : ",", order_[i]);
    if (in.op == Opcode::compute && in.stream == Stream::compute) {
      if (issued_[i] >= 0) print(",\"issued_us\":{}", us(issued_[i]));
      return;
    }
    communication_arguments(labels_.of(op.cohort, op.call, op.pc), op.ready, op.begin);
    if (in.op == Opcode::receive && i < accounts_.sent.size()) print(",\"sent_us\":{}", us(accounts_.sent[i]));
  }

  void communication_arguments(const OpLabel& label, Ticks ready, Ticks begin) {
    print(",\"exposed_as\":\"{}\",\"waits_as\":\"{}\"", name(label.transfer), name(label.waiting));
    if (ready < begin) print(",\"ready_us\":{}", us(std::max(ready, origin_)));
  }

  void counter(const CounterPoint& point, RankId rank) {
    print("{{\"ph\":\"C\",\"pid\":{},\"tid\":0,\"ts\":{},", rank.value, us(point.at));
    switch (point.kind) {
      case CounterPoint::Kind::memory:
        print("\"name\":\"memory\",\"args\":{{\"gib\":{:.6f}}}}},\n", point.value / 1073741824.0);
        break;
      case CounterPoint::Kind::links:
        print("\"name\":\"link use\",\"args\":{{\"nvlink_gb_per_s\":{:.3f},\"nic_gb_per_s\":{:.3f}}}}},\n",
              point.value / 1e9, point.second / 1e9);
        break;
      case CounterPoint::Kind::rows:
        print("\"name\":\"experts' rows\",\"args\":{{\"rows\":{:.0f}}}}},\n", point.value);
        break;
    }
  }

  void carried(const Line& line) {
    const CarriedOp& op = accounts_.carried[line.op];
    const Cohort& cohort = program_.cohorts[static_cast<std::size_t>(op.cohort)];
    const Body& body = cohort.bodies[cohort.calls[static_cast<std::size_t>(op.call)].body];
    const Instruction& in = body.instructions[static_cast<std::size_t>(op.pc)];
    print(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":\"communication\",\"args\":{{"
        "\"order\":0",
        op.rank.value, static_cast<int>(in.stream) + 1, us(line.at), us(line.end - line.at + origin_),
        names_[static_cast<std::size_t>(op.cohort)][in.work]);
    communication_arguments(labels_.of(op.cohort, op.call, op.pc), op.ready, line.at);
    print("}}}},\n");
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
  const TraceAccounts& accounts_;
  Labels labels_;
  std::vector<Dependency> dependencies_;
  std::vector<std::vector<std::string>> names_;  // JSON strings, by cohort and work
  std::vector<CounterPoint> counters_;
  std::vector<Line> lines_;
  std::vector<std::uint32_t> order_;  // by op, from 1 within its rank
  std::vector<Ticks> issued_;         // by op: of kernels behind a gap; else negative
  std::vector<Ticks> rank_issued_;    // by rank
  Ticks origin_ = 0;                  // zero of the trace's clock
  std::string text_;
};

}  // namespace

std::int64_t estimate_trace_bytes(const Program& program, const Timeline& timeline) {
  const TraceAccounts none;
  return TraceWriter(program, timeline, none).estimate();
}

Status write_trace(const Program& program, const Conditions& conditions, const Timeline& timeline,
                   const std::filesystem::path& file) {
  const auto accounts = trace_accounts(program, conditions, timeline);
  if (!accounts) return accounts.errors();
  OutputFile out(file);
  TraceWriter(program, timeline, *accounts).write(out);
  return out.close();
}

}  // namespace stepcast::sim
