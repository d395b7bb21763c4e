#include "cli/written_files.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/output_file.h"

namespace stepcast::cli {
namespace fs = std::filesystem;
namespace po = boost::program_options;
namespace {

constexpr std::array<const char*, 7> written_files = {"output", "report",   "trace",         "dag",
                                                      "write",  "megatron", "profile-output"};

struct ReadFile {
  std::string name, from;  // "runs.csv", "--profile"; empty: a positional word
};

// Where a name leads once links are followed. Made absolute first: a relative name of which nothing exists would stay
// as it is. Where links cannot be followed the name itself is the place.
fs::path place_of(const fs::path& name) {
  std::error_code code;
  const fs::path absolute = fs::absolute(name, code);
  if (code) return name.lexically_normal();
  const fs::path place = fs::weakly_canonical(absolute, code);
  return code ? absolute.lexically_normal() : place;
}

// "record" of `baseline record a.json`, "scenario" of `export scenario s.json`: a word of the command, no file. What a
// synopsis writes in capitals or with an ending stands for a file.
bool is_verb(const Command& command, std::string_view word) {
  const auto small = [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; };
  if (!std::all_of(word.begin(), word.end(), small)) return false;
  std::string_view rest = command.synopsis;
  while (!rest.empty()) {
    const auto end = std::min(rest.find_first_of(" |"), rest.size());
    if (rest.substr(0, end) == word) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// Catalogue names, numbers and folders among them are passed over later: they are no regular files.
std::vector<ReadFile> read_files(const Command& command, const po::options_description& options,
                                 const Arguments& arguments) {
  std::vector<ReadFile> files;
  const std::array<std::string_view, 3> name_or_file = {"model", "cluster", "device"};
  for (const auto& option : options.options()) {
    const std::string& flag = option->long_name();
    const bool takes_file =
        option->semantic()->max_tokens() > 0 && option->format_parameter().find("FILE") != flag.npos;
    const bool named = std::find(name_or_file.begin(), name_or_file.end(), flag) != name_or_file.end();
    if (names_written_file(flag) || !arguments.has(flag) || (!takes_file && !named)) continue;
    const bool several = option->semantic()->is_composing();
    for (const std::string& name : several ? arguments.list(flag) : std::vector<std::string>{arguments.text(flag)})
      files.push_back({name, "--" + flag});
  }
  for (const std::string& set : arguments.list("set")) {
    if (const auto equals = set.find('='); equals != std::string::npos)
      files.push_back({set.substr(equals + 1), "--set " + set.substr(0, equals)});
  }
  if (command.positional.empty()) return files;
  const std::vector<std::string> words = arguments.list(command.positional);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0 || !is_verb(command, words[i])) files.push_back({words[i], ""});
  }
  return files;
}

}  // namespace

bool names_written_file(std::string_view option) {
  return std::find(written_files.begin(), written_files.end(), option) != written_files.end();
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code code;
  return fs::equivalent(a, b, code) || place_of(a) == place_of(b);
}

Errors check_written_files(const Command& command, const po::options_description& options, Arguments& arguments) {
  Errors errors;
  std::map<fs::path, const char*> taken;
  const std::vector<ReadFile> inputs = read_files(command, options, arguments);
  for (const char* option : written_files) {
    if (!arguments.has(option)) continue;
    const fs::path name = arguments.text(option);
    const auto [other, first] = taken.emplace(place_of(name), option);
    if (!first) {
      arguments.fail(option, fmt::format("is the file of --{} too: two results cannot share it", other->second));
      continue;
    }
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const ReadFile& file) {
      std::error_code ignored;
      return fs::is_regular_file(file.name, ignored) && same_file(name, file.name);
    });
    if (input != inputs.end()) {
      arguments.fail(option, fmt::format("{} would overwrite {}{}, which is read: name another file", name.string(),
                                         input->name, input->from.empty() ? "" : " of " + input->from));
    } else if (const auto file = OutputFile::open(name); !file) {
      errors.insert(errors.end(), file.errors().begin(), file.errors().end());
    }
  }
  return errors;
}

}  // namespace stepcast::cli
