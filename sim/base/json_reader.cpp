#include "sim/base/json_reader.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

// Characters of the text, counting into `*read` as the parser takes them.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  std::size_t* read_;
};

std::string line_and_column(const std::string& text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const auto here = text.begin() + static_cast<std::ptrdiff_t>(offset);
  const auto line = 1 + std::count(text.begin(), here, '\n');
  const std::size_t line_start = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;  // npos + 1 is 0
  // Continuation bytes of UTF-8 (10xxxxxx) are not characters of their own.
  const auto column = 1 + std::count_if(text.begin() + static_cast<std::ptrdiff_t>(line_start), here,
                                        [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  return fmt::format("{}:{}", line, column);
}

// The word of the text at `offset`, as an error message shows it.
std::string word_at(const std::string& text, std::size_t offset) {
  std::size_t end = offset;
  while (end < text.size() && end < offset + 24 &&
         std::string_view(" \t\r\n,:]}").find(text[end]) == std::string::npos) {
    ++end;
  }
  return text.substr(offset, end == offset ? 1 : end - offset);
}

// nlohmann's parse error without its prefix and its jargon, for a token that begins at `offset`.
std::string plain_words(std::string reason, const std::string& text, std::size_t offset) {
  if (const auto dash = reason.find(" - "); dash != std::string::npos) {
    reason = reason.substr(dash + 3);
  } else if (const auto bracket = reason.find("] "); bracket != std::string::npos) {
    reason = reason.substr(bracket + 2);
  }
  if (const auto last_read = reason.find("; last read: '"); last_read != std::string::npos) {
    const auto expected = reason.rfind("; expected ");
    const std::string tail = expected != std::string::npos && expected > last_read ? reason.substr(expected) : "";
    reason = reason.substr(0, last_read) + tail;
  }
  if (offset >= text.size()) return reason;
  const std::string word = word_at(text, offset);
  if (reason.find(word) == std::string::npos) reason += fmt::format("; found '{}'", word);
  if (word == "}" || word == "]") {
    const std::size_t before = offset == 0 ? std::string::npos : text.find_last_not_of(" \t\r\n", offset - 1);
    if (before != std::string::npos && text[before] == ',')
      reason += " (JSON allows no comma before a closing bracket)";
  }
  if (std::string_view("NnIi").find(word[0]) != std::string_view::npos || word.starts_with("-I")) {
    reason += " (JSON has no NaN and no infinity; the bare words are true, false and null)";
  }
  return reason;
}

// Builds the tree and the positions. The parser calls back right after it has read a token, so a token begins at the
// first character after the previous one that is neither space nor punctuation between values.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& text, const std::string& file, const std::size_t& read)
      : text_(text), file_(file), read_(read) {}

  bool null() override { return add(Json(nullptr)); }
  bool boolean(bool v) override { return add(Json(v)); }
  bool number_integer(number_integer_t v) override { return add(Json(v)); }
  bool number_unsigned(number_unsigned_t v) override { return add(Json(v)); }
  bool number_float(number_float_t v, const string_t&) override { return add(Json(v)); }
  bool string(string_t& v) override { return add(Json(std::move(v))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& k) override {
    key_offset_ = token_start();
    token_end_ = read_;
    if (!frames_.back().keys.insert(k).second) {
      fail(ErrorCode::invalid, fmt::format("key '{}' is written twice in the same object", shown_name(k)), key_offset_);
      if (errors.size() >= max_duplicates) return false;
    }
    key_ = std::move(k);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    std::size_t at = std::min(text_.find_first_not_of(" \t\r\n", token_end_), text_.size());
    if (at < text_.size() && (text_[at] == ',' || text_[at] == ':')) {
      at = std::min(text_.find_first_not_of(" \t\r\n", at + 1), text_.size());
    }
    fail(ErrorCode::unreadable, "not valid JSON: " + plain_words(e.what(), text_, at), at);
    return false;
  }

  Json root;
  std::vector<JsonPositions::Node> nodes;
  Errors errors;

 private:
  struct Frame {
    Json* container;
    std::size_t node;
    std::set<std::string> keys;
  };
  static constexpr std::size_t max_duplicates = 20;

  [[nodiscard]] std::size_t token_start() const {
    const std::size_t at = text_.find_first_not_of(" \t\r\n,:]}", token_end_);
    return at == std::string::npos ? text_.size() : at;
  }

  void fail(ErrorCode code, std::string message, std::size_t offset) {
    errors.push_back(make_error(code, std::move(message), fmt::format("{}:{}", file_, line_and_column(text_, offset))));
  }

  Json* place(Json&& value) {
    const auto start = static_cast<std::uint32_t>(token_start());
    token_end_ = read_;
    if (nodes.size() >= json_max_values) {
      fail(ErrorCode::invalid, fmt::format("more than {} values in one file", json_max_values), start);
      return nullptr;
    }
    const bool member = !frames_.empty() && frames_.back().container->is_object();
    nodes.push_back({member ? static_cast<std::uint32_t>(key_offset_) : start, start,
                     static_cast<std::uint32_t>(nodes.size() + 1)});
    if (frames_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (!member) {
      auto& array = frames_.back().container->get_ref<Json::array_t&>();
      return &array.emplace_back(std::move(value));
    }
    // The vector under the map: its own insertion searches for the key again, quadratic in the object's size.
    std::vector<std::pair<const std::string, Json>>& members = frames_.back().container->get_ref<Json::object_t&>();
    return &members.emplace_back(std::move(key_), std::move(value)).second;
  }

  bool add(Json&& value) { return place(std::move(value)) != nullptr; }

  bool open(Json&& container) {
    if (frames_.size() >= json_max_depth) {
      fail(ErrorCode::invalid, fmt::format("brackets are nested deeper than {} levels", json_max_depth), token_start());
      return false;
    }
    const std::size_t node = nodes.size();
    Json* placed = place(std::move(container));
    if (placed == nullptr) return false;
    frames_.push_back({placed, node, {}});
    return true;
  }

  bool close() {
    nodes[frames_.back().node].end = static_cast<std::uint32_t>(nodes.size());
    frames_.pop_back();
    token_end_ = read_;
    return true;
  }

  const std::string& text_;
  const std::string& file_;
  const std::size_t& read_;
  std::size_t token_end_ = 0;
  std::size_t key_offset_ = 0;
  std::string key_;
  std::vector<Frame> frames_;
};

std::optional<Error> refuse_bytes(const std::string& text, const std::string& file) {
  if (text.size() > json_max_bytes) {
    return make_error(ErrorCode::invalid,
                      fmt::format("{} bytes; at most {} MiB are read", text.size(), json_max_bytes >> 20), file);
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return make_error(ErrorCode::unreadable, "the file is UTF-16; JSON files must be UTF-8", file);
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      return make_error(ErrorCode::unreadable, fmt::format("byte 0x{:02x}: this is not a text file", c),
                        fmt::format("{}:{}", file, line_and_column(text, i)));
    }
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return make_error(ErrorCode::unreadable, "the file is empty; a JSON value was expected", file);
  }
  return std::nullopt;
}

std::string unescaped(std::string step) {
  for (std::size_t at = 0; (at = step.find('~', at)) != std::string::npos && at + 1 < step.size(); ++at) {
    step.replace(at, 2, step[at + 1] == '1' ? "/" : "~");
  }
  return step;
}

// Index of `step` among the children of `value`, or none.
std::optional<std::size_t> child_index(const Json& value, const std::string& step) {
  if (value.is_object()) {
    std::size_t index = 0;
    for (const auto& member : value.get_ref<const Json::object_t&>()) {
      if (member.first == step) return index;
      ++index;
    }
  } else if (value.is_array() && !step.empty() && step.size() < 10 &&
             step.find_first_not_of("0123456789") == std::string::npos) {
    const auto index = static_cast<std::size_t>(std::stoul(step));
    if (index < value.size()) return index;
  }
  return std::nullopt;
}

// The node of `pointer`, or of its nearest ancestor.
JsonPositions::Node find_node(const JsonDocument& document, const std::string& pointer, bool& exact) {
  const auto& nodes = document.positions->nodes;
  const Json* value = &document.root;
  std::size_t node = 0;
  std::size_t at = 0;
  exact = true;
  while (at < pointer.size()) {
    const std::size_t next = std::min(pointer.find('/', at + 1), pointer.size());
    const auto index = child_index(*value, unescaped(pointer.substr(at + 1, next - at - 1)));
    if (!index) {
      exact = false;
      break;
    }
    ++node;
    for (std::size_t i = 0; i < *index; ++i) node = nodes[node].end;
    value = value->is_object()
                ? &(value->get_ref<const Json::object_t&>().begin() + static_cast<std::ptrdiff_t>(*index))->second
                : &(*value)[*index];
    at = next;
  }
  return nodes[node];
}

// Keys can be as long as the file: a pointer is shown in full only up to a limit.
std::string shown_pointer(const std::string& pointer) {
  constexpr std::size_t limit = 200;
  return pointer.size() <= limit ? pointer : pointer.substr(0, limit) + "...";
}

std::string located(const JsonDocument& document, const std::string& pointer, bool at_key) {
  if (!document.positions || document.positions->nodes.empty()) return document.file + " " + shown_pointer(pointer);
  bool exact = true;
  const JsonPositions::Node node = find_node(document, pointer, exact);
  const std::size_t offset = at_key && exact ? node.key : node.value;
  return fmt::format("{}:{}{}{}", document.file, line_and_column(document.positions->text, offset),
                     pointer.empty() ? "" : " ", shown_pointer(pointer));
}

}  // namespace

std::string JsonDocument::where(const std::string& pointer) const { return located(*this, pointer, false); }

std::string JsonDocument::where_key(const std::string& pointer) const { return located(*this, pointer, true); }

Result<JsonDocument> parse_json(std::string_view text, std::string file_name) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  auto positions = std::make_shared<JsonPositions>();
  positions->text = std::string(text);
  if (auto refused = refuse_bytes(positions->text, file_name)) return *refused;

  std::size_t read = 0;
  Builder builder(positions->text, file_name, read);
  const char* begin = positions->text.data();
  bool ok = false;
  try {
    ok = Json::sax_parse(CountingIterator(begin, &read), CountingIterator(begin + positions->text.size(), &read),
                         &builder);
  } catch (const std::exception& e) {  // out of memory
    return make_error(ErrorCode::unreadable, e.what(), file_name);
  }
  if (!ok || !builder.errors.empty()) {
    if (builder.errors.empty()) {
      builder.errors.push_back(make_error(ErrorCode::unreadable, "not valid JSON", file_name));
    }
    return std::move(builder.errors);
  }
  positions->nodes = std::move(builder.nodes);
  return JsonDocument{std::move(builder.root), std::move(file_name), std::move(positions)};
}

Result<std::string> read_text_file(const std::filesystem::path& file, std::size_t max_bytes) {
  std::error_code code;
  const auto status = std::filesystem::status(file, code);
  if (!std::filesystem::exists(status)) {
    return make_error(ErrorCode::not_found, "no such file", file.string());
  }
  if (std::filesystem::is_directory(status)) {
    return make_error(ErrorCode::unreadable, "is a directory; a file was expected", file.string());
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return make_error(ErrorCode::unreadable, "cannot be opened; check its permissions", file.string());
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > max_bytes) {
      return make_error(ErrorCode::invalid, fmt::format("larger than the {} MiB that are read", max_bytes >> 20),
                        file.string());
    }
  }
  if (in.bad()) return make_error(ErrorCode::unreadable, "reading failed", file.string());
  return text;
}

Result<JsonDocument> read_json_file(const std::filesystem::path& file) {
  auto text = read_text_file(file, json_max_bytes);
  if (!text) return text.errors();
  return parse_json(*text, file.string());
}

std::string pointer_step(std::string_view key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

std::string pointer_step(std::size_t index) { return fmt::format("/{}", index); }

std::string shown_name(const std::string& name) {
  constexpr std::size_t limit = 60;
  if (name.size() <= limit) return name;
  std::size_t cut = limit;
  while (cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xC0U) == 0x80U) --cut;
  return name.substr(0, cut) + "...";
}

std::string shown(const Json& value) {
  if (value.is_object()) return value.empty() ? "{}" : "an object";
  if (value.is_array() && value.size() > 8) return fmt::format("a list of {}", value.size());
  return shown_name(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace stepcast
