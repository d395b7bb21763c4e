// Words of a shell script: quoting, variables and arithmetic. Internal to the reader of launch scripts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::scenarios::megatron {

struct ShellWord {
  std::string text;
  int line = 0;
};

using ShellValue = std::vector<ShellWord>;  // one word, or the elements of an array

// The lines between `<<END` and `END`; they belong to no command of the script.
struct HereDocument {
  std::string_view text;
  int line = 0;  // of its first line
};

class ShellLexer {
 public:
  ShellLexer(std::string_view text, std::map<std::string, ShellValue>& variables, int first_line = 1, int depth = 0)
      : text_(text), variables_(&variables), line_(first_line), depth_(depth) {}

  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] std::size_t position() const { return at_; }
  // Where a quote begins that is never closed; 0: all are.
  [[nodiscard]] int unclosed_quote() const { return unclosed_quote_; }
  // Those that were passed so far.
  [[nodiscard]] const std::vector<HereDocument>& here_documents() const { return here_documents_; }

  // Blanks, escaped line ends and comments; not the line's end.
  void skip_blanks();
  // A separator (line end, ';', '&', '|', redirection with its target) if one stands here. Behind the line of a `<<END`
  // its here-document is passed over; one that never ends is none.
  bool skip_separator();
  // '&' for "&&" and '|' for "||", if one stands here.
  std::optional<char> skip_chain();
  // `c` itself, if it stands here.
  bool skip(char c);
  void skip_white();  // blanks and line ends, as inside an array
  void skip_line();
  // "NAME=" or "NAME+=" if it stands here: the name, with `append`.
  std::optional<std::string> assignment(bool& append);
  // One word, expanded: none or several fields where a variable holds several words. `keep_unset`: an unset variable
  // stays as it is written, else it is empty. `whole`: what is expanded is not split, as on the right of '='.
  [[nodiscard]] ShellValue word(bool keep_unset, bool whole);

 private:
  class Fields;

  void line_end();
  void announce_document();
  void skip_documents();
  void single_quotes(Fields& fields);
  void escaped_quotes(Fields& fields);
  void double_quotes(Fields& fields, bool keep_unset);
  void dollar(Fields& fields, bool quoted, bool keep_unset);
  void braces(Fields& fields, bool quoted, bool keep_unset);
  void put(Fields& fields, const std::string& name, bool quoted, bool keep_unset, std::string_view written);
  std::string balanced(char open, char close);
  char take();
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  std::string name();

  std::string_view text_;
  std::map<std::string, ShellValue>* variables_;
  std::size_t at_ = 0;
  int line_;
  int unclosed_quote_ = 0;
  int depth_;  // of ${A:-${B:-...}}
  struct Announced {
    std::string end;
    bool tabs = false;  // <<-: tabs before the end are left out
  };
  std::vector<Announced> announced_;  // on this line
  std::vector<HereDocument> here_documents_;
};

// "8*$NODES", with + - * / % and parentheses over whole numbers; nothing if it is anything else.
[[nodiscard]] std::optional<long long> shell_arithmetic(std::string_view text,
                                                        const std::map<std::string, ShellValue>& variables);

// Fields of `text` between blanks, with the line of each when `text` begins on `line`.
[[nodiscard]] ShellValue split_fields(std::string_view text, int line);

}  // namespace stepcast::scenarios::megatron
