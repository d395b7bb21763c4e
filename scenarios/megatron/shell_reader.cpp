#include "scenarios/megatron/shell_reader.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "scenarios/megatron/shell_words.h"

namespace stepcast::scenarios::megatron {
namespace {

// What tells a line with the model's arguments from other commands of a script.
const std::set<std::string, std::less<>> telling = {
    "--num-layers",        "--hidden-size", "--tensor-model-parallel-size", "--pipeline-model-parallel-size",
    "--micro-batch-size",  "--seq-length",  "--num-attention-heads",        "--expert-model-parallel-size",
    "--global-batch-size", "--num-experts"};

bool is_argument(const std::string& text) { return text.size() > 2 && text.starts_with("--") && text[2] != '-'; }

struct Candidate {
  ShellValue words;
  int telling_words = 0;
};

int count_telling(const ShellValue& words) {
  return static_cast<int>(std::count_if(words.begin(), words.end(), [](const ShellWord& word) {
    return telling.contains(word.text.substr(0, word.text.find('=')));
  }));
}

class Reader {
 public:
  Reader(std::string_view text, const std::map<std::string, std::string>& defines)
      : defines_(defines), lexer_(text, variables_) {
    for (const auto& [name, value] : defines) variables_[name] = {{value, 0}};
  }

  // The words of the command that launches the run; else those of all variables that hold arguments.
  ShellValue words() {
    while (!lexer_.at_end()) statement();
    flush_loose();
    unclosed_quote_ = lexer_.unclosed_quote();
    here_documents();
    const auto best = std::max_element(commands_.begin(), commands_.end(), [](const Candidate& a, const Candidate& b) {
      return a.telling_words < b.telling_words;
    });
    if (best != commands_.end() && best->telling_words > 0) {
      const auto rivals =
          std::count_if(commands_.begin(), commands_.end(), [](const Candidate& c) { return c.telling_words > 1; });
      if (rivals > 1) {
        warnings_.push_back(fmt::format("line {}: the one of {} launch lines with the most arguments is read",
                                        best->words.front().line, rivals));
      }
      return best->words;
    }
    ShellValue all;
    for (const std::string& name : order_) {
      const ShellValue& value = variables_[name];
      if (std::any_of(value.begin(), value.end(), [](const ShellWord& w) { return w.text.find("--") != w.text.npos; }))
        append(all, value);
    }
    return all;
  }

  [[nodiscard]] std::vector<std::string>& warnings() { return warnings_; }
  [[nodiscard]] int unclosed_quote() const { return unclosed_quote_; }

 private:
  // Whether the branches that surround this place are taken.
  [[nodiscard]] bool live() const {
    return std::all_of(branches_.begin(), branches_.end(), [](const Branch& b) { return b.taken; });
  }

  void statement() {
    lexer_.skip_white();
    if (lexer_.at_end() || lexer_.skip_separator()) return;
    // What stands behind && or || is read as a branch of its own, up to the end of the group it opens.
    const bool guarded = guard_.has_value();
    const std::size_t depth = branches_.size();
    if (guarded) branches_.push_back(*guard_);
    guard_.reset();
    group_opened_ = false;
    one_statement();
    if (guarded && group_opened_) {
      groups_.push_back(depth);
    } else if (guarded && branches_.size() > depth) {
      branches_.erase(branches_.begin() + static_cast<std::ptrdiff_t>(depth));
    }
  }

  void one_statement() {
    bool appended = false;
    const std::size_t before = lexer_.position();
    status_ = true;
    if (const auto name = lexer_.assignment(appended)) {
      assign(*name, appended);
      lexer_.skip_blanks();
      if (const auto chain = lexer_.skip_chain()) guard(*chain);
      return;
    }
    command();
    if (lexer_.position() == before) lexer_.skip_line();
  }

  // What follows runs where the status of the statement before is as && or || wants it. One that did not run leaves
  // the status as it was.
  void guard(char chain) {
    if (!branches_.empty() && branches_.back().guard && !branches_.back().taken) status_ = branches_.back().status;
    Branch next;
    next.guard = true;
    next.known = status_.has_value();
    next.status = status_;
    next.taken = next.known && *status_ == (chain == '&');
    guard_ = next;
  }

  // Of what was read; commands succeed where nothing tells.
  static std::optional<bool> status_of(const ShellValue& words) {
    if (words.empty()) return true;
    const std::string& first = words.front().text;
    if (first == "false") return false;
    if (first == "[" || first == "[[") return test(words);
    if (first == "test" || first == "((" || first.starts_with("((")) return std::nullopt;
    return true;
  }

  void assign(const std::string& name, bool appended) {
    ShellValue value;
    bool joined = false;  // NAME+=text goes on in the same word
    if (lexer_.skip('(')) {
      for (lexer_.skip_white(); !lexer_.at_end() && !lexer_.skip(')'); lexer_.skip_white()) {
        const std::size_t before = lexer_.position();
        for (ShellWord& word : lexer_.word(true, false)) value.push_back(std::move(word));
        if (lexer_.position() == before && !lexer_.skip_separator()) break;
      }
    } else {
      value = lexer_.word(true, true);
      if (value.empty()) value = {{"", lexer_.line()}};
      joined = true;
    }
    if (!live()) {
      skipped(value);
      not_followed(name, value.front().line);
      return;
    }
    const ShellValue before = appended ? variables_[name] : ShellValue{};
    if (joined && before.size() == 1) {
      value.front().text = before.front().text + value.front().text;
    } else {
      value.insert(value.begin(), before.begin(), before.end());
    }
    if (defines_.contains(name)) return;
    // A script that doubles its variables line by line stops growing here.
    constexpr std::size_t most_held = std::size_t{64} << 20;
    for (const ShellWord& word : value) held_ += word.text.size() + sizeof(ShellWord);
    if (held_ > most_held) return;
    variables_[name] = std::move(value);
    if (std::find(order_.begin(), order_.end(), name) == order_.end()) order_.push_back(name);
  }

  void skipped(const ShellValue& words) {
    for (const ShellWord& word : words) {
      if (word.text.find("--") == std::string::npos) continue;
      warnings_.push_back(fmt::format("line {}: behind a condition that does not hold here, not read: {}", word.line,
                                      word.text.substr(0, 60)));
      return;
    }
  }

  // An assignment whose place is not understood leaves a value that may be another.
  void not_followed(const std::string& name, int line) {
    if (std::all_of(branches_.begin(), branches_.end(), [](const Branch& b) { return b.known || b.taken; })) return;
    warnings_.push_back(
        fmt::format("line {}: {} is set in a loop, a case or behind a test that is not understood: not "
                    "followed (state it with --define)",
                    line, name));
  }

  void command() {
    ShellValue words;
    std::optional<char> chain;
    while (!lexer_.at_end()) {
      lexer_.skip_blanks();
      if (lexer_.at_end()) break;
      chain = lexer_.skip_chain();
      if (chain || lexer_.skip_separator()) break;
      const std::string first = words.empty() ? "" : words.front().text;
      const bool test = first == "if" || first == "elif" || first == "[" || first == "[[";
      const std::size_t before = lexer_.position();
      ShellValue more = lexer_.word(!test, test);
      if (test && more.empty()) more = {{"", lexer_.line()}};
      append(words, more);
      if (lexer_.position() == before) break;
      if (words.size() == 1 && keyword(words.front().text)) return;
    }
    if (words.empty()) return;
    if (words.front().text == "if" || words.front().text == "elif") {
      condition(words, chain.has_value());
      return;
    }
    if (chain) {
      status_ = status_of(words);
      guard(*chain);
    }
    finish(words);
  }

  // Words that stand before a statement; the statement itself is read next.
  bool keyword(const std::string& word) {
    if (word == "{") group_opened_ = true;
    if (word == "}" && !groups_.empty()) {
      if (branches_.size() > groups_.back()) branches_.resize(groups_.back());
      groups_.pop_back();
      return true;
    }
    if (word == "then" || word == "do" || word == "export" || word == "local" || word == "declare" || word == "{") {
      return true;
    }
    if (word == "else" && !branches_.empty()) {
      Branch& branch = branches_.back();
      branch.taken = branch.known && !branch.done;
      return true;
    }
    if (word == "fi" || word == "done" || word == "esac") {
      if (!branches_.empty()) branches_.pop_back();
      return true;
    }
    if (word == "for" || word == "while" || word == "until" || word == "case") {
      branches_.push_back({});
      head_of_loop(word == "case");
      return true;
    }
    return false;
  }

  // Up to the list of a loop's body, or the `in` of a case.
  void head_of_loop(bool is_case) {
    while (!lexer_.at_end()) {
      lexer_.skip_blanks();
      if (lexer_.at_end() || lexer_.skip_separator()) return;
      const std::size_t before = lexer_.position();
      const ShellValue word = lexer_.word(true, true);
      if (lexer_.position() == before) return lexer_.skip_line();
      if (is_case && !word.empty() && word.front().text == "in") return;
    }
  }

  void condition(ShellValue words, bool compound) {
    const bool another = words.front().text == "elif";
    words.erase(words.begin());
    const auto holds = compound ? std::nullopt : test(words);
    if (!another || branches_.empty()) branches_.push_back({});
    Branch& branch = branches_.back();
    if (!another) branch.known = true;
    branch.known = branch.known && holds.has_value();
    branch.taken = branch.known && !branch.done && *holds;
    branch.done = branch.done || branch.taken;
    if (!holds) {
      const int line = words.empty() ? lexer_.line() : words.front().line;
      warnings_.push_back(fmt::format("line {}: this test is not understood; its branches are not read", line));
    }
  }

  static std::optional<bool> test(const ShellValue& words) {
    std::vector<std::string> w;
    for (const ShellWord& word : words) w.push_back(word.text);
    if (w.size() < 3 || (w.front() != "[" && w.front() != "[[") || (w.back() != "]" && w.back() != "]]")) return {};
    w.erase(w.begin());
    w.pop_back();
    if (w.size() == 2 && w[0] == "-n") return !w[1].empty();
    if (w.size() == 2 && w[0] == "-z") return w[1].empty();
    if (w.size() != 3) return {};
    if (w[1] == "=" || w[1] == "==") return w[0] == w[2];
    if (w[1] == "!=") return w[0] != w[2];
    const auto a = shell_arithmetic(w[0], {});
    const auto b = shell_arithmetic(w[2], {});
    if (!a || !b) return {};
    if (w[1] == "-eq") return *a == *b;
    if (w[1] == "-ne") return *a != *b;
    if (w[1] == "-gt") return *a > *b;
    if (w[1] == "-ge") return *a >= *b;
    if (w[1] == "-lt") return *a < *b;
    if (w[1] == "-le") return *a <= *b;
    return {};
  }

  // A script may write its launch line to another, or hand it to sbatch or a shell: read where the script itself has
  // none. Quotes need not close there, as it may be prose.
  void here_documents() {
    const bool launched =
        std::any_of(commands_.begin(), commands_.end(), [](const Candidate& c) { return c.telling_words > 0; });
    const std::vector<HereDocument> documents = lexer_.here_documents();
    for (const HereDocument& document : documents) {
      const bool tells = std::any_of(telling.begin(), telling.end(), [&](const std::string& argument) {
        return document.text.find(argument) != std::string_view::npos;
      });
      if (!tells) continue;
      if (launched) {
        warnings_.push_back(fmt::format("line {}: a here-document with arguments is not read", document.line));
        continue;
      }
      lexer_ = ShellLexer(document.text, variables_, document.line);
      branches_.clear();
      groups_.clear();
      guard_.reset();
      while (!lexer_.at_end()) statement();
      flush_loose();
      loose_.clear();
    }
  }

  void finish(const ShellValue& read) {
    // A command in one string, as in bash -c "torchrun ... --num-layers 32".
    ShellValue words;
    for (const ShellWord& word : read) {
      if (word.text.find(" --") != std::string::npos && word.text.find("--") != std::string::npos) {
        append(words, split_fields(word.text, word.line));
      } else {
        append(words, {word});
      }
    }
    if (!live()) {
      skipped(words);
      return;
    }
    if (is_argument(words.front().text)) {  // arguments alone, one or several a line
      append(loose_, words);
      return;
    }
    commands_.push_back({words, count_telling(words)});
  }

  void flush_loose() {
    if (!loose_.empty()) commands_.push_back({loose_, count_telling(loose_) + 1});
  }

  static void append(ShellValue& to, const ShellValue& more) { to.insert(to.end(), more.begin(), more.end()); }

  struct Branch {
    bool known = false, taken = false, done = false;
    bool guard = false;          // behind && or ||
    std::optional<bool> status;  // guard: of what stands before it
  };

  const std::map<std::string, std::string>& defines_;
  std::map<std::string, ShellValue> variables_;
  std::vector<std::string> order_;  // of first assignment
  ShellLexer lexer_;
  std::vector<Branch> branches_;
  std::optional<Branch> guard_;      // of the next statement
  std::optional<bool> status_;       // of the last one; nothing: not understood
  bool group_opened_ = false;        // by the last one: {
  std::vector<std::size_t> groups_;  // branches outside of each open group behind && or ||
  std::vector<Candidate> commands_;
  ShellValue loose_;
  std::vector<std::string> warnings_;
  std::size_t held_ = 0;  // bytes of all values so far
  int unclosed_quote_ = 0;
};

}  // namespace

Result<ScriptText> read_shell(std::string_view text, const std::string& file,
                              const std::map<std::string, std::string>& defines) {
  Reader reader(text, defines);
  ScriptText script;
  ShellValue words = reader.words();
  if (const int line = reader.unclosed_quote(); line > 0) {
    return make_error(ErrorCode::invalid, "a quote begins here and is never closed", fmt::format("{}:{}", file, line));
  }
  for (ShellWord& word : words) {
    std::erase_if(word.text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    const std::string where = fmt::format("{}:{}", file, word.line);
    if (is_argument(word.text)) {
      const std::size_t equals = word.text.find('=');
      script.arguments.push_back({word.text.substr(0, equals), {}, where});
      if (equals != std::string::npos) script.arguments.back().values.push_back(word.text.substr(equals + 1));
    } else if (!script.arguments.empty()) {
      script.arguments.back().values.push_back(word.text);
    }
  }
  script.warnings = std::move(reader.warnings());
  if (script.arguments.empty()) {
    return make_error(ErrorCode::invalid,
                      "no argument such as --num-layers found: a launch script, a line of arguments, or a YAML file "
                      "with MODEL_ARGS is expected",
                      file);
  }
  return script;
}

}  // namespace stepcast::scenarios::megatron
