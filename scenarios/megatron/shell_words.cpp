#include "scenarios/megatron/shell_words.h"

#include <cctype>
#include <limits>

namespace stepcast::scenarios::megatron {
namespace {

// Stands for an escaped line end inside quotes, so that lines can still be counted.
constexpr char escaped_line_end = '\x01';
constexpr std::size_t most_fields = 100'000;
constexpr std::size_t longest_word = std::size_t{1} << 20;
constexpr int deepest_default = 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_gap(char c) { return is_blank(c) || c == '\n' || c == escaped_line_end; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool ends_word(char c) {
  return is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '>' || c == '<' || c == ')';
}

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
    while (at_ < text_.size() && is_gap(text_[at_])) ++at_;
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

ShellValue split_fields(std::string_view text, int line) {
  ShellValue fields;
  std::string field;
  int begin = line;
  const auto flush = [&] {
    if (!field.empty() && fields.size() < most_fields) fields.push_back({field, begin});
    field.clear();
  };
  for (const char c : text) {
    if (is_gap(c)) {
      flush();
      if (c == '\n' || c == escaped_line_end) ++line;
    } else {
      if (field.empty()) begin = line;
      field += c;
    }
  }
  flush();
  return fields;
}

// The fields of a word while it is read.
class ShellLexer::Fields {
 public:
  Fields(int line, bool whole) : line_(line), whole_(whole) {}

  void add(char c) {
    open_ = true;
    if (text_.size() < longest_word) text_ += c;
  }
  void open() { open_ = true; }
  void add_text(const std::string& text) {
    open_ = true;
    total_ += text.size();
    if (total_ < longest_word) text_ += text;
  }
  void add_split(const ShellWord& value) {
    if (whole_) {
      if (!open_ || text_.empty()) line_ = value.line;
      add_text(value.text);
      return;
    }
    const ShellValue parts = split_fields(value.text, value.line);
    if (!value.text.empty() && is_gap(value.text.front())) close();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) close();
      if (text_.empty()) line_ = parts[i].line;
      add_text(parts[i].text);
    }
    if (!parts.empty() && is_gap(value.text.back())) close();
  }
  void add_words(const ShellValue& words, bool quoted) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) close();
      if (!quoted) {
        add_split(words[i]);
        continue;
      }
      if (text_.empty()) line_ = words[i].line;
      add_text(words[i].text);
    }
  }
  void close() {
    if (open_ && fields_.size() < most_fields) fields_.push_back({text_, line_});
    open_ = false;
    text_.clear();
  }
  ShellValue take() {
    close();
    return std::move(fields_);
  }

 private:
  ShellValue fields_;
  std::string text_;
  std::size_t total_ = 0;  // of what variables gave
  int line_;
  bool whole_;
  bool open_ = false;
};

char ShellLexer::take() {
  const char c = text_[at_++];
  if (c == '\n') ++line_;
  return c;
}

std::string ShellLexer::name() {
  std::string name;
  while (is_name(peek())) name += take();
  return name;
}

void ShellLexer::skip_line() {
  while (!at_end() && peek() != '\n') take();
}

void ShellLexer::skip_blanks() {
  while (!at_end()) {
    if (is_blank(peek())) {
      take();
    } else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      while (take() != '\n') {
      }
    } else if (peek() == '#') {
      skip_line();
    } else {
      return;
    }
  }
}

void ShellLexer::skip_white() {
  for (skip_blanks(); peek() == '\n'; skip_blanks()) take();
}

bool ShellLexer::skip(char c) {
  if (at_end() || peek() != c) return false;
  take();
  return true;
}

bool ShellLexer::skip_separator() {
  const char c = peek();
  if (c == '>' || c == '<') {
    while (peek() == '>' || peek() == '<' || peek() == '&' || peek() == '|') take();
    skip_blanks();
    static_cast<void>(word(false, true));
    return true;
  }
  if (c != '\n' && c != ';' && c != '&' && c != '|' && c != ')') return false;
  take();
  return true;
}

std::optional<std::string> ShellLexer::assignment(bool& append) {
  std::size_t ahead = 0;
  while (is_name(peek(ahead))) ++ahead;
  if (ahead == 0 || std::isdigit(static_cast<unsigned char>(peek())) != 0) return std::nullopt;
  append = peek(ahead) == '+' && peek(ahead + 1) == '=';
  if (!append && peek(ahead) != '=') return std::nullopt;
  std::string found(text_.substr(at_, ahead));
  at_ += ahead + (append ? 2 : 1);
  return found;
}

std::string ShellLexer::balanced(char open, char close) {
  std::string inner;
  int depth = 1;
  while (!at_end()) {
    const char c = take();
    if (c == open) ++depth;
    if (c == close && --depth == 0) break;
    inner += c;
  }
  return inner;
}

void ShellLexer::single_quotes(Fields& fields) {
  const int begin = line_;
  fields.open();
  while (!at_end()) {
    const char c = take();
    if (c == '\'') return;
    fields.add(c);
  }
  if (unclosed_quote_ == 0) unclosed_quote_ = begin;
}

void ShellLexer::double_quotes(Fields& fields, bool keep_unset) {
  const int begin = line_;
  fields.open();
  while (!at_end()) {
    const char c = peek();
    if (c == '"') {
      take();
      return;
    }
    if (c == '\\' && peek(1) == '\n') {
      take();
      take();
      fields.add(escaped_line_end);
    } else if (c == '\\' && (peek(1) == '"' || peek(1) == '\\' || peek(1) == '$' || peek(1) == '`')) {
      take();
      fields.add(take());
    } else if (c == '$') {
      dollar(fields, true, keep_unset);
    } else {
      fields.add(take());
    }
  }
  if (unclosed_quote_ == 0) unclosed_quote_ = begin;
}

void ShellLexer::put(Fields& fields, const std::string& name, bool quoted, bool keep_unset, std::string_view written) {
  const auto found = variables_->find(name);
  if (found == variables_->end()) {
    if (keep_unset) fields.add_text(std::string(written));
    return;
  }
  fields.add_words(found->second, quoted);
}

void ShellLexer::dollar(Fields& fields, bool quoted, bool keep_unset) {
  const std::size_t begin = at_;
  take();
  if (peek() == '(') {
    take();
    const std::string inner = balanced('(', ')');
    const std::string written(text_.substr(begin, at_ - begin));
    if (inner.starts_with('(') && inner.ends_with(')')) {
      if (const auto value = shell_arithmetic(inner.substr(1, inner.size() - 2), *variables_)) {
        fields.add_text(std::to_string(*value));
        return;
      }
    }
    if (keep_unset) fields.add_text(written);
    return;
  }
  if (peek() == '{') {
    take();
    braces(fields, quoted, keep_unset);
    return;
  }
  std::string variable = name();
  if (variable.empty() && (peek() == '@' || peek() == '*' || peek() == '#' || peek() == '?')) variable = take();
  if (variable.empty()) {
    fields.add('$');
    return;
  }
  put(fields, variable, quoted, keep_unset, text_.substr(begin, at_ - begin));
}

// The inside of ${...}: NAME, NAME[@], NAME:-default, NAME:=default, NAME-default.
void ShellLexer::braces(Fields& fields, bool quoted, bool keep_unset) {
  const int begin_line = line_;
  const std::string inner = balanced('{', '}');
  std::size_t end = 0;
  while (end < inner.size() && is_name(inner[end])) ++end;
  const std::string variable = inner.substr(0, end);
  std::string rest = inner.substr(end);
  const std::string written = "${" + inner + "}";
  if (rest.empty() || rest == "[@]" || rest == "[*]") {
    put(fields, variable, quoted, keep_unset, written);
    return;
  }
  const bool colon = rest.front() == ':';
  if (colon) rest.erase(0, 1);
  if (variable.empty() || rest.empty() || (rest.front() != '-' && rest.front() != '=') || depth_ == deepest_default) {
    fields.add_text(written);
    return;
  }
  const auto found = variables_->find(variable);
  const bool empty = found == variables_->end() || found->second.empty() ||
                     (colon && found->second.size() == 1 && found->second.front().text.empty());
  if (!empty) {
    fields.add_words(found->second, quoted);
    return;
  }
  ShellLexer inside(std::string_view(rest).substr(1), *variables_, begin_line, depth_ + 1);
  ShellValue value;
  for (inside.skip_white(); !inside.at_end(); inside.skip_white()) {
    const std::size_t before = inside.position();
    for (ShellWord& part : inside.word(keep_unset, quoted)) value.push_back(std::move(part));
    if (inside.position() == before) break;
  }
  fields.add_words(value, quoted);
}

ShellValue ShellLexer::word(bool keep_unset, bool whole) {
  Fields fields(line_, whole);
  int parentheses = 0;  // "([0]*3+[1]*58)" is often left unquoted
  while (!at_end()) {
    const char c = peek();
    if (c == ')' && parentheses > 0) {
      --parentheses;
    } else if (ends_word(c)) {
      break;
    }
    if (c == '(') ++parentheses;
    if (c == '\'') {
      take();
      single_quotes(fields);
    } else if (c == '"') {
      take();
      double_quotes(fields, keep_unset);
    } else if (c == '\\') {
      if (peek(1) == '\n' || peek(1) == '\0' || (peek(1) == '\r' && peek(2) == '\n')) break;
      take();
      fields.add(take());
    } else if (c == '$') {
      dollar(fields, false, keep_unset);
    } else {
      fields.add(take());
    }
  }
  ShellValue read = fields.take();
  // The number of a stream, as in 2>&1, is no word.
  if (peek() == '>' && read.size() == 1 && (read.front().text == "1" || read.front().text == "2")) read.clear();
  return read;
}

}  // namespace stepcast::scenarios::megatron
