#include "scenarios/reliability/interval.h"

#include <algorithm>
#include <cmath>
#include <eigen3/Eigen/Dense>

#include <oneapi/tbb/parallel_for.h>

#include "scenarios/reliability/simulate_run.h"

namespace stepcast::scenarios {
namespace {

constexpr int grid_points = 11;
constexpr double grid_reach = 2.5;  // the grid spans around / reach .. around x reach
constexpr int replicas = 64;        // of each grid point
constexpr double failures_a_replica = 1500;
constexpr int most_moves = 12;  // of the grid, when the optimum lies at its edge

// Wall over work at one interval, all replicas together.
double sampled_stretch(const RunPlan& plan) {
  std::vector<RunOutcome> outcomes(replicas);
  tbb::parallel_for(0, replicas, [&](int r) {
    outcomes[static_cast<std::size_t>(r)] = simulate_run(plan, static_cast<std::uint64_t>(r));
  });
  double wall = 0, work = 0;
  for (const RunOutcome& o : outcomes) {
    wall += o.wall_s;
    work += o.productive_s;
  }
  return wall / std::max(work, 1e-9);
}

// a / x + b + c x + d x^2 with x = tau / around, least squares.
Eigen::Vector4d fit(const std::vector<double>& x, const std::vector<double>& y) {
  Eigen::MatrixXd basis(static_cast<Eigen::Index>(x.size()), 4);
  Eigen::VectorXd values(static_cast<Eigen::Index>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    basis.row(row) << 1 / x[i], 1, x[i], x[i] * x[i];
    values[row] = y[i];
  }
  return basis.colPivHouseholderQr().solve(values);
}

double value(const Eigen::Vector4d& c, double x) { return c[0] / x + c[1] + c[2] * x + c[3] * x * x; }

// Of the fit, between two bounds.
double minimum(const Eigen::Vector4d& c, double low, double high) {
  constexpr int steps = 4000;
  double best = low;
  for (int i = 0; i <= steps; ++i) {
    const double x = low * std::pow(high / low, static_cast<double>(i) / steps);
    if (value(c, x) < value(c, best)) best = x;
  }
  return best;
}

}  // namespace

double young_interval(double cost_s, double mtbf_s) { return std::sqrt(2 * cost_s * mtbf_s); }

double daly_interval(double cost_s, double mtbf_s) {
  if (cost_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = cost_s / (2 * mtbf_s);
  return std::sqrt(2 * cost_s * mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_s;
}

double expected_stretch(double interval_s, double cost_s, double restart_s, double mtbf_s) {
  return mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((interval_s + cost_s) / mtbf_s) / interval_s;
}

SampledInterval sampled_interval(const RunPlan& plan, double around_s) {
  RunPlan probe = plan;
  probe.planned_every_s = never;
  probe.spare_nodes = -1;
  probe.work_s = never;
  probe.duration_s = failures_a_replica * probe.mtbf_s();
  // A snapshot begins when the one before is durable.
  const double shortest = std::max(1e-3 * around_s, plan.write_s);
  SampledInterval found;
  double centre = std::max(around_s, shortest);
  for (int move = 0; move < most_moves; ++move) {
    const double low = std::max(shortest, centre / grid_reach), high = std::max(centre, low) * grid_reach;
    std::vector<double> x, y;
    for (int i = 0; i < grid_points; ++i) {
      probe.interval_s = low * std::pow(high / low, static_cast<double>(i) / (grid_points - 1));
      x.push_back(probe.interval_s / centre);
      y.push_back(sampled_stretch(probe));
    }
    const Eigen::Vector4d c = fit(x, y);
    const double best = minimum(c, x.front(), x.back());
    found.optimum_s = best * centre;
    found.stretch = value(c, best);
    found.at_the_shortest = best <= x.front() * 1.001 && low <= shortest;
    const bool at_edge = best <= x.front() * 1.05 || best >= x.back() / 1.05;
    if (!at_edge || found.at_the_shortest) break;
    centre = found.optimum_s;
  }
  probe.interval_s = std::max(around_s, shortest);
  found.stretch_at_rule = sampled_stretch(probe);
  return found;
}

}  // namespace stepcast::scenarios
