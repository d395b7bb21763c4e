#include "sim/base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace stepcast {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(const std::string& found, const std::vector<std::string>& valid) {
  if (found.empty() || found.size() > 64) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, found.size() / 3) + 1;
  for (const std::string& name : valid) {
    const std::size_t distance = edit_distance(found, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = &name;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::string suggestion(const std::string& found, const std::vector<std::string>& valid) {
  const auto name = nearest_name(found, valid);
  return name ? "; did you mean '" + *name + "'?" : std::string{};
}

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "stepcast: internal error: %s at %s:%d; please report this\n", condition, file, line);
  std::abort();
}

}  // namespace stepcast
