#include "scenarios/megatron/shell_words.h"

#include <algorithm>
#include <cctype>

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

}  // namespace

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
  for (skip_blanks(); peek() == '\n'; skip_blanks()) line_end();
}

void ShellLexer::line_end() {
  take();
  skip_documents();
}

// The word behind << or <<-.
void ShellLexer::announce_document() {
  take();
  take();
  const bool tabs = skip('-');
  skip_blanks();
  const ShellValue end = word(true, true);
  if (!end.empty() && !end.front().text.empty()) announced_.push_back({end.front().text, tabs});
}

void ShellLexer::skip_documents() {
  for (const Announced& document : announced_) {
    std::size_t begin = at_;
    int lines = 0;
    while (begin < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      std::string_view written = text_.substr(begin, end - begin);
      if (written.ends_with('\r')) written.remove_suffix(1);
      if (document.tabs) written.remove_prefix(std::min(written.find_first_not_of('\t'), written.size()));
      const std::size_t next = std::min(end + 1, text_.size());
      ++lines;
      if (written == document.end) {
        here_documents_.push_back({text_.substr(at_, begin - at_), line_});
        at_ = next;
        line_ += lines;
        break;
      }
      begin = next;
    }
  }
  announced_.clear();
}

bool ShellLexer::skip(char c) {
  if (at_end() || peek() != c) return false;
  take();
  return true;
}

std::optional<char> ShellLexer::skip_chain() {
  const char c = peek();
  if ((c != '&' && c != '|') || peek(1) != c) return std::nullopt;
  take();
  return take();
}

bool ShellLexer::skip_separator() {
  const char c = peek();
  if (c == '<' && peek(1) == '<' && peek(2) != '<') {
    announce_document();
    return true;
  }
  if (c == '>' || c == '<') {
    while (peek() == '>' || peek() == '<' || peek() == '&' || peek() == '|') take();
    skip_blanks();
    static_cast<void>(word(false, true));
    return true;
  }
  if (c == '\n') {
    line_end();
    return true;
  }
  if (c != ';' && c != '&' && c != '|' && c != ')') return false;
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

// $'...', where a backslash escapes, a quote too.
void ShellLexer::escaped_quotes(Fields& fields) {
  const int begin = line_;
  fields.open();
  while (!at_end()) {
    char c = take();
    if (c == '\'') return;
    if (c == '\\' && !at_end()) {
      c = take();
      if (c == 'n' || c == 't' || c == 'r') c = ' ';
    }
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
  if (!quoted && peek() == '\'') {
    take();
    escaped_quotes(fields);
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
