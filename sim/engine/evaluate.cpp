#include "sim/engine/evaluate.h"

#include <array>

#include "sim/engine/lanes.h"

// Blocks are passed between inlined functions only, so the vector calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace stepcast::sim {
namespace {

STEPCAST_INLINE TickBlock larger(TickBlock a, TickBlock b) { return a > b ? a : b; }
STEPCAST_INLINE TickBlock splat(Ticks t) { return TickBlock{t, t, t, t, t, t, t, t}; }
STEPCAST_INLINE RealBlock splat(double t) { return RealBlock{t, t, t, t, t, t, t, t}; }

// ---- durations ----

// What the duration of one instruction is made of; see duration_ticks(), which this reproduces lane by lane.
struct DurationTerms {
  bool has_rows = false, has_slow = false, has_noise = false;
  Ticks constant = 0;  // when none of the three
  double base = 0;     // without rows: max(floor, base)
  double per_row = 0;
  double floor = 0;
  const float* rows = nullptr;
  const double* slow = nullptr;
  const std::uint64_t* keys = nullptr;
  std::uint64_t counter = 0;  // the ordinal's part of RngKey::with
  double noise_scale = 0;
};

STEPCAST_INLINE DurationTerms terms(const CohortState& s, const Instruction& in, const float* rows,
                                    std::uint64_t ordinal) {
  const Cost& cost = s.cohort->costs[in.cost];
  DurationTerms d;
  d.has_rows = rows != nullptr && cost.per_row_ticks != 0;
  const bool by_link = cost.noise == NoiseKind::link && !s.link_slow.empty();
  d.has_noise = cost.noise == NoiseKind::kernel && s.sigma > 0;
  d.has_slow = by_link || (cost.noise == NoiseKind::kernel && !s.uniform_speed);
  d.per_row = cost.per_row_ticks;
  d.floor = cost.floor_ticks;
  d.base = d.has_rows || cost.base_ticks >= cost.floor_ticks ? cost.base_ticks : cost.floor_ticks;
  d.constant = d.has_rows || d.has_slow ? 0 : nearest_tick(d.base);
  d.rows = rows;
  d.slow = by_link ? s.link_slow.data() : s.slow.data();
  d.keys = s.noise_keys.data();
  d.counter = ordinal * 0xd6e8feb86659fd93ULL + 0x2545f4914f6cdd1dULL;
  d.noise_scale = s.sigma * 3.4641016151377544;
  return d;
}

STEPCAST_INLINE RealBlock noise_block(const DurationTerms& d, std::size_t b) {
  const std::uint64_t c = d.counter;
  BitBlock x = block(d.keys, b) ^ BitBlock { c, c, c, c, c, c, c, c };
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x = x ^ (x >> 31);
  x = (x >> 12) | 0x3ff0000000000000ULL;
  return 1.0 + d.noise_scale * ((RealBlock)x - 1.5);
}

template <bool rows, bool slow, bool noise>
STEPCAST_INLINE TickBlock duration_block(const DurationTerms& d, std::size_t b) {
  if constexpr (!rows && !slow) return splat(d.constant);
  RealBlock t = splat(d.base);
  if constexpr (rows) {
    t = d.base + d.per_row * __builtin_convertvector(block(d.rows, b), RealBlock);
    t = t < d.floor ? splat(d.floor) : t;
  }
  if constexpr (noise) {
    t = t * (block(d.slow, b) * noise_block(d, b));
  } else if constexpr (slow) {
    t = t * block(d.slow, b);
  }
  return (TickBlock)(t + tick_magic) - std::bit_cast<std::int64_t>(tick_magic);
}

// Calls f(duration of block b) for each block, with the terms' kinds known to the compiler.
template <bool rows, bool slow, bool noise, class F>
STEPCAST_INLINE void each_block(const DurationTerms& d, std::size_t blocks, F f) {
  for (std::size_t b = 0; b < blocks; ++b) f(b, duration_block<rows, slow, noise>(d, b));
}
template <class F>
STEPCAST_INLINE void each_duration(const DurationTerms& d, std::size_t blocks, F f) {
  if (d.has_noise) {
    d.has_rows ? each_block<true, true, true>(d, blocks, f) : each_block<false, true, true>(d, blocks, f);
  } else if (d.has_slow) {
    d.has_rows ? each_block<true, true, false>(d, blocks, f) : each_block<false, true, false>(d, blocks, f);
  } else {
    d.has_rows ? each_block<true, false, false>(d, blocks, f) : each_block<false, false, false>(d, blocks, f);
  }
}

// ---- ready times ----

struct Inputs {
  std::array<const Ticks*, stream_count + 2> from;
  std::size_t count = 0;
  const Ticks* host = nullptr;
  Ticks host_offset = 0;
};

STEPCAST_INLINE Inputs inputs(const CohortState& s, const Instruction& in) {
  Inputs r;
  unsigned streams = in.wait_streams;
  if (in.op == Opcode::host_sync) {
    r.host = s.host();
    r.host_offset = s.host_offset;
  } else {
    streams |= bit(in.stream);
    if ((in.flags & flag_no_launch) == 0) {
      r.host = s.host();
      r.host_offset = s.host_offset + s.cohort->launch_ticks;
    }
  }
  while (streams != 0) {
    r.from[r.count++] = s.tail(static_cast<Stream>(__builtin_ctz(streams)));
    streams &= streams - 1;
  }
  if (in.wait_slot != none16) r.from[r.count++] = s.slot(in.wait_slot);
  return r;
}

STEPCAST_INLINE TickBlock host_block(const Inputs& r, std::size_t b) { return block(r.host, b) + r.host_offset; }

STEPCAST_INLINE void largest_input(const Inputs& r, std::size_t blocks, Ticks* out) {
  const Ticks* a = r.count > 0 ? r.from[0] : nullptr;
  const Ticks* c = r.count > 1 ? r.from[1] : nullptr;
  if (r.host != nullptr && c != nullptr) {
    for (std::size_t b = 0; b < blocks; ++b) block(out, b) = larger(host_block(r, b), larger(block(a, b), block(c, b)));
  } else if (r.host != nullptr && a != nullptr) {
    for (std::size_t b = 0; b < blocks; ++b) block(out, b) = larger(host_block(r, b), block(a, b));
  } else if (r.host != nullptr) {
    for (std::size_t b = 0; b < blocks; ++b) block(out, b) = host_block(r, b);
  } else if (c != nullptr) {
    for (std::size_t b = 0; b < blocks; ++b) block(out, b) = larger(block(a, b), block(c, b));
  } else {
    for (std::size_t b = 0; b < blocks; ++b) block(out, b) = block(a, b);
  }
  for (std::size_t i = 2; i < r.count; ++i) {
    const Ticks* more = r.from[i];
    for (std::size_t b = 0; b < blocks; ++b) block(out, b) = larger(block(out, b), block(more, b));
  }
}

// ---- groups ----

template <int bit_index>
STEPCAST_INLINE TickBlock swapped(TickBlock v) {
  if constexpr (bit_index == 0) return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
  if constexpr (bit_index == 1) return __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  return __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
}

STEPCAST_INLINE TickBlock within_block(TickBlock v, std::uint32_t low_mask) {
  if ((low_mask & 4U) != 0) v = larger(v, swapped<2>(v));
  if ((low_mask & 2U) != 0) v = larger(v, swapped<1>(v));
  if ((low_mask & 1U) != 0) v = larger(v, swapped<0>(v));
  return v;
}

STEPCAST_INLINE void largest_of_blocks(const GroupPlan& plan, const Ticks* in, Ticks* out) {
  const std::size_t n = plan.offsets.size();
  const std::uint32_t* offset = plan.offsets.data();
  for (const std::uint32_t base : plan.bases) {
    TickBlock v = block(in, base + offset[0]);
    std::size_t i = 1;
    if (n >= 8) {  // four chains, so that maxima do not wait for each other
      TickBlock w = block(in, base + offset[1]);
      TickBlock x = block(in, base + offset[2]);
      TickBlock y = block(in, base + offset[3]);
      for (i = 4; i + 4 <= n; i += 4) {
        v = larger(v, block(in, base + offset[i]));
        w = larger(w, block(in, base + offset[i + 1]));
        x = larger(x, block(in, base + offset[i + 2]));
        y = larger(y, block(in, base + offset[i + 3]));
      }
      v = larger(larger(v, w), larger(x, y));
    }
    for (; i < n; ++i) v = larger(v, block(in, base + offset[i]));
    v = within_block(v, plan.low_mask);
    for (i = 0; i < n; ++i) block(out, base + offset[i]) = v;
  }
}

STEPCAST_INLINE void largest_by_index(const GroupPlan& plan, const Ticks* in, Ticks* out) {
  const std::size_t size = plan.group_size;
  for (std::size_t first = 0; first < plan.lanes.size(); first += size) {
    const std::int32_t* lanes = plan.lanes.data() + first;
    Ticks v = in[lanes[0]];
    for (std::size_t i = 1; i < size; ++i) v = v > in[lanes[i]] ? v : in[lanes[i]];
    for (std::size_t i = 0; i < size; ++i) out[lanes[i]] = v;
  }
}

STEPCAST_INLINE void group_max(const GroupPlan& plan, std::size_t padded, const Ticks* in, Ticks* out) {
  switch (plan.kind) {
    case GroupPlan::Kind::blocks:
      return largest_of_blocks(plan, in, out);
    case GroupPlan::Kind::indexed:
      return largest_by_index(plan, in, out);
    case GroupPlan::Kind::alone:
      if (in == out) return;
      for (std::size_t b = 0; b < padded / block_lanes; ++b) block(out, b) = block(in, b);
  }
}

// ---- instructions ----

STEPCAST_INLINE void record(CohortState& s, const Instruction& in, std::size_t blocks, const Ticks* end) {
  if (in.record_slot == none16) return;
  Ticks* slot = s.slot(in.record_slot);
  for (std::size_t b = 0; b < blocks; ++b) block(slot, b) = block(end, b);
}

STEPCAST_INLINE void compute(CohortState& s, const Instruction& in, const DurationTerms& d, std::size_t blocks) {
  Ticks* tail = s.tail(in.stream);
  const Inputs r = inputs(s, in);
  if (r.count == 1 && r.host != nullptr) {
    each_duration(
        d, blocks, [&](std::size_t b, TickBlock t) __attribute__((always_inline)) {
          block(tail, b) = larger(block(tail, b), host_block(r, b)) + t;
        });
  } else if (r.count == 1) {
    each_duration(
        d, blocks, [&](std::size_t b, TickBlock t) __attribute__((always_inline)) { block(tail, b) += t; });
  } else {
    Ticks* ready = s.scratch(0);
    largest_input(r, blocks, ready);
    each_duration(
        d, blocks, [&](std::size_t b, TickBlock t) __attribute__((always_inline)) {
          block(tail, b) = block(ready, b) + t;
        });
  }
  record(s, in, blocks, tail);
}

STEPCAST_INLINE void collective(CohortState& s, const Instruction& in, const DurationTerms& d, std::size_t blocks,
                                std::uint64_t ordinal) {
  const GroupPlan& plan = s.groups[in.target];
  Ticks* tail = s.tail(in.stream);
  Ticks* begin = s.scratch(0);
  largest_input(inputs(s, in), blocks, begin);
  group_max(plan, s.padded, begin, begin);
  if ((in.flags & flag_largest) != 0 && (d.has_rows || d.has_slow)) {
    Ticks* longest = s.scratch(1);
    each_duration(
        d, blocks, [&](std::size_t b, TickBlock t) __attribute__((always_inline)) { block(longest, b) = t; });
    group_max(plan, s.padded, longest, longest);
    for (std::size_t b = 0; b < blocks; ++b) block(tail, b) = block(begin, b) + block(longest, b);
  } else {
    each_duration(
        d, blocks, [&](std::size_t b, TickBlock t) __attribute__((always_inline)) {
          block(tail, b) = block(begin, b) + t;
        });
  }
  s.add_delays(in, ordinal, tail);
  record(s, in, blocks, tail);
}

STEPCAST_INLINE void host_sync(CohortState& s, const Instruction& in, std::size_t blocks) {
  const Inputs r = inputs(s, in);
  if (r.count > 0) {
    largest_input(r, blocks, s.host());
    s.host_offset = 0;
  }
  s.host_offset += s.cohort->sync_ticks;
  if (in.record_slot == none16) return;
  Ticks* slot = s.slot(in.record_slot);
  for (std::size_t b = 0; b < blocks; ++b) block(slot, b) = block(s.host(), b) + s.host_offset;
}

STEPCAST_INLINE std::size_t run_local_here(CohortState& s, const Activation& a, std::size_t pc) {
  const std::size_t blocks = s.padded / block_lanes;
  for (; pc < a.size; ++pc) {
    const Instruction& in = a.code[pc];
    if (in.op == Opcode::compute || in.op == Opcode::collective) {
      const DurationTerms d = terms(s, in, s.rows_of(a, in), a.first_ordinal + pc);
      in.op == Opcode::compute ? compute(s, in, d, blocks) : collective(s, in, d, blocks, a.first_ordinal + pc);
      if ((in.flags & flag_no_launch) == 0) s.host_offset += s.cohort->launch_ticks;
    } else if (in.op == Opcode::host_sync) {
      host_sync(s, in, blocks);
    } else {
      break;
    }
  }
  return pc;
}

STEPCAST_INLINE void ready_here(const CohortState& s, const Instruction& in, Ticks* out) {
  largest_input(inputs(s, in), s.padded / block_lanes, out);
}

STEPCAST_INLINE void duration_here(const CohortState& s, const Instruction& in, const float* rows,
                                   std::uint64_t ordinal, Ticks* out) {
  each_duration(
      terms(s, in, rows, ordinal),
      s.padded / block_lanes, [&](std::size_t b, TickBlock t) __attribute__((always_inline)) { block(out, b) = t; });
}

// One set of entry points a target; everything above is inlined into them.
#define STEPCAST_KERNELS(isa, attributes)                                                                          \
  attributes std::size_t run_local_##isa(CohortState& s, const Activation& a, std::size_t pc) {                    \
    return run_local_here(s, a, pc);                                                                               \
  }                                                                                                                \
  attributes void ready_##isa(const CohortState& s, const Instruction& in, Ticks* out) { ready_here(s, in, out); } \
  attributes void duration_##isa(const CohortState& s, const Instruction& in, const float* rows,                   \
                                 std::uint64_t ordinal, Ticks* out) {                                              \
    duration_here(s, in, rows, ordinal, out);                                                                      \
  }                                                                                                                \
  attributes void group_max_##isa(const GroupPlan& plan, std::size_t padded, const Ticks* in, Ticks* out) {        \
    group_max(plan, padded, in, out);                                                                              \
  }                                                                                                                \
  constexpr Kernels kernels_##isa{run_local_##isa, ready_##isa, duration_##isa, group_max_##isa};

STEPCAST_KERNELS(baseline, )
#if defined(__x86_64__)
STEPCAST_KERNELS(avx2, __attribute__((target("avx2,bmi,bmi2"))))
STEPCAST_KERNELS(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,bmi,bmi2"))))
#endif

}  // namespace

const Kernels* kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) {
    const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    return has ? &kernels_avx512 : nullptr;
  }
  if (isa == Isa::avx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") ? &kernels_avx2 : nullptr;
#endif
  return isa == Isa::baseline ? &kernels_baseline : nullptr;
}

const Kernels& kernels() {
  static const Kernels& widest = []() -> const Kernels& {
    if (const Kernels* k = kernels(Isa::avx512)) return *k;
    if (const Kernels* k = kernels(Isa::avx2)) return *k;
    return *kernels(Isa::baseline);
  }();
  return widest;
}

}  // namespace stepcast::sim
