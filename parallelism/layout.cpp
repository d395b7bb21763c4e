#include "parallelism/layout.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace stepcast::parallelism {
namespace {

const std::vector<std::string> axis_names{"tp", "cp", "ep", "dp", "pp"};

std::size_t index(Axis axis) { return static_cast<std::size_t>(axis); }

// Collects faults in words.
struct Faults {
  Errors errors;

  void add(const char* key, std::string message) {
    errors.push_back(make_error(ErrorCode::invalid, std::move(message), fmt::format("/parallelism/{}", key)));
  }
  // `degree` must divide `what`; sizes of zero are unknown and not checked.
  void divides(const char* key, std::int64_t degree, int size, const std::string& what) {
    if (size > 0 && size % degree != 0) add(key, fmt::format("{} {} must divide the {}", key, degree, what));
  }
};

void check_range(Faults& faults, const char* key, int value, int low = 1, int high = largest_degree) {
  if (value < low || value > high) faults.add(key, fmt::format("{} is {}; it must be {} to {}", key, value, low, high));
}

std::vector<std::string> split_order(const std::string& order) {
  std::vector<std::string> names{""};
  for (const char c : order) {
    if (c == '-') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  return names;
}

// The order's names if it is a permutation of the five axes; axes of degree 1 may be left out, as in Megatron-Core,
// and then stand last. `dp` counts as left out only when written nowhere and both dp and edp are 1.
std::vector<std::string> checked_order(const std::string& order, const Degrees& degrees, bool data_parallel,
                                       Faults& faults) {
  constexpr std::size_t longest = 64;
  if (order.size() > longest) {
    faults.add("order",
               fmt::format("order has {} characters; it is a permutation such as tp-cp-ep-dp-pp", order.size()));
    return {};
  }
  std::vector<std::string> names = split_order(order);
  const std::size_t before = faults.errors.size();
  for (const std::string& name : names) {
    if (std::find(axis_names.begin(), axis_names.end(), name) == axis_names.end()) {
      faults.add("order", fmt::format("order '{}' names '{}'; the axes are tp, cp, ep, dp, pp{}", order, name,
                                      suggestion(name, axis_names)));
    }
  }
  for (const std::string& name : axis_names) {
    const auto times = std::count(names.begin(), names.end(), name);
    if (times > 1)
      faults.add("order", fmt::format("order '{}' names {} {} times; once is allowed", order, name, times));
    if (times > 0) continue;
    const bool larger = (name == "tp" && (degrees.tp > 1 || degrees.etp.value_or(1) > 1)) ||
                        (name == "cp" && degrees.cp > 1) || (name == "ep" && degrees.ep > 1) ||
                        (name == "pp" && degrees.pp > 1) || (name == "dp" && data_parallel);
    if (larger) faults.add("order", fmt::format("order '{}' leaves out {}, whose degree is above 1", order, name));
    names.push_back(name);
  }
  if (faults.errors.size() > before) names.clear();
  return names;
}

// tp x cp x pp against the devices; dp given against derived. The derived dp, 0 where there is none.
int derive_dp(const Degrees& d, int devices, Faults& faults) {
  const std::int64_t model_ranks = std::int64_t{d.tp} * d.cp * d.pp;
  if (devices % model_ranks != 0) {
    faults.add("dp", fmt::format("tp {} x cp {} x pp {} = {} must divide the {} devices", d.tp, d.cp, d.pp, model_ranks,
                                 devices));
    return 0;
  }
  const int dp = static_cast<int>(devices / model_ranks);
  if (d.dp && *d.dp != dp) {
    faults.add("dp", fmt::format("dp is {}, but {} devices / (tp {} x cp {} x pp {}) = {}", *d.dp, devices, d.tp, d.cp,
                                 d.pp, dp));
  }
  return dp;
}

int derive_edp(const Degrees& d, int etp, int devices, Faults& faults) {
  const std::int64_t expert_ranks = std::int64_t{etp} * d.ep * d.pp;
  if (devices % expert_ranks != 0) {
    faults.add("ep", fmt::format("etp {} x ep {} x pp {} = {} must divide the {} devices", etp, d.ep, d.pp,
                                 expert_ranks, devices));
    return 0;
  }
  return static_cast<int>(devices / expert_ranks);
}

void check_model(const Degrees& d, int etp, const Divisibility& limits, Faults& faults) {
  faults.divides("tp", d.tp, limits.heads, fmt::format("{} attention heads", limits.heads));
  // Fewer key-value heads than tp: each is held by tp / kv_heads ranks.
  if (limits.kv_heads > 0 && d.tp > limits.kv_heads && d.tp % limits.kv_heads != 0) {
    faults.add("tp", fmt::format("the {} key-value heads must divide tp {}, which is above them (each is replicated)",
                                 limits.kv_heads, d.tp));
  }
  if (d.tp <= limits.kv_heads)
    faults.divides("tp", d.tp, limits.kv_heads, fmt::format("{} key-value heads", limits.kv_heads));
  faults.divides("tp", d.tp, limits.hidden, fmt::format("hidden size {}", limits.hidden));
  faults.divides("tp", d.tp, limits.ffn, fmt::format("feed-forward width {}", limits.ffn));
  faults.divides("etp", etp, limits.expert_ffn, fmt::format("expert width {}", limits.expert_ffn));
  if (limits.experts > 0 && d.ep > limits.experts) {
    faults.add("ep", fmt::format("ep {} is above the {} experts; a rank would hold none", d.ep, limits.experts));
  } else {
    faults.divides("ep", d.ep, limits.experts, fmt::format("{} experts", limits.experts));
  }
}

void check_sequence_and_layers(const Degrees& d, const Divisibility& limits, Faults& faults) {
  const int sequence = limits.sequence_length;
  if (d.cp > 1 && sequence > 0 && sequence % (2 * d.cp) != 0) {
    faults.add("cp", fmt::format("2 x cp = {} must divide the sequence length {} (each rank takes one early and one "
                                 "late piece of the causal mask)",
                                 2 * d.cp, sequence));
  } else if (limits.sequence_parallel && d.tp > 1 && sequence > 0 && sequence % (std::int64_t{d.tp} * d.cp) != 0) {
    faults.add("tp", d.cp == 1 ? fmt::format("tp {} must divide the sequence length {}", d.tp, sequence)
                               : fmt::format("tp {} x cp {} = {} must divide the sequence length {}", d.tp, d.cp,
                                             std::int64_t{d.tp} * d.cp, sequence));
  }
  const std::int64_t pieces = std::int64_t{d.pp} * d.vpp;
  // As many pieces as layers, embedding and loss together: the first and the last piece hold no layer.
  if (limits.layers > 0 && pieces > limits.layers && pieces != std::int64_t{limits.layers} + 2) {
    faults.add("pp", d.vpp == 1 ? fmt::format("pp {} is above the {} layers", d.pp, limits.layers)
                                : fmt::format("pp {} x vpp {} = {} is above the {} layers", d.pp, d.vpp, pieces,
                                              limits.layers));
  }
}

}  // namespace

int Layout::degree(Axis axis) const {
  switch (axis) {
    case Axis::tp:
      return tp;
    case Axis::cp:
      return cp;
    case Axis::dp:
      return dp;
    case Axis::pp:
      return pp;
    case Axis::etp:
      return etp;
    case Axis::ep:
      return ep;
    case Axis::edp:
      return edp;
  }
  return 1;
}

int Layout::coordinate(RankId rank, Axis axis) const { return rank.value / stride_[index(axis)] % degree(axis); }

std::vector<RankId> Layout::group(RankId rank, Axis axis) const {
  const int stride = stride_[index(axis)];
  const int first = rank.value - coordinate(rank, axis) * stride;
  std::vector<RankId> members;
  members.reserve(static_cast<std::size_t>(degree(axis)));
  for (int i = 0; i < degree(axis); ++i) members.emplace_back(first + i * stride);
  return members;
}

std::vector<RankId> Layout::plane(RankId rank, Axis first, Axis second) const {
  std::vector<RankId> members;
  members.reserve(static_cast<std::size_t>(degree(first)) * static_cast<std::size_t>(degree(second)));
  for (const RankId along : group(rank, first)) {
    const std::vector<RankId> line = group(along, second);
    members.insert(members.end(), line.begin(), line.end());
  }
  std::sort(members.begin(), members.end());
  return members;
}

std::vector<RankId> Layout::dp_cp_group(RankId rank) const { return plane(rank, Axis::dp, Axis::cp); }

std::vector<RankId> Layout::expert_group(RankId rank) const { return plane(rank, Axis::etp, Axis::ep); }

std::vector<RankId> Layout::stage_ranks(StageId stage) const {
  std::vector<RankId> members;
  members.reserve(static_cast<std::size_t>(ranks_per_stage()));
  for (int r = 0; r < ranks(); ++r) {
    if (coordinate(RankId(r), Axis::pp) == stage.value) members.emplace_back(r);
  }
  return members;
}

namespace {

struct Numbering {
  std::array<int, axis_count> stride{};
  int expert_pp_stride = 1;
};

// Mixed radix, fastest first: an axis' stride is the product of the degrees before it, per numbering.
Numbering number(const Layout& layout, const std::vector<std::string>& order) {
  Numbering n;
  int attention = 1;
  int expert = 1;
  const auto next = [&n](Axis axis, int degree, int& ranks) {
    n.stride[index(axis)] = ranks;
    ranks *= degree;
  };
  for (const std::string& name : order) {
    if (name == "tp") {
      next(Axis::tp, layout.tp, attention);
      next(Axis::etp, layout.etp, expert);
    } else if (name == "cp") {
      next(Axis::cp, layout.cp, attention);
    } else if (name == "ep") {
      next(Axis::ep, layout.ep, expert);
    } else if (name == "dp") {
      next(Axis::dp, layout.dp, attention);
      next(Axis::edp, layout.edp, expert);
    } else {
      n.expert_pp_stride = expert;
      next(Axis::pp, layout.pp, attention);
      expert *= layout.pp;
    }
  }
  return n;
}

// The checks that need no arithmetic; the others divide by what these pass.
void check_ranges(const Degrees& degrees, int etp, int devices, Faults& faults) {
  check_range(faults, "tp", degrees.tp);
  check_range(faults, "cp", degrees.cp);
  check_range(faults, "pp", degrees.pp);
  check_range(faults, "vpp", degrees.vpp);
  check_range(faults, "ep", degrees.ep);
  check_range(faults, "etp", etp);
  if (degrees.dp) check_range(faults, "dp", *degrees.dp, 1, most_devices);
  if (devices < 1 || devices > most_devices) {
    faults.errors.push_back(make_error(
        ErrorCode::invalid, fmt::format("{} devices; it must be 1 to {}", devices, most_devices), "/cluster/devices"));
  }
}

}  // namespace

Result<Layout> make_layout(const Degrees& degrees, const Divisibility& limits) {
  Faults faults;
  const int etp = degrees.etp.value_or(1);
  check_ranges(degrees, etp, limits.devices, faults);
  if (!faults.errors.empty()) return faults.errors;  // the rest divides by these

  Layout layout;
  layout.dp = derive_dp(degrees, limits.devices, faults);
  layout.edp = derive_edp(degrees, etp, limits.devices, faults);
  layout.tp = degrees.tp;
  layout.cp = degrees.cp;
  layout.pp = degrees.pp;
  layout.vpp = degrees.vpp;
  layout.ep = degrees.ep;
  layout.etp = etp;
  check_model(degrees, etp, limits, faults);
  check_sequence_and_layers(degrees, limits, faults);
  const std::vector<std::string> order = checked_order(degrees.order, degrees, layout.dp > 1 || layout.edp > 1, faults);
  if (!faults.errors.empty()) return faults.errors;

  for (const std::string& name : order) layout.order += (layout.order.empty() ? "" : "-") + name;
  const Numbering numbering = number(layout, order);
  layout.stride_ = numbering.stride;
  // Both numberings must put a rank into the same stage. Without experts only attention's counts.
  if (layout.pp > 1 && layout.stride_[index(Axis::pp)] != numbering.expert_pp_stride) {
    if (limits.experts == 0 && layout.ep == 1 && layout.etp == 1) {
      layout.edp = 1;
      return layout;
    }
    faults.add("order",
               fmt::format("order '{}' steps {} ranks between stages for attention (tp {}, cp {}, dp {}) but {} for "
                           "experts (etp {}, ep {}, edp {}); put pp last, or choose degrees that agree before pp",
                           layout.order, layout.stride_[index(Axis::pp)], layout.tp, layout.cp, layout.dp,
                           numbering.expert_pp_stride, layout.etp, layout.ep, layout.edp));
    return faults.errors;
  }
  return layout;
}

}  // namespace stepcast::parallelism
