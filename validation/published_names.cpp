#include "validation/published_names.h"

#include <algorithm>
#include <cctype>

#include "sim/base/text.h"

namespace stepcast::validation {
namespace {

bool word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Where `part`'s letters end in `name`, if they stand in it and no number goes on there (V3 is not V3.2, 7b not 70b).
std::optional<std::size_t> end_in(const std::string& name, const std::string& part) {
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    if (begin > 0 && word(name[begin - 1])) continue;
    std::size_t at = begin;
    std::size_t k = 0;
    while (at < name.size() && k < part.size() && (!word(name[at]) || name[at] == part[k]))
      k += word(name[at++]) ? 1 : 0;
    if (k < part.size()) continue;
    const bool number = at < name.size() && digit(part.back()) &&
                        (digit(name[at]) || (name[at] == '.' && at + 1 < name.size() && digit(name[at + 1])));
    if (!number) return at;
  }
  return std::nullopt;
}

}  // namespace

std::string letters(const std::string& name) {
  std::string out;
  for (const char c : lower_case(name)) {
    if (word(c)) out += c;
  }
  return out;
}

std::vector<std::string> model_names(const std::filesystem::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root / "models" / "catalog", error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> catalogue_model(const std::vector<std::string>& catalogue, const std::string& published) {
  const std::string name = lower_case(published);
  std::optional<std::string> best;
  for (const std::string& candidate : catalogue) {
    if (!end_in(name, letters(candidate))) continue;
    if (!best || letters(candidate).size() > letters(*best).size()) best = candidate;
  }
  if (best) return best;
  const std::string begins = letters(name.substr(0, name.find_first_of("([")));
  constexpr std::size_t shortest = 4;
  for (const std::string& candidate : catalogue) {
    const std::string whole = letters(candidate);
    if (begins.size() < shortest || !whole.starts_with(begins)) continue;
    if (digit(begins.back()) && digit(whole[begins.size()])) continue;
    if (best) return std::nullopt;
    best = candidate;
  }
  return best;
}

int layers_in_name(const std::string& name) {
  const auto at = name.find(" layers");
  if (at == std::string::npos) return 0;
  auto begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(name[begin - 1])) != 0) --begin;
  return begin == at ? 0 : std::stoi(name.substr(begin, std::min<std::size_t>(at - begin, 6)));
}

}  // namespace stepcast::validation
