// The README's table against the kept forecasts, and the kept forecasts against the code.
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "validation/error_table.h"

using namespace stepcast;
using namespace stepcast::validation;

namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  REQUIRE(stream.good());
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<RowResult> kept() {
  const auto rows = parse_forecasts(text_of(root / "validation" / "data" / "forecasts.csv"), "forecasts.csv");
  REQUIRE(rows.ok());
  return *rows;
}

std::set<std::string> ids(const char* file) {
  std::set<std::string> out;
  std::istringstream lines(text_of(root / "validation" / "data" / file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != '#') out.insert(line);
  }
  return out;
}

}  // namespace

TEST_CASE("The README's table of errors is that of the kept forecasts: else run validation/error_table.sh") {
  const std::string table = error_table(kept(), ids("fitted.txt"));
  CHECK(text_of(root / "README.md").find(table) != std::string::npos);
}

TEST_CASE("The kept forecasts cover the scored runs and are what the code gives: else run validation/error_table.sh") {
  const auto runs = read_runs(root / "validation" / "data" / "runs.csv");
  REQUIRE(runs.ok());
  const std::vector<RowResult> rows = kept();
  CHECK(static_cast<double>(rows.size()) > 0.95 * static_cast<double>(ids("scored.txt").size()));

  // Every family is met: a stride through its rows.
  constexpr int stride = 31;
  ValidateOptions options;
  options.catalog_root = root;
  options.ranges = false;
  options.threads = 2;
  std::map<std::string, int> seen;
  std::map<std::string, double> forecast;
  for (const RowResult& r : rows) {
    if (seen[r.family]++ % stride != 0) continue;
    options.only.push_back(r.id);
    forecast[r.id] = r.predicted_s;
  }
  const Validation now = validate(*runs, options);
  REQUIRE(now.rows.size() == forecast.size());
  for (const RowResult& r : now.rows) {
    CAPTURE(r.id);
    CHECK(r.predicted_s == Approx(forecast[r.id]).epsilon(1e-4));
  }
}

TEST_CASE("Forecasts read back as written; a damaged line is named") {
  std::vector<RowResult> rows(2);
  rows[0].id = "a-1";
  rows[0].family = "f";
  rows[0].device = "h100";
  rows[0].kind = "moe";
  rows[0].software = "nemo-24.07";
  rows[0].measured_s = 2;
  rows[0].predicted_s = 2.2;
  rows[0].error = 0.1;
  rows[1].id = "a, \"b\"";
  const std::string text = forecasts_csv(rows);
  const auto back = parse_forecasts(text, "f.csv");
  REQUIRE(back.ok());
  REQUIRE(back->size() == 2);
  CHECK(back->front().id == "a-1");
  CHECK(back->front().error == Approx(0.1));
  CHECK(back->back().id == rows[1].id);
  for (const char* damage : {"x,y\n", "a,b,c,d,e,1,2,3,4,5,6,nan\n", "a,b,c,d,e,1,2,,4,5,6,7\n"}) {
    const auto broken = parse_forecasts(text + damage, "f.csv");
    REQUIRE_FALSE(broken.ok());
    CHECK(broken.errors().front().where == "f.csv:4");
  }
  CHECK_FALSE(parse_forecasts("id\n", "f.csv").ok());
  CHECK_FALSE(parse_forecasts("", "f.csv").ok());
  rows[1].id = "a\nb";
  const auto broken_line = parse_forecasts(forecasts_csv(rows), "f.csv");
  REQUIRE(broken_line.ok());
  CHECK(broken_line->back().id == rows[1].id);
}
