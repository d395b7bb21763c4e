#include "cli/id_list.h"

#include <fstream>

namespace stepcast::cli {

Result<std::vector<std::string>> read_ids(const std::string& file, const std::string& flag) {
  const std::string where = "--" + flag + " " + file;
  std::ifstream stream(file);
  if (!stream) return make_error(ErrorCode::not_found, "cannot open the file", where);
  std::vector<std::string> ids;
  for (std::string line; std::getline(stream, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') ids.push_back(line);
  }
  if (ids.empty()) return make_error(ErrorCode::invalid, "holds no id", where);
  return ids;
}

}  // namespace stepcast::cli
