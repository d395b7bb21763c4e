#include "scenarios/draft.h"

#include <system_error>

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

const Json* member(const Json& tree, const std::string& pointer) {
  const Json* at = &tree;
  std::size_t begin = 0;
  while (begin < pointer.size()) {
    const std::size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    if (!at->is_object()) return nullptr;
    const auto found = at->find(pointer.substr(begin + 1, end - begin - 1));
    if (found == at->end()) return nullptr;
    at = &*found;
    begin = end;
  }
  return at;
}

}  // namespace

JsonFields Draft::block(const char* key) {
  static const Json empty = Json::object();
  const Json* value = member(tree, std::string("/") + key);
  if (value == nullptr || value->is_null()) value = &empty;
  return JsonFields(*document, *value, std::string("/") + key, errors);
}

bool Draft::given(const std::string& pointer) const {
  const Json* value = member(tree, pointer);
  return value != nullptr && !value->is_null();
}

void Draft::fail(const std::string& pointer, std::string message, ErrorCode code) {
  errors.push_back(make_error(code, std::move(message), document->where(pointer)));
}

std::filesystem::path Draft::locate(const std::string& path) const {
  const std::filesystem::path given_path(path);
  if (given_path.is_absolute() || folder.empty()) return given_path;
  std::error_code code;
  const std::filesystem::path beside = folder / given_path;
  return std::filesystem::exists(beside, code) || !std::filesystem::exists(given_path, code) ? beside : given_path;
}

}  // namespace stepcast::scenarios
