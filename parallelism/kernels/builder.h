// Writes instructions, costs and works of one cohort while its bodies are lowered.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/program/program.h"
#include "topology/kernel_cost.h"

namespace stepcast::parallelism {

// One instruction as the kernel lists state it; everything defaults to a compute kernel launched by the host.
struct OpSpec {
  std::string name;
  sim::Category category = sim::Category::other;
  topology::AffineTime time;  // per_row acts on the rows of `load`
  double flops = 0;           // executed, fixed part
  double flops_per_row = 0;
  int load = -1;  // routing load, -1: none
  int layer = -1;
  std::uint8_t wait_streams = 0;
  int record_slot = -1;
  bool launch = true;  // false inside a CUDA graph
};

struct CommSpec {
  std::string name;
  std::string collective;  // "all_gather", ...
  sim::Stream stream = sim::Stream::tp;
  topology::AffineTime time;
  int target = -1;  // group class, channel or join class
  bool largest = true;
  double payload = 0, payload_per_row = 0, wire = 0, wire_per_row = 0, nic_share = 0;
  int load = -1;
  int layer = -1;
  // With `compute` it moves what the list made last, and waits for whatever else made that (wait_next); collectives of
  // data parallelism move gradients and parameters instead.
  std::uint8_t wait_streams = sim::bit(sim::Stream::compute);
  int record_slot = -1;
  bool launch = true;
};

// Lowering's own flag, which interleaved lists keep behind their exchange (Stage::body takes it off).
inline constexpr std::uint8_t mark_beside_exchange = 0x80;

class CohortBuilder {
 public:
  CohortBuilder(sim::Cohort& cohort, std::vector<std::string>& memory_parts);

  void begin_body(std::string name);
  [[nodiscard]] int end_body();  // index of the body
  // Of the body being written.
  [[nodiscard]] std::vector<sim::Instruction>& instructions() { return body_.instructions; }

  void compute(const OpSpec& op);
  void collective(const CommSpec& op);
  // Beside the kernel written last, piece by piece as that makes what is moved: begins with it.
  void collective_beside_last(const CommSpec& op);
  void send(const CommSpec& op);
  void receive(const CommSpec& op);
  void join(const CommSpec& op);
  void host_sync(std::string name, std::uint8_t wait_streams);
  // Between device and host, on the copy stream.
  void copy(const OpSpec& op);

  // Memory of the instruction written last; at the head of a list one that does nothing is written to carry it.
  void alloc(std::string_view part, double bytes, double bytes_per_row = 0);
  void free(std::string_view part, double bytes, double bytes_per_row = 0);
  // Held only while the instruction runs.
  void transient(std::string_view part, double bytes, double bytes_per_row = 0);

  [[nodiscard]] int new_slot();
  // The cohort's slot of that name, apart for the two instances of a call. Slots are read as of an instruction's place
  // in the list, so a slot may serve again once its reader is written.
  [[nodiscard]] int shared_slot(const std::string& name);

  // What made the value that the list works on, beside the compute stream: the next kernel, and every transfer until
  // then, also waits for these.
  void wait_next(std::uint8_t streams, int slot = -1);
  // A transfer that runs beside the next kernel (a cast ahead of it aside): whatever comes after that kernel, and every
  // transfer, waits for it.
  void wait_after_next(std::uint8_t streams) { later_streams_ = static_cast<std::uint8_t>(later_streams_ | streams); }
  // At the end of a list: compute waits for what is still awaited, as frameworks' streams do.
  void wait_now();

  // Instructions written from now on belong to the call's second instance, a list of its own.
  void second_instance(bool on);
  [[nodiscard]] bool second_instance() const { return second_; }
  // An instruction for interleaved lists, which place it themselves: `stream` waits for `slot`.
  [[nodiscard]] sim::Instruction wait_instruction(sim::Stream stream, int slot, bool second);
  // Idle time of the device before each kernel, launched one by one or inside a graph.
  void kernel_gap(Seconds launched, Seconds graphed) { gap_launched_ = launched, gap_graphed_ = graphed; }
  // Kernels written from now on are not launched one by one.
  void in_graph(bool on) { graph_ = on; }
  [[nodiscard]] bool in_graph() const { return graph_; }
  // Of fractions of launches, those that have come together; the rest is kept for the next of this body.
  [[nodiscard]] int whole_launches(double launches);
  // For bounds: layer by layer never more of them than a body of several layers has.
  void floor_launches() { launch_rounding_ = 0; }
  // Instructions written from now on stay with the exchange before them where lists are interleaved.
  void beside_exchange(bool on) { beside_ = on; }

  // What the works written since number `first` hold when they are done, by part: bytes and bytes a row.
  struct Held {
    double bytes = 0, bytes_per_row = 0;
  };
  [[nodiscard]] std::map<std::uint16_t, Held> held_since(std::size_t first) const;
  // Frees or takes again (with the instruction written last) what `held` says.
  void free(const std::map<std::uint16_t, Held>& held);
  void alloc(const std::map<std::uint16_t, Held>& held);

  [[nodiscard]] std::uint16_t part(std::string_view name);
  [[nodiscard]] sim::Cohort& cohort() { return cohort_; }

 private:
  void push(sim::Opcode opcode, sim::Stream stream, const topology::AffineTime& time, sim::NoiseKind noise,
            sim::Work work, std::uint8_t waits, int wait_slot, int record_slot, int target, int load, bool launch,
            bool largest);
  void forget_waits();
  [[nodiscard]] std::vector<sim::MemoryEffect>& last_memory();
  [[nodiscard]] std::uint8_t transfer_waits(std::uint8_t own) const;

  sim::Cohort& cohort_;
  std::vector<std::string>& parts_;
  sim::Body body_;
  std::uint8_t pending_waits_ = 0;
  int pending_slot_ = -1;
  std::uint8_t later_streams_ = 0;
  std::map<std::string, int> shared_slots_;
  bool second_ = false;
  bool graph_ = false;
  double launches_due_ = 0, launch_rounding_ = 0.5;
  bool beside_ = false;
  Seconds gap_launched_, gap_graphed_;
};

}  // namespace stepcast::parallelism
