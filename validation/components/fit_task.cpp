#include "validation/components/fit_task.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "validation/components/levenberg_marquardt.h"

namespace stepcast::validation {
namespace {

constexpr int folds = 5;
// Half of the rows repeat within about 2 %, a tenth are off by 10 % or more: between the two.
constexpr double robust_scale = 0.04;

using Rows = std::vector<std::size_t>;

std::vector<double> values_of(const Eigen::VectorXd& logs) {
  std::vector<double> values(static_cast<std::size_t>(logs.size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::exp(logs[static_cast<Eigen::Index>(i)]);
  return values;
}

LeastSquaresSolution fit_rows(const FitTask& task, const Rows& rows) {
  const auto n = static_cast<Eigen::Index>(task.parameters.size());
  LeastSquares problem;
  problem.start.resize(n);
  problem.lower.resize(n);
  problem.upper.resize(n);
  problem.prior_width.resize(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Parameter& p = task.parameters[static_cast<std::size_t>(i)];
    problem.start[i] = std::log(p.start);
    problem.lower[i] = std::log(p.lower);
    problem.upper[i] = std::log(p.upper);
    problem.prior_width[i] = p.prior_width;
  }
  problem.robust_scale = robust_scale;
  problem.residuals = [&](const Eigen::VectorXd& logs) {
    const std::vector<double> values = values_of(logs);
    Eigen::VectorXd r(static_cast<Eigen::Index>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      r[static_cast<Eigen::Index>(i)] = std::log(task.predict(values, rows[i]) / task.measured[rows[i]]);
    }
    return r;
  };
  return minimise(problem);
}

std::vector<double> errors_of(const FitTask& task, std::span<const double> values, const Rows& rows) {
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (const std::size_t row : rows) errors.push_back(task.predict(values, row) / task.measured[row] - 1);
  return errors;
}

// Groups in order of appearance are dealt to folds by a fixed hash, so that neighbours do not share one.
std::size_t fold_of(int group) {
  const auto mixed = static_cast<std::uint32_t>(group) * 2654435761u;
  return (mixed >> 8) % folds;
}

std::vector<double> cross_validate(const FitTask& task) {
  std::vector<double> errors;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    Rows train, test;
    for (std::size_t row = 0; row < task.measured.size(); ++row) {
      (fold_of(task.groups[row]) == fold ? test : train).push_back(row);
    }
    if (test.empty() || train.size() < task.parameters.size()) continue;
    const std::vector<double> values = values_of(fit_rows(task, train).x);
    std::ranges::copy(errors_of(task, values, test), std::back_inserter(errors));
  }
  return errors;
}

}  // namespace

Residuals residuals(std::span<const double> relative_errors) {
  Residuals result;
  result.n = relative_errors.size();
  if (relative_errors.empty()) return result;
  std::vector<double> signed_errors(relative_errors.begin(), relative_errors.end());
  std::ranges::sort(signed_errors);
  std::vector<double> magnitudes(signed_errors);
  for (double& e : magnitudes) e = std::abs(e);
  std::ranges::sort(magnitudes);
  const auto at = [](const std::vector<double>& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
  };
  result.median_abs = at(magnitudes, 0.5);
  result.p90_abs = at(magnitudes, 0.9);
  result.bias = at(signed_errors, 0.5);
  result.worst = magnitudes.back();
  return result;
}

FitReport run_fit(const FitTask& task, Refit refit) {
  STEPCAST_ASSERT(task.groups.size() == task.measured.size());
  FitReport report{task.component, task.device, task.variant, task.form, task.source, {}, {}, {}, {}, true};
  Rows all(task.measured.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<double> values = task.committed;
  if (refit == Refit::yes && !task.parameters.empty()) {
    const LeastSquaresSolution solution = fit_rows(task, all);
    values = values_of(solution.x);
    report.converged = solution.converged;
    report.fitted = residuals(errors_of(task, values, all));
    report.cross_validated = residuals(cross_validate(task));
  }
  const bool committed = task.committed.size() == task.parameters.size();
  if (committed) report.committed = residuals(errors_of(task, task.committed, all));
  for (std::size_t i = 0; i < task.parameters.size(); ++i) {
    FittedConstant constant{task.parameters[i].name, 0, 0, committed};
    if (i < values.size()) constant.fitted = values[i];
    if (committed) constant.committed = task.committed[i];
    report.constants.push_back(constant);
  }
  return report;
}

}  // namespace stepcast::validation
