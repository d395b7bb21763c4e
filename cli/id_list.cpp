#include "cli/id_list.h"

#include <fstream>
#include <set>

#include <fmt/format.h>

namespace stepcast::cli {

Result<std::vector<std::string>> read_ids(const std::string& file, const std::string& flag) {
  const std::string where = "--" + flag + " " + file;
  std::ifstream stream(file);
  if (!stream) return make_error(ErrorCode::not_found, "cannot open the file", where);
  std::vector<std::string> ids;
  for (std::string line; std::getline(stream, line);) {
    if (ids.empty() && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') ids.push_back(line);
  }
  if (ids.empty()) return make_error(ErrorCode::invalid, "holds no id", where);
  return ids;
}

Result<std::vector<std::string>> unknown_ids(const std::vector<std::string>& ids, const std::vector<std::string>& known,
                                             const std::string& file, const std::string& flag) {
  constexpr std::size_t most_named = 20;
  const std::set<std::string> there(known.begin(), known.end());
  const std::string where = "--" + flag + " " + file;
  std::vector<std::string> warnings;
  std::size_t unknown = 0;
  for (const std::string& id : ids) {
    if (there.contains(id)) continue;
    if (++unknown <= most_named)
      warnings.push_back(fmt::format("{}: no row has the id '{}'{}", where, id, suggestion(id, known)));
  }
  if (unknown == ids.size())
    return make_error(ErrorCode::invalid,
                      fmt::format("no row has any of its {} ids; the first is '{}'{}", ids.size(), ids.front(),
                                  suggestion(ids.front(), known)),
                      where);
  if (unknown > most_named)
    warnings.push_back(fmt::format("{}: no row has {} more of its ids", where, unknown - most_named));
  return warnings;
}

}  // namespace stepcast::cli
