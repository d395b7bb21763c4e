// List expressions of Python, as --moe-layer-freq takes them.
#include "scenarios/megatron/import_parts.h"

namespace stepcast::scenarios::megatron {
namespace {

constexpr std::size_t longest = 100'000;
constexpr int deepest = 20;

// sum := term ('+' term)*    term := ('[' digits, ... ']' | '(' sum ')') ('*' number)*
class Pattern {
 public:
  explicit Pattern(std::string_view text) : text_(text) {}

  std::optional<std::vector<int>> read() {
    std::vector<int> list = sum(0);
    blanks();
    if (failed_ || at_ != text_.size() || list.empty()) return std::nullopt;
    return list;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::size_t number() {
    blanks();
    std::size_t value = 0;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<std::size_t>(text_[at_] - '0');
      if (value > longest) failed_ = true;
      if (failed_) return 0;
    }
    if (at_ == begin) failed_ = true;
    return value;
  }
  std::vector<int> sum(int depth) {
    std::vector<int> list = term(depth);
    while (!failed_ && take('+')) {
      const std::vector<int> more = term(depth);
      list.insert(list.end(), more.begin(), more.end());
      if (list.size() > longest) failed_ = true;
    }
    return list;
  }
  std::vector<int> term(int depth) {
    std::vector<int> list;
    if (depth > deepest) failed_ = true;
    if (failed_) return list;
    if (take('[')) {
      if (!take(']')) {
        do {
          list.push_back(static_cast<int>(number()));
          if (list.size() > longest) failed_ = true;
        } while (!failed_ && take(','));
        failed_ = failed_ || !take(']');
      }
    } else if (take('(')) {
      list = sum(depth + 1);
      failed_ = failed_ || !take(')');
    } else {
      failed_ = true;
    }
    while (!failed_ && take('*')) {
      const std::size_t times = number();
      if (failed_ || list.size() * times > longest) {
        failed_ = true;
        break;
      }
      const std::vector<int> once = std::move(list);
      list.clear();
      for (std::size_t i = 0; i < times; ++i) list.insert(list.end(), once.begin(), once.end());
    }
    return list;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<std::vector<int>> parse_pattern(std::string_view text) { return Pattern(text).read(); }

}  // namespace stepcast::scenarios::megatron
