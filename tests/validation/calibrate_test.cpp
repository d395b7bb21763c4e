// calibrate: constants that made the times are found again, and what cannot be told is said.
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "sim/base/json_reader.h"
#include "validation/calibrate/calibrate.h"
#include "validation/components/levenberg_marquardt.h"

namespace stepcast::validation {
namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;

// A model whose forecasts are cheap: seconds = a / x0 + b / x1 + c, with x0 and x1 read from the calibration.
struct Work {
  const char* id;
  double a, b, c;
};

double constant_in(const nlohmann::ordered_json& calibration, const std::string& name) {
  if (!calibration.contains("adjust")) return 1;
  for (const auto& a : calibration["adjust"]) {
    if (a["name"] == name) return a.contains("times") ? a["times"].get<double>() : a["value"].get<double>();
  }
  return 1;
}

Observation work(const Work& w, double x0, double x1, const char* device = "h100") {
  Observation o;
  o.id = w.id;
  o.ids = {w.id};
  o.family = "own";
  o.kind = "dense";
  o.device = device;
  o.software = "generic";
  o.measured_s = w.a / x0 + w.b / x1 + w.c;
  o.forecast = [w](const nlohmann::ordered_json& calibration, const std::vector<std::string>&) -> Result<double> {
    return w.a / constant_in(calibration, "rate") + w.b / constant_in(calibration, "memory") + w.c;
  };
  return o;
}

// The table in a file, since calibrate reads one.
class Table {
 public:
  explicit Table(const std::string& constants) {
    file_ = std::filesystem::temp_directory_path() / fmt::format("stepcast-constants-{}.json", ++count_);
    std::ofstream(file_) << "{\"constants\": [" << constants << "]}";
  }
  ~Table() { std::filesystem::remove(file_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  inline static int count_ = 0;
  std::filesystem::path file_;
};

std::string constant(const char* name, const char* key, double sigma, const char* more = "") {
  return fmt::format(R"({{"name": "{}", "keys": ["{}"], "sigma": {}, "meaning": "m", "source": "s"{}}})", name, key,
                     sigma, more);
}

Calibration fit(std::vector<Observation> rows, const Table& table, std::vector<Observation> targets = {}) {
  CalibrateOptions options;
  options.catalog_root = root;
  options.constants = table.file();
  options.breaks = false;
  options.evaluator.threads = 1;
  Observations fitted, predicted;
  fitted.rows = std::move(rows);
  predicted.rows = std::move(targets);
  const auto result = calibrate(std::move(fitted), std::move(predicted), options);
  REQUIRE(result.ok());
  return *result;
}

const std::vector<Work> varied = {{"a", 4, 1, 0}, {"b", 1, 4, 0}, {"c", 2, 2, 1},
                                  {"d", 8, 1, 2}, {"e", 1, 8, 1}, {"f", 3, 3, 0}};

TEST_CASE("constants that made the times are found again") {
  const Table table(constant("rate", "device.sustained_gemm.value", 0.3) + "," +
                    constant("memory", "device.membound.efficiency", 0.3));
  std::vector<Observation> rows;
  for (const Work& w : varied) rows.push_back(work(w, 0.8, 1.25));
  const Calibration c = fit(rows, table);
  REQUIRE(c.values.size() == 2);
  CHECK(c.values[0].value == Approx(0.8).epsilon(0.01));
  CHECK(c.values[1].value == Approx(1.25).epsilon(0.01));
  CHECK(c.converged);
  CHECK(c.after.median_abs < 0.005);
  CHECK(c.before.median_abs > 0.03);
  CHECK(c.values[0].low < 0.8);
  CHECK(c.values[0].high > 0.8);
  CHECK(c.values[0].told > 0.9);
  CHECK(c.diagnosis.ridges.empty());
  REQUIRE(c.profile["adjust"].size() == 2);
  CHECK(c.profile["adjust"][0]["times"].get<double>() == Approx(c.values[0].value));
}

TEST_CASE("an outlier moves the constants little and is named") {
  const Table table(constant("rate", "device.sustained_gemm.value", 0.3) + "," +
                    constant("memory", "device.membound.efficiency", 0.3));
  std::vector<Observation> rows;
  for (const Work& w : varied) rows.push_back(work(w, 0.8, 1.25));
  for (const Work& w : varied) rows.push_back(work(w, 0.8, 1.25));
  rows[3].measured_s *= 2;
  rows[3].id = "slow";
  const Calibration c = fit(rows, table);
  CHECK(c.values[0].value == Approx(0.8).epsilon(0.05));
  REQUIRE_FALSE(c.diagnosis.outliers.empty());
  CHECK(c.diagnosis.outliers.front().id == "slow");
  CHECK(c.diagnosis.outliers.front().error < -0.4);
}

TEST_CASE("constants that only act together are named as a ridge") {
  const Table table(constant("rate", "device.sustained_gemm.value", 0.3) + "," +
                    constant("memory", "device.membound.efficiency", 0.3));
  std::vector<Observation> rows;
  for (const double size : {1.0, 2.0, 4.0, 8.0}) rows.push_back(work({"r", size, size, 0}, 0.8, 0.8));
  const Calibration c = fit(rows, table);
  REQUIRE(c.diagnosis.ridges.size() == 1);
  CHECK(c.diagnosis.ridges.front().parts.size() == 2);
  CHECK(c.diagnosis.ridges.front().told < 0.5);
  // Both move the same way from their priors, since nothing tells them apart.
  CHECK(c.values[0].value == Approx(c.values[1].value).epsilon(0.01));
  CHECK(c.values[0].value == Approx(0.8).epsilon(0.03));
  REQUIRE_FALSE(c.diagnosis.correlations.empty());
  CHECK(c.diagnosis.correlations.front().value < -0.8);
}

TEST_CASE("a constant that names another device is not evaluated, kept at its prior and left out of the profile") {
  const Table table(constant("rate", "device.sustained_gemm.value", 0.3, R"(, "device": ["h100"])") + "," +
                    constant("memory", "device.membound.efficiency", 0.3, R"(, "device": ["b*"])"));
  std::vector<Observation> rows;
  for (const Work& w : varied) rows.push_back(work(w, 0.8, 1));
  const Calibration c = fit(rows, table);
  CHECK(c.values[1].rows == 0);
  CHECK(c.values[1].value == Approx(1));
  CHECK(c.profile["adjust"].size() == 1);
  CHECK(c.diagnosis.blind == std::vector<std::string>{"memory"});
}

TEST_CASE("intervals of forecasts cover, and grow with what the fit has not seen") {
  const Table table(constant("rate", "device.sustained_gemm.value", 0.3) + "," +
                    constant("memory", "device.membound.efficiency", 0.3));
  std::vector<Observation> rows, targets;
  for (std::size_t i = 0; i < varied.size(); ++i) {
    rows.push_back(work(varied[i], 0.8, 1.25));
    rows.back().measured_s *= i % 2 == 0 ? 1.03 : 0.97;
  }
  targets.push_back(work({"near", 4, 1, 0}, 0.8, 1.25));
  targets.push_back(work({"unseen", 4, 1, 0}, 0.8, 1.25));
  targets.back().software = "fsdp2";
  targets.push_back(work({"open", 4, 1, 0}, 0.8, 1.25));
  targets.back().alternatives = {{"micro_batch", {"workload.micro_batch=2"}}};
  const auto plain = targets.back().forecast;
  targets.back().forecast = [plain](const nlohmann::ordered_json& c,
                                    const std::vector<std::string>& sets) -> Result<double> {
    return *plain(c, sets) * (sets.empty() ? 1 : 1.4);
  };
  const Calibration c = fit(rows, table, targets);
  REQUIRE(c.predicted.rows.size() == 3);
  CHECK(c.predicted.inside == 3);
  const auto width = [](const Prediction& p) { return std::log(p.high_s / p.low_s); };
  CHECK(width(c.predicted.rows[1]) > width(c.predicted.rows[0]));
  CHECK(c.predicted.rows[2].high_s > 1.3 * c.predicted.rows[2].predicted_s);
  CHECK(c.predicted.rows[2].open_fields == std::vector<std::string>{"micro_batch"});
}

TEST_CASE("a table of constants is read strictly") {
  const std::pair<std::string, const char*> cases[] = {
      {constant("a", "nic.rate", 0.1), "begins with none of"},
      {constant("a", "device.membound.efficiency", 0.1) + "," + constant("a", "device.membound.efficiency", 0.1),
       "stands twice"},
      {constant("a", "device.membound.efficiency", 0.1, R"(, "prior": 9)"), "outside its bounds"},
      {constant("a", "device.membound.efficiency", 0.1, R"(, "form": "share")"), "prior"},
      {constant("a", "device.membound.efficiency", 0.1, R"(, "devices": ["h100"])"), "device"},
      {constant("a", "device.membound.efficiency", -1), "sigma"},
      {constant("a", "software.kernel_gaps_us", 0.1),
       "no constant of any software profile; did you mean 'software.kernel_"},
      {constant("a", "cluster.nic_eficiency", 0.1), "of a cluster; did you mean 'cluster.nic_efficiency'?"},
      {constant("a", "device.nosuch*", 0.1), "no constant of any device"},
      {constant("a", "device.membound.efficiency", 0.1, R"(, "device": ["h1000"])"), "did you mean 'h100'?"},
      {constant("a", "device.membound.efficiency", 0.1, R"(, "software": ["fsdpp"])"), "no software profile"},
      {constant("a", "device.membound.efficiency", 0.1, R"(, "device": [])"), "the list is empty"},
      {R"({"name": "a", "keys": [], "sigma": 0.1, "meaning": "m", "source": "s"})", "the list is empty"},
      {"", "no constant"}};
  for (const auto& [text, why] : cases) {
    CAPTURE(text);
    const Table table(text);
    const auto read = read_constants(table.file(), root);
    REQUIRE_FALSE(read.ok());
    CHECK(read.errors().front().message.find(why) != std::string::npos);
    CHECK(read.errors().front().where.starts_with(table.file().string() + ":1"));
  }
}

TEST_CASE("the product's table holds few constants, each known to the catalogues") {
  const auto constants = read_constants(default_constants(root), root);
  REQUIRE(constants.ok());
  int moe = 0, dense = 0;
  for (const auto& c : *constants) {
    moe += c.target.kind != "dense" ? 1 : 0;
    dense += c.target.kind != "moe" ? 1 : 0;
    CHECK_FALSE(c.measurement.empty());
  }
  CHECK(dense <= 30);
}

TEST_CASE("calibrated runs go through the loader and the engine of simulate") {
  const auto runs = parse_runs(
      "id,family,kind,model,device,devices,precision,sequence_length,global_batch,micro_batch,tp,pp,software,step_time_"
      "s\n"
      "a,own,dense,Llama3-8B,h100,8,bf16,8192,16,1,1,1,torchtitan-2025,2.4\n"
      "b,own,dense,Llama3-8B,h100,8,bf16,8192,16,1,1,1,torchtitan-2025,2.6\n"
      "c,own,dense,Llama3-8B,h100,8,bf16,8192,16,1,2,1,torchtitan-2025,2.9\n"
      "d,own,dense,no-such-model,h100,8,bf16,8192,16,1,2,1,torchtitan-2025,2.9\n",
      "runs.csv");
  REQUIRE(runs.ok());
  const Observations o = observe_runs(*runs, root, {});
  REQUIRE(o.rows.size() == 2);
  CHECK(o.rows[0].ids == std::vector<std::string>{"a", "b"});
  CHECK(o.rows[0].measured_s == Approx(2.5));
  CHECK(o.rows[0].spread == Approx(2.6 / 2.4 - 1));
  CHECK(o.refused.size() == 1);
  const auto plain = o.rows[0].forecast({}, {});
  REQUIRE(plain.ok());
  const auto parsed =
      parse_json(R"({"adjust": [{"keys": ["device.sustained_gemm.value"], "device": ["h1*"], "times": 0.5}]})", "p");
  const auto slow = o.rows[0].forecast(parsed->root, {});
  REQUIRE(slow.ok());
  CHECK(*slow > 1.3 * *plain);
}

TEST_CASE("minimise takes a matrix, weights and priors away from its start") {
  LeastSquares problem;
  problem.residuals = [](const Eigen::VectorXd& x) { return Eigen::Vector2d(x[0] - 1, x[0] - 3); };
  problem.jacobian = [](const Eigen::VectorXd&, const Eigen::VectorXd&) { return Eigen::MatrixXd::Ones(2, 1); };
  problem.start = Eigen::VectorXd::Constant(1, 10);
  problem.robust_scale = 0;
  problem.weights = Eigen::Vector2d(3, 1);
  CHECK(minimise(problem).x[0] == Approx(1.5));
  problem.prior = Eigen::VectorXd::Constant(1, 0);
  problem.prior_width = Eigen::VectorXd::Constant(1, 0.5);
  CHECK(minimise(problem).x[0] == Approx(6.0 / 8));
}

}  // namespace
}  // namespace stepcast::validation
