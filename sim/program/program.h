// What ranks execute.
//
// Ranks that run the same instruction list form a cohort (a pipeline stage and
// role); a lane is a rank's index in its cohort. A program stores each cohort's
// bodies once and the order in which they are called; what differs by rank
// (expert rows, speed, noise) is data indexed by rank. Memory grows with
// instructions per stage plus ranks, never with their product.
//
// Time of one instruction on one lane (all in Ticks, FIFO per stream):
//   ready = max(tail of its stream, tails of wait_streams, wait_slot, host issue)
//   compute:     begin = ready, end = begin + duration
//   collective:  begin = max over the group of ready,
//                end = begin + (own duration | largest duration of the group)
//   send:        begin = ready, end = begin + duration; the message arrives at end
//   receive:     begin = ready, end = max(ready, arrival of the channel's next message)
//   host_sync:   the host waits for wait_streams/wait_slot, then goes on after sync_ticks; on no stream, no cost
//   join:        a collective whose group spans cohorts
// The host issues instructions in order, launch_ticks each (host_sync is not issued); those with flag_no_launch
// neither take host time nor wait for it. record_slot, when set, takes the end. Tails and slots are read as of the
// instruction's place in the list and carried over from step to step, like the host.
// Sends are buffered: a send never waits for its receive, and nothing waits for an outstanding receive or join but
// what follows on its stream or waits for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace stepcast::sim {

enum class Opcode : std::uint8_t { compute, collective, send, receive, host_sync, join };
[[nodiscard]] const char* name(Opcode op);

// One a communicator, plus compute and a copy stream to the host.
enum class Stream : std::uint8_t { compute, tp, cp, ep, pp_send, pp_receive, dp, copy };
inline constexpr int stream_count = 8;
[[nodiscard]] const char* name(Stream stream);

constexpr std::uint8_t bit(Stream s) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(s)); }

// What time on an op counts as in the partition of a step.
enum class Category : std::uint8_t {
  gemm,
  grouped_gemm,
  attention,
  memory_bound,
  permute,
  quantise,
  recompute,
  optimizer,
  exposed_tp,
  exposed_cp,
  exposed_ep,
  exposed_pp,
  exposed_dp,
  wait_tp,
  wait_cp,
  wait_ep,
  wait_dp,
  bubble,
  host,
  data,
  other,
};
inline constexpr int category_count = 21;
[[nodiscard]] const char* name(Category category);

inline constexpr std::uint16_t none16 = 0xffff;

enum InstructionFlag : std::uint8_t {
  flag_no_launch = 1,  // inside a CUDA graph or otherwise not issued by the host
  flag_largest = 2,  // collective: everybody leaves with the slowest member (barrier); else each with its own duration
  flag_second_instance = 4,  // co-scheduled body: rows and memory of the call's second instance
  flag_shared = 8,  // loads links that others load too: its cost has a LinkUse (tier 2); members of a join alike
};

struct Instruction {
  Opcode op = Opcode::compute;
  Stream stream = Stream::compute;
  std::uint8_t wait_streams = 0;  // bits of streams whose tails it waits for
  std::uint8_t flags = 0;
  std::uint16_t wait_slot = none16;    // event slot it waits for
  std::uint16_t record_slot = none16;  // event slot that takes its end
  std::uint16_t cost = 0;              // index into Cohort::costs
  std::uint16_t target = none16;       // collective: group class; send, receive: channel; join: join class
  std::uint16_t work = 0;              // index into Cohort::works
  std::uint16_t load = none16;         // routing load that its duration and memory depend on
};
static_assert(sizeof(Instruction) == 16);

// duration = max(floor, base + per_row * rows) x slow factor x noise, to the nearest tick. kernel: the device's factor
// and noise; link: the factor of the rank's network link, no noise; none: neither.
enum class NoiseKind : std::uint8_t { none, kernel, link };
struct Cost {
  double base_ticks = 0;
  double per_row_ticks = 0;
  double floor_ticks = 0;
  NoiseKind noise = NoiseKind::none;
};

// What an instruction puts on links: the time that its busiest port of a kind needs for its bytes at full rate.
struct LinkUse {
  double nic_ticks = 0, nic_ticks_per_row = 0;
  double nvlink_ticks = 0, nvlink_ticks_per_row = 0;
  std::int32_t pattern = -1;  // index into Program::patterns; -1: none
  bool rows_leave = false;    // a lane's rows are those that it sends; else those that it receives
};

// The share of a link's capacity that is taken while the ports run at full rate.
struct LinkShare {
  std::int32_t link = 0;  // index into Program::link_capacity
  float nic = 0, nvlink = 0;
};
// One list's traffic in parts: from box to box, from NIC to NIC, or whatever else can move at a rate of its own. Links
// of the list that no part loads are those of the busiest place alone.
struct LinkParts {
  struct Load {
    std::int32_t at = 0;        // index into the list
    float nic = 0, nvlink = 0;  // of the list's share
  };
  struct Part {
    std::int32_t out = 0, in = 0;  // places that send and receive it
    double even = 0;  // its part of the ports of its places while all lanes have equal rows, in any unit; 0: uses none
    std::vector<Load> loads;
  };
  std::vector<std::vector<std::int32_t>> places;  // the lanes of each box or NIC, counted within the unit
  std::vector<Part> parts;                        // empty: not cut
};
// Where the traffic of a group class, channel or join goes: one list for each unit of the issuing cohort, or one list
// in all when it spans units.
struct LinkPattern {
  std::vector<std::vector<LinkShare>> of_unit;
  std::vector<LinkParts> boxes = {}, nics = {};  // of each list; empty: none is cut
};

enum class FlowLevel : std::uint8_t { macro, box, nic };
inline constexpr int flow_level_count = 3;
[[nodiscard]] const char* name(FlowLevel level);
enum class LinkKind : std::uint8_t { nvlink, nic, uplink, hashed_uplink };

// Which operations move as more than one flow.
struct FlowRule {
  std::optional<FlowLevel> level;  // of every operation that can be cut so, from its begin; none: engine/flows.h's rule
  std::vector<LinkKind> kinds;     // by link; empty: uplinks
};

// One part of memory; names in Program::memory_parts.
struct MemoryEffect {
  std::uint16_t part = 0;
  bool at_end = false;       // applied when the op ends, else when it begins
  double bytes = 0;          // positive allocates, negative frees
  double bytes_per_row = 0;  // times the rows of the instruction's load
};

// What an instruction is, for people and for accounts; never read by the fast pass.
struct Work {
  std::string name;  // "mla_up_proj", "dispatch", ...
  Category category = Category::other;
  std::int16_t layer = -1;    // decoder layer, -1: none
  double executed_flops = 0;  // per rank; plus flops_per_row x rows
  double flops_per_row = 0;
  double payload_bytes = 0;  // communication: buffer as nccl-tests counts size; plus payload_per_row x rows
  double payload_per_row = 0;
  double wire_bytes = 0;  // bytes this rank puts on links
  double wire_per_row = 0;
  double nic_share = 0;    // share of wire bytes on the NIC
  std::string collective;  // "all_gather", "all_to_all", "send_receive", ... empty for compute
  std::vector<MemoryEffect> memory;
};

struct Body {
  std::string name;  // "forward chunk 0"
  std::vector<Instruction> instructions;
};

// One activation of a body. `instance` is the microbatch within the pipeline (0 .. m-1), -1 where there is none.
struct Call {
  std::uint16_t body = 0;
  std::int32_t instance = -1;
  std::int32_t second_instance = -1;
};

// A partition of a cohort's lanes into groups of equal size that communicate together.
struct GroupClass {
  std::string name;  // "ep", "tp", "dp", "edp", "cp"
  int group_size = 1;
  std::vector<std::int32_t> lanes;  // concatenated members, group by group: lanes[g * group_size + i]
};

struct Cohort {
  std::string name;           // "stage 3"
  std::vector<RankId> ranks;  // lane -> rank
  std::vector<Body> bodies;
  std::vector<Call> calls;  // one step, in issue order
  std::vector<Cost> costs;
  std::vector<LinkUse> uses;  // by cost; empty: no instruction is shared
  std::vector<Work> works;
  std::vector<GroupClass> groups;
  // Lanes that share links with each other in step: the unit whose operation is one flow on shared links. By lane, 0 to
  // units - 1; empty: the cohort is one unit.
  std::vector<std::int32_t> unit_of_lane;
  int units = 1;
  int slots = 0;
  Ticks launch_ticks = 0;            // host time to issue one instruction
  Ticks sync_ticks = 0;              // host time after a host_sync
  Ticks step_host_ticks = 0;         // host time once a step (data loader, logging), before the first call
  std::vector<double> static_bytes;  // by memory part: weights, gradients, optimizer, context ...
};

// Ordered point-to-point messages from a cohort to another: the k-th send meets the k-th receive, lane by lane.
struct Channel {
  std::string name;
  std::int32_t from = 0, to = 0;        // cohorts
  std::vector<std::int32_t> from_lane;  // receiving lane -> sending lane; empty: the same lane
};

// A collective over members of several cohorts. Every member cohort runs it equally often, in the same order.
struct JoinClass {
  std::string name;
  std::vector<std::int32_t> cohorts;
  // Group of each lane, cohort by cohort in the order of `cohorts`; empty: all lanes form one group.
  std::vector<std::vector<std::int32_t>> group_of_lane;
};

struct Program {
  int ranks = 0;
  std::vector<Cohort> cohorts;
  std::vector<Channel> channels;
  std::vector<JoinClass> joins;
  std::vector<std::string> memory_parts;
  int loads = 0;  // routing loads (MoE layers) that instructions name
  std::vector<LinkPattern> patterns;
  std::vector<double> link_capacity;  // by link: what others leave of it, 0 to 1; empty: nothing is shared
  FlowRule flow_rule;

  [[nodiscard]] std::int64_t rank_ops() const;  // instructions times lanes of one step
};

// Broken references, groups that are no partition, channels whose sends and receives differ in number, joins run
// unequally often. Empty when sound. For tests and assertions: user input cannot cause any of them.
[[nodiscard]] std::vector<std::string> check(const Program& program);

}  // namespace stepcast::sim
