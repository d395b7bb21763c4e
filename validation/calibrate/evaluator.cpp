#include "validation/calibrate/evaluator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>

namespace stepcast::validation {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Evaluator::Evaluator(const std::vector<CalibrationConstant>& constants, const std::vector<Observation>& rows,
                     EvaluatorOptions options)
    : constants_(constants), rows_(rows), options_(std::move(options)), failures_(rows.size()) {
  const auto n = static_cast<Eigen::Index>(rows.size());
  const auto p = static_cast<Eigen::Index>(constants.size());
  concerns_.resize(n, p);
  inert_.resize(n, p);
  inert_.setConstant(false);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Observation& o = rows[static_cast<std::size_t>(i)];
    for (Eigen::Index c = 0; c < p; ++c) {
      concerns_(i, c) = constants[static_cast<std::size_t>(c)].target.concerns(o.device, o.software, o.kind == "moe");
    }
  }
}

nlohmann::ordered_json Evaluator::calibration_of(std::size_t row, const Eigen::VectorXd& x) const {
  std::vector<CalibrationConstant> own;
  std::vector<double> values;
  for (Eigen::Index c = 0; c < x.size(); ++c) {
    if (!concerns_(static_cast<Eigen::Index>(row), c)) continue;
    const CalibrationConstant& constant = constants_[static_cast<std::size_t>(c)];
    own.push_back(constant);
    values.push_back(constant.to_value(x[c]));
  }
  return calibration_at(own, values);
}

double Evaluator::forecast(std::size_t row, const Eigen::VectorXd& x, const std::vector<std::string>& sets,
                           std::string* failure) const {
  const auto seconds = rows_[row].forecast(calibration_of(row, x), sets);
  if (seconds && *seconds > 0) return std::log(*seconds);
  if (failure != nullptr) *failure = seconds ? "the forecast is no time above 0" : seconds.errors().front().message;
  return not_a_number;
}

bool Evaluator::same_for(std::size_t row, const Eigen::VectorXd& a, const Eigen::VectorXd& b) const {
  for (Eigen::Index c = 0; c < a.size(); ++c) {
    if (concerns_(static_cast<Eigen::Index>(row), c) && a[c] != b[c]) return false;
  }
  return true;
}

std::vector<double> Evaluator::run(const std::vector<Task>& tasks, const Eigen::VectorXd& x, const char* what) {
  std::vector<double> values(tasks.size(), not_a_number);
  std::atomic<int> done{0};
  std::mutex lock;
  const int threads = options_.threads > 0 ? options_.threads : tbb::info::default_concurrency();
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  tbb::parallel_for(
      std::size_t{0}, tasks.size(),
      [&](std::size_t i) {
        if (cancelled()) return;
        const Task& task = tasks[i];
        Eigen::VectorXd at = x;
        if (task.constant >= 0)
          at[task.constant] += constants_[static_cast<std::size_t>(task.constant)].difference_step();
        values[i] = forecast(task.row, at, {}, task.constant < 0 ? &failures_[task.row] : nullptr);
        const int count = ++done;
        if (options_.progress) {
          const std::scoped_lock hold(lock);
          options_.progress(what, count, static_cast<int>(tasks.size()));
        }
      },
      tbb::simple_partitioner());
  forecasts_ += static_cast<long long>(tasks.size());
  return values;
}

Eigen::VectorXd Evaluator::predict(const Eigen::VectorXd& x) {
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (last_.size() == 0 || !same_for(i, x, last_x_)) tasks.push_back({i, -1});
  }
  if (last_.size() == 0) last_ = Eigen::VectorXd::Constant(static_cast<Eigen::Index>(rows_.size()), not_a_number);
  const std::vector<double> values = run(tasks, x, "forecasts");
  for (std::size_t t = 0; t < tasks.size(); ++t) last_[static_cast<Eigen::Index>(tasks[t].row)] = values[t];
  last_x_ = x;
  return last_;
}

Eigen::MatrixXd Evaluator::jacobian(const Eigen::VectorXd& x, const Eigen::VectorXd& at, bool all) {
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    for (Eigen::Index c = 0; c < x.size(); ++c) {
      if (concerns_(row, c) && std::isfinite(at[row]) && (all || !inert_(row, c))) tasks.push_back({i, c});
    }
  }
  const std::vector<double> values = run(tasks, x, "derivatives");
  Eigen::MatrixXd j = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(rows_.size()), x.size());
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const auto row = static_cast<Eigen::Index>(tasks[t].row);
    const Eigen::Index c = tasks[t].constant;
    const double change = values[t] - at[row];
    inert_(row, c) = !std::isfinite(change) || change == 0;
    if (std::isfinite(change)) j(row, c) = change / constants_[static_cast<std::size_t>(c)].difference_step();
  }
  return j;
}

double Evaluator::predict_row(std::size_t row, const Eigen::VectorXd& x, const std::vector<std::string>& sets) const {
  return forecast(row, x, sets, nullptr);
}

}  // namespace stepcast::validation
