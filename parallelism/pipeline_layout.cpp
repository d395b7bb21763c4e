#include "parallelism/pipeline_layout.h"

#include <fmt/format.h>

namespace stepcast::parallelism {
namespace {

constexpr std::size_t most_symbols = std::size_t{1} << 20;
constexpr std::size_t longest_text = std::size_t{1} << 16;
constexpr int deepest_parentheses = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A byte of the text as a message shows it.
std::string shown_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f ? fmt::format("'{}'", c) : fmt::format("byte 0x{:02x}", byte);
}

// Recursive descent; stops at the first syntax error, since what follows it cannot be trusted.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::string> parse() {
    std::string symbols = sequence(0);
    if (!error_.message.empty()) return error_;
    return symbols;
  }

 private:
  [[nodiscard]] bool failed() const { return !error_.message.empty(); }

  void fail(std::size_t at, const std::string& message) {
    if (failed()) return;
    error_ = make_error(ErrorCode::invalid, fmt::format("pipeline layout, character {}: {}", at + 1, message),
                        "/parallelism/pipeline_layout");
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  std::string sequence(int depth) {
    std::string symbols;
    for (skip_blanks(); at_ < text_.size() && !failed(); skip_blanks()) {
      if (text_[at_] == ')') {
        if (depth == 0) fail(at_, "')' closes nothing");
        break;
      }
      symbols += item(depth);
      if (symbols.size() > most_symbols) fail(at_, fmt::format("more than {} layers and stages", most_symbols));
    }
    return symbols;
  }

  std::string item(int depth) {
    const std::size_t start = at_;
    const char c = text_[at_++];
    std::string symbols;
    if (c == '(') {
      if (depth == deepest_parentheses) {
        fail(start, fmt::format("parentheses nest deeper than {}", deepest_parentheses));
        return {};
      }
      symbols = sequence(depth + 1);
      if (failed()) return {};
      if (at_ == text_.size()) {
        fail(start, "'(' is never closed");
        return {};
      }
      ++at_;  // ')'
      skip_blanks();
      if (at_ == text_.size() || text_[at_] != '*') {
        fail(start, "'(...)' needs a repeat such as '(tt|)*3'");
        return {};
      }
    } else if (c == 'E' || c == 't' || c == 'm' || c == 'L' || c == '|') {
      symbols = std::string(1, c);
    } else {
      fail(start,
           fmt::format("{} is no layer; allowed are E, t, m, L, '|', '(...)*n', 't*n' and commas", shown_byte(c)));
      return {};
    }
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '*') return repeated(symbols);
    return symbols;
  }

  std::string repeated(const std::string& symbols) {
    const std::size_t star = at_++;
    skip_blanks();
    if (at_ == text_.size() || !is_digit(text_[at_])) {
      fail(star, "'*' needs a whole number after it");
      return {};
    }
    std::size_t times = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (times <= most_symbols) times = times * 10 + static_cast<std::size_t>(text_[at_] - '0');
    }
    if (times == 0) fail(star, "a repeat of 0 leaves nothing; it must be 1 or more");
    if (times > most_symbols || symbols.size() * times > most_symbols) {
      fail(star, fmt::format("the repeat makes more than {} layers and stages", most_symbols));
    }
    if (failed()) return {};
    std::string out;
    out.reserve(symbols.size() * times);
    for (std::size_t i = 0; i < times; ++i) out += symbols;
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Error error_{ErrorCode::invalid, {}, {}};
};

}  // namespace

Result<std::vector<std::string>> parse_pipeline_layout(std::string_view text) {
  if (text.size() > longest_text) {
    return make_error(ErrorCode::invalid,
                      fmt::format("pipeline layout has {} characters; at most {}", text.size(), longest_text),
                      "/parallelism/pipeline_layout");
  }
  const Result<std::string> symbols = Parser(text).parse();
  if (!symbols.ok()) return symbols.errors();
  std::vector<std::string> stages{""};
  for (const char c : *symbols) {
    if (c == '|') {
      stages.emplace_back();
    } else {
      stages.back() += c;
    }
  }
  return stages;
}

}  // namespace stepcast::parallelism
