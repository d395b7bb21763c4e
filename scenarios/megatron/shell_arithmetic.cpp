// Whole-number arithmetic of a shell, as in $((8 * NODES)).
#include <cctype>

#include "scenarios/megatron/shell_words.h"

namespace stepcast::scenarios::megatron {
namespace {

// An escaped line end inside quotes is a control character here.
bool is_space(char c) { return static_cast<unsigned char>(c) <= ' '; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const std::map<std::string, ShellValue>& variables)
      : text_(text), variables_(variables) {}

  std::optional<long long> value() {
    const long long result = sum(0);
    skip();
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  void skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  long long combine(long long left, char op, long long right) {
    long long result = 0;
    bool bad = false;
    if (op == '+') bad = __builtin_add_overflow(left, right, &result);
    if (op == '-') bad = __builtin_sub_overflow(left, right, &result);
    if (op == '*') bad = __builtin_mul_overflow(left, right, &result);
    if (op == '/' || op == '%') {
      bad = right == 0 || right == -1;
      if (!bad) result = op == '/' ? left / right : left % right;
    }
    failed_ = failed_ || bad;
    return result;
  }
  long long sum(int depth) {
    long long left = product(depth);
    while (!failed_) {
      if (take('+')) {
        left = combine(left, '+', product(depth));
      } else if (take('-')) {
        left = combine(left, '-', product(depth));
      } else {
        break;
      }
    }
    return left;
  }
  long long product(int depth) {
    long long left = atom(depth);
    while (!failed_) {
      char op = 0;
      for (const char c : {'*', '/', '%'}) {
        if (op == 0 && take(c)) op = c;
      }
      if (op == 0) break;
      left = combine(left, op, atom(depth));
    }
    return left;
  }
  long long atom(int depth) {
    constexpr int deepest = 50;
    if (depth > deepest) failed_ = true;
    if (failed_) return 0;
    if (take('(')) {
      const long long inner = sum(depth + 1);
      failed_ = failed_ || !take(')');
      return inner;
    }
    skip();
    if (at_ < text_.size() && text_[at_] == '$') ++at_;
    const bool braced = take('{');
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    std::string token(text_.substr(begin, at_ - begin));
    if (braced && !take('}')) failed_ = true;
    if (const auto found = variables_.find(token); found != variables_.end() && found->second.size() == 1) {
      token = found->second.front().text;
    }
    constexpr std::size_t most_digits = 17;
    if (token.empty() || token.size() > most_digits || token.find_first_not_of("0123456789") != std::string::npos) {
      failed_ = true;
      return 0;
    }
    return std::stoll(token);
  }

  std::string_view text_;
  const std::map<std::string, ShellValue>& variables_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<long long> shell_arithmetic(std::string_view text, const std::map<std::string, ShellValue>& variables) {
  return Arithmetic(text, variables).value();
}

}  // namespace stepcast::scenarios::megatron
