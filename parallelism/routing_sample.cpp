#include "parallelism/routing_sample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <boost/math/special_functions/gamma.hpp>

namespace stepcast::parallelism::detail {
namespace {

constexpr int quantile_bits = 12;
constexpr std::size_t quantiles = std::size_t{1} << quantile_bits;

// Gamma(shape, 1) at the midpoints of 2^12 equal slices of probability, scaled so that their mean is the shape's. What
// lies beyond the last midpoint (1 - 2^-13) is cut off: about one draw in 8192.
std::vector<double> gamma_quantiles(double shape) {
  using namespace boost::math::policies;
  using Quiet = policy<domain_error<ignore_error>, overflow_error<ignore_error>, underflow_error<ignore_error>,
                       evaluation_error<ignore_error>, pole_error<ignore_error>>;
  std::vector<double> table(quantiles);
  double sum = 0;
  for (std::size_t i = 0; i < quantiles; ++i) {
    const double q = boost::math::gamma_p_inv(shape, (static_cast<double>(i) + 0.5) / quantiles, Quiet());
    table[i] = std::isfinite(q) && q > 0 ? q : 0;
    sum += table[i];
  }
  const double scale = sum > 0 ? shape * static_cast<double>(quantiles) / sum : 0;
  for (double& q : table) q *= scale;
  return table;
}

// Bits of an expert's hash: 0-31 the normal draw, 32-43 the gamma quantile, 48-63 whether it is drawn afresh.
std::size_t quantile_of(std::uint64_t hash) { return (hash >> 32) & (quantiles - 1); }

// Standard normal as the sum of four uniform bytes (Irwin-Hall): mean 510, variance 4 (2^16 - 1) / 12, bounded by 3.45
// standard deviations. The kurtosis is 0.3 below the normal one; rows of a rank are sums over its experts, which are
// nearer still. A tenth of the cost of Box-Muller.
double normal_of(std::uint64_t hash) {
  constexpr double mean = 510;
  const double deviation = 147.8005412709757;
  const auto bits = static_cast<std::uint32_t>(hash);
  const std::uint32_t pairs = (bits & 0x00ff00ffU) + ((bits >> 8) & 0x00ff00ffU);
  const auto sum = static_cast<std::int32_t>((pairs & 0xffffU) + (pairs >> 16));
  return (sum - mean) / deviation;
}

// Sum in a fixed order, in four strands: one addition is several cycles behind the one before.
double sum_of(const double* x, std::size_t n) {
  double strand[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) strand[j] += x[i + j];
  }
  for (; i < n; ++i) strand[0] += x[i];
  return (strand[0] + strand[1]) + (strand[2] + strand[3]);
}

double largest_of(const double* x, std::size_t n) {
  double strand[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) strand[j] = strand[j] < x[i + j] ? x[i + j] : strand[j];
  }
  for (; i < n; ++i) strand[0] = std::max(strand[0], x[i]);
  return std::max(std::max(strand[0], strand[1]), std::max(strand[2], strand[3]));
}

// Uniform in 0 .. n-1 (n below 2^32) from the upper bits of a hash (Lemire 2019, without rejection: bias below n/2^32).
std::size_t below(std::uint64_t hash, std::size_t n) { return ((hash >> 32) * n) >> 32; }

}  // namespace

Scratch::Scratch(int n)
    : experts(n),
      hot(std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n))),
      popularity(std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n))),
      expected(std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n))),
      variance(std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n))),
      deviation(std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n))),
      hash(std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>(n))),
      fresh(std::make_unique_for_overwrite<std::int32_t[]>(static_cast<std::size_t>(n))),
      rows(std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(n))) {}

Popularity::Popularity(const RoutingSpec& spec, int experts)
    : kind_(spec.kind),
      fresh_below_(static_cast<std::uint64_t>(std::llround((1.0 - std::clamp(spec.persistence, 0.0, 1.0)) * 65536.0))),
      experts_(static_cast<std::size_t>(experts)) {
  switch (kind_) {
    case SkewKind::balanced:
      break;
    case SkewKind::zipf:
      for (int rank = 1; rank <= experts; ++rank) table_.push_back(std::pow(rank, -spec.parameter));
      break;
    case SkewKind::dirichlet:
      table_ = gamma_quantiles(spec.parameter);
      break;
    case SkewKind::histogram:
      STEPCAST_ASSERT(!spec.histogram.empty() && spec.histogram.size() % experts_ == 0);
      table_ = spec.histogram;
      break;
  }
}

void Popularity::persistent(RngKey key, int layer, Scratch& scratch) const {
  double* hot = scratch.hot.get();
  if (kind_ == SkewKind::balanced) return;
  if (kind_ == SkewKind::histogram) {
    const std::size_t row = static_cast<std::size_t>(layer) % (table_.size() / experts_) * experts_;
    std::copy_n(table_.begin() + static_cast<std::ptrdiff_t>(row), experts_, hot);
    return;
  }
  const RngKey of_layer = key.with(static_cast<std::uint64_t>(layer));
  if (kind_ == SkewKind::dirichlet) {
    for (std::size_t e = 0; e < experts_; ++e) hot[e] = table_[quantile_of(of_layer.with(e).bits)];
    return;
  }
  // A random order of the ranks, grown one expert at a time (Fisher-Yates, inside out).
  for (std::size_t e = 0; e < experts_; ++e) {
    const std::size_t at = below(of_layer.with(e).bits, e + 1);
    hot[e] = hot[at];
    hot[at] = table_[e];
  }
}

void Popularity::of_microbatch(RngKey key, Scratch& scratch) const {
  const double* hot = scratch.hot.get();
  double* popularity = scratch.popularity.get();
  std::uint64_t* hash = scratch.hash.get();
  for (std::size_t e = 0; e < experts_; ++e) hash[e] = key.with(e).bits;
  if (kind_ == SkewKind::dirichlet) {
    for (std::size_t e = 0; e < experts_; ++e) {
      popularity[e] = (hash[e] >> 48) < fresh_below_ ? table_[quantile_of(hash[e])] : hot[e];
    }
    return;
  }
  std::copy_n(hot, experts_, popularity);
  if (kind_ != SkewKind::zipf || fresh_below_ == 0) return;
  std::size_t count = 0;
  for (std::size_t e = 0; e < experts_; ++e) {
    scratch.fresh[count] = static_cast<std::int32_t>(e);
    count += (hash[e] >> 48) < fresh_below_ ? 1U : 0U;
  }
  permute_fresh(count, scratch);
}

// The popularities of the first `count` experts of scratch.fresh change places at random: every microbatch keeps the
// whole of the Zipf law.
void Popularity::permute_fresh(std::size_t count, Scratch& scratch) const {
  double* popularity = scratch.popularity.get();
  for (std::size_t i = count; i > 1; --i) {
    const auto here = static_cast<std::size_t>(scratch.fresh[i - 1]);
    const std::size_t other = below(mix64(scratch.hash[here]), i);
    std::swap(popularity[here], popularity[static_cast<std::size_t>(scratch.fresh[other])]);
  }
}

namespace {

// expected = rows in proportion to popularity, none above `tokens`: what an expert cannot take goes to the others in
// proportion to theirs.
void expected_rows(double tokens, double rows, Scratch& scratch) {
  const auto n = static_cast<std::size_t>(scratch.experts);
  const double* popularity = scratch.popularity.get();
  double* expected = scratch.expected.get();
  const double sum = sum_of(popularity, n);
  if (!(sum > 0)) {
    std::fill_n(expected, n, rows / static_cast<double>(n));
    return;
  }
  const double scale = rows / sum;
  for (std::size_t e = 0; e < n; ++e) expected[e] = scale * popularity[e];
  if (scale * largest_of(popularity, n) <= tokens) return;

  double left = rows;   // for the experts that are not full
  double weight = sum;  // of those
  for (bool more = true; more;) {
    more = false;
    const double share = weight > 0 ? left / weight : 0;
    for (std::size_t e = 0; e < n; ++e) {
      if (expected[e] < 0) continue;  // full, marked
      expected[e] = share * popularity[e];
      if (expected[e] < tokens) continue;
      expected[e] = -1;
      left -= tokens;
      weight -= popularity[e];
      more = true;
    }
  }
  for (std::size_t e = 0; e < n; ++e) {
    if (expected[e] < 0) expected[e] = tokens;
  }
}

// Moves `expected` so that it lies in [0, tokens] and adds up to `rows`: what is missing is added in proportion to the
// room of each expert, what is too much is taken in proportion to its rows.
void clamp_and_balance(double tokens, double rows, Scratch& scratch) {
  const auto n = static_cast<std::size_t>(scratch.experts);
  double* x = scratch.expected.get();
  for (std::size_t e = 0; e < n; ++e) x[e] = std::min(std::max(x[e], 0.0), tokens);
  const double sum = sum_of(x, n);
  const double missing = rows - sum;
  if (missing > 0) {
    const double room = tokens * static_cast<double>(n) - sum;
    const double share = room > 0 ? std::min(missing / room, 1.0) : 0;
    for (std::size_t e = 0; e < n; ++e) x[e] = std::min(x[e] + share * (tokens - x[e]), tokens);
  } else if (missing < 0) {
    const double keep = rows / sum;
    for (std::size_t e = 0; e < n; ++e) x[e] *= keep;
  }
}

// Whole numbers with the sum `rows`: systematic rounding. The rows are laid end to end from a random start within the
// first, and an expert gets the whole numbers in its stretch. Unbiased, and exact at 0 and at `tokens`. In fixed point.
void round_rows(std::uint64_t random, std::int64_t tokens, std::int64_t rows, Scratch& scratch) {
  constexpr int fraction_bits = 20;
  constexpr auto one = std::int64_t{1} << fraction_bits;
  constexpr std::int64_t margin = one >> 8;  // the errors of 2^12 summands cannot carry the end over a whole number
  const auto n = static_cast<std::size_t>(scratch.experts);
  const double* x = scratch.expected.get();
  std::int64_t* out = scratch.rows.get();
  std::int64_t end = margin + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(one - 2 * margin));
  std::int64_t before = 0;
  for (std::size_t e = 0; e < n; ++e) {
    end += static_cast<std::int64_t>(x[e] * static_cast<double>(one) + 0.5);
    const std::int64_t upto = end >> fraction_bits;
    out[e] = upto - before;
    before = upto;
  }
  // What rounding errors leave over when there are more summands, or rows beyond 2^32.
  for (std::size_t e = 0; e < n && before != rows; ++e) {
    const std::int64_t change = std::clamp<std::int64_t>(rows - before, -out[e], tokens - out[e]);
    out[e] += change;
    before += change;
  }
}

}  // namespace

// Rows of an expert are binomial, mean mu = tokens pi, variance mu (1 - pi), with pi the chance that a token chooses
// it; their sum is fixed. Independent normals conditioned on their sum D = 0: x_e = mu_e + d_e - v_e / V * sum(d).
void draw_rows(std::int64_t tokens, int top_k, Scratch& scratch) {
  const auto n = static_cast<std::size_t>(scratch.experts);
  const auto most = static_cast<double>(tokens);
  const std::int64_t rows = tokens * top_k;
  expected_rows(most, static_cast<double>(rows), scratch);
  double* x = scratch.expected.get();
  double* variance = scratch.variance.get();
  const double per_token = tokens > 0 ? 1.0 / most : 0;
  double* deviation = scratch.deviation.get();
  for (std::size_t e = 0; e < n; ++e) {
    variance[e] = std::max(x[e] * (1.0 - x[e] * per_token), 0.0);
    deviation[e] = std::sqrt(variance[e]) * normal_of(scratch.hash[e]);
  }
  const double variances = sum_of(variance, n);
  const double excess = variances > 0 ? sum_of(deviation, n) / variances : 0;
  for (std::size_t e = 0; e < n; ++e) x[e] += deviation[e] - excess * variance[e];
  clamp_and_balance(most, static_cast<double>(rows), scratch);
  round_rows(mix64(scratch.hash[0]), tokens, rows, scratch);
}

void balanced_rows(std::int64_t tokens, int top_k, Scratch& scratch) {
  const std::int64_t rows = tokens * top_k;
  const std::int64_t each = rows / scratch.experts;
  const std::int64_t rest = rows % scratch.experts;
  std::int64_t given = 0;  // of `rest`, spread evenly over the experts
  for (std::int64_t e = 0; e < scratch.experts; ++e) {
    const std::int64_t upto = (e + 1) * rest / scratch.experts;
    scratch.rows[static_cast<std::size_t>(e)] = each + (upto - given);
    given = upto;
  }
}

namespace {

// Mean of a standard normal above z: phi(z) - z (1 - Phi(z)), tabulated; linear between, error below 1e-5.
class MeanAbove {
 public:
  static constexpr double far = 6;  // beyond it 0, or -z
  MeanAbove() {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      const double z = static_cast<double>(i) / per_deviation - far;
      const double density = std::exp(-0.5 * z * z) * 0.3989422804014327;
      table_[i] = density - z * 0.5 * std::erfc(z * 0.7071067811865476);
    }
  }
  // |z| < far
  double operator()(double z) const {
    const double at = (z + far) * per_deviation;
    const auto i = static_cast<std::size_t>(at);
    const double part = at - static_cast<double>(i);
    return table_[i] * (1 - part) + table_[i + 1] * part;
  }

 private:
  static constexpr double per_deviation = 80;
  std::array<double, static_cast<std::size_t>(2 * far * per_deviation) + 2> table_{};
};

}  // namespace

// Rows of a source are hypergeometric given the expert's total: mean mu = rows / sources, variance
// mu (1 - 1/sources) (1 - rows/tokens). As a normal, the mean above `slots` is sd (phi(z) - z (1 - Phi(z))), z = (slots
// - mu) / sd.
std::int64_t kept_rows(std::int64_t rows, std::int64_t tokens, std::int64_t sources, std::int64_t slots) {
  const auto n = static_cast<double>(sources);
  const double mean = static_cast<double>(rows) / n;
  const double chosen = tokens > 0 ? static_cast<double>(rows) / static_cast<double>(tokens) : 0;
  const double deviation = std::sqrt(std::max(mean * (1 - 1 / n) * (1 - chosen), 0.0));
  const double room = static_cast<double>(slots) - mean;
  static const MeanAbove mean_above;
  double excess = std::max(-room, 0.0);
  if (std::abs(room) < MeanAbove::far * deviation) excess = deviation * mean_above(room / deviation);
  const auto kept = static_cast<std::int64_t>(std::llround(static_cast<double>(rows) - n * std::max(excess, 0.0)));
  return std::clamp<std::int64_t>(kept, 0, std::min(rows, sources * slots));
}

}  // namespace stepcast::parallelism::detail
