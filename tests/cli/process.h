// Runs the stepcast binary as a user does and takes what it says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stepcast::cli_tests {

struct Outcome {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out, err;
};

struct Setting {
  std::vector<std::string> environment;   // "NO_COLOR=1", on top of a clean PATH and TERM
  std::filesystem::path folder;           // working directory; empty: that of the test
  double interrupt_after_s = -1;          // sends SIGINT then; negative: never
  std::filesystem::path standard_output;  // written instead of `out`, as /dev/full; empty: `out`
  bool terminal = false;                  // standard output and error are one terminal; all text arrives in `out`
};

// A run that takes longer than two minutes is killed.
[[nodiscard]] Outcome run(const std::vector<std::string>& arguments, const Setting& setting = {});

// Splits at spaces; there is no quoting.
[[nodiscard]] std::vector<std::string> words(const std::string& line);

// A folder that is removed with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace stepcast::cli_tests
