// One draw of the router: popularity of experts in, whole rows of each expert out.
//
// Internal to routing. The draws are hashes (sim/base/rng.h); nothing is kept between calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallelism/routing.h"
#include "sim/base/rng.h"

namespace stepcast::parallelism::detail {

// Memory for the draws of one call; sized once, not cleared.
struct Scratch {
  explicit Scratch(int experts);
  int experts;
  std::unique_ptr<double[]> hot;         // persistent popularity, any scale
  std::unique_ptr<double[]> popularity;  // of this microbatch
  std::unique_ptr<double[]> expected;    // rows, then the rows drawn before rounding
  std::unique_ptr<double[]> variance;
  std::unique_ptr<double[]> deviation;
  std::unique_ptr<std::uint64_t[]> hash;
  std::unique_ptr<std::int32_t[]> fresh;
  std::unique_ptr<std::int64_t[]> rows;  // the result
};

// Popularity by the routing spec: tables made once, then read only.
class Popularity {
 public:
  Popularity(const RoutingSpec& spec, int experts);

  // Fills scratch.hot for a layer of a sampled step.
  void persistent(RngKey key, int layer, Scratch& scratch) const;
  // Fills scratch.hash and scratch.popularity for one microbatch of a group: scratch.hot, in which each expert has been
  // drawn afresh with probability 1 - persistence.
  void of_microbatch(RngKey key, Scratch& scratch) const;

 private:
  void permute_fresh(std::size_t count, Scratch& scratch) const;

  SkewKind kind_;
  std::uint64_t fresh_below_;  // of 2^16
  std::size_t experts_;
  // zipf: popularity by rank. dirichlet: quantiles of the gamma distribution. histogram: rows of `experts`.
  std::vector<double> table_;
};

// Rows of each expert, scratch.rows, for `tokens` tokens that each choose top_k different experts with
// scratch.popularity. Adds up to tokens x top_k exactly; no expert gets more than `tokens`.
void draw_rows(std::int64_t tokens, int top_k, Scratch& scratch);

// The same without chance or skew: equal to within one row.
void balanced_rows(std::int64_t tokens, int top_k, Scratch& scratch);

// Rows of an expert that survive when each of `sources` ranks may send it at most `slots` rows: expected over the way
// in which `rows` rows of `tokens` tokens fall on the sources.
[[nodiscard]] std::int64_t kept_rows(std::int64_t rows, std::int64_t tokens, std::int64_t sources, std::int64_t slots);

}  // namespace stepcast::parallelism::detail
