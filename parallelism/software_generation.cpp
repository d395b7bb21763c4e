#include "parallelism/software_generation.h"

#include <algorithm>
#include <cctype>

namespace stepcast::parallelism {
namespace {

enum class Scale : unsigned char { none, release, year };

struct Generation {
  std::string framework;
  Scale scale = Scale::none;
  std::vector<double> version;
};

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string plain(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool gap = c == ' ' || c == '_';
    out += gap ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// Numbers of "0.13.1" or "v25.09"; stops at what is neither digit nor point.
std::vector<double> numbers(const std::string& text) {
  std::vector<double> out;
  std::size_t at = !text.empty() && text.front() == 'v' ? 1 : 0;
  while (at < text.size() && digit(text[at])) {
    double value = 0;
    while (at < text.size() && digit(text[at])) value = 10 * value + (text[at++] - '0');
    out.push_back(value);
    if (at < text.size() && text[at] == '.') ++at;
  }
  return out;
}

Generation read(const std::string& name) {
  constexpr double first_year = 2000, first_short_year = 20, last_short_year = 99;
  Generation g;
  const std::string text = plain(name);
  const auto dash = text.rfind('-');
  g.framework = text;
  if (dash == std::string::npos) return g;
  g.version = numbers(text.substr(dash + 1));
  if (g.version.empty()) return g;
  g.framework = text.substr(0, dash);
  double& leading = g.version.front();
  const bool short_year = leading >= first_short_year && leading <= last_short_year;
  if (short_year) leading += first_year;
  g.scale = leading >= first_year ? Scale::year : Scale::release;
  return g;
}

}  // namespace

std::optional<std::string> nearest_generation(const std::vector<std::string>& known, const std::string& name) {
  const Generation wanted = read(name);
  const std::string* best = nullptr;
  Generation best_generation;
  for (const std::string& candidate : known) {
    const Generation g = read(candidate);
    if (g.framework != wanted.framework) continue;
    if (g.scale != wanted.scale && wanted.scale != Scale::none) continue;
    // Without a version the newest is meant.
    const auto older = [&](const Generation& x) { return wanted.scale == Scale::none || x.version <= wanted.version; };
    const bool better = best == nullptr || (older(g) && !older(best_generation)) ||
                        (older(g) && g.version > best_generation.version) ||
                        (!older(g) && !older(best_generation) && g.version < best_generation.version);
    if (!better) continue;
    best = &candidate;
    best_generation = g;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

}  // namespace stepcast::parallelism
