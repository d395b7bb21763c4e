// Launch arguments of a Megatron-LM run, from wherever a log or a file beside it holds them.
//
// Known forms: the dump that Megatron prints ("  tensor_model_parallel_size ........ 8"), the line on the world's
// sizes, flat command lines ("--tensor-model-parallel-size 8 \"), YAML ("  --tensor-model-parallel-size: 8"), and the
// few names that launch scripts echo ("GLOBAL_BATCH_SIZE:  1008"). Names are kept with underscores, as in the dump.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::validation {

class MegatronArguments {
 public:
  // Takes what a line says; true if it said something.
  bool take_line(std::string_view line);
  void set(const std::string& name, const std::string& value) { values_[name] = value; }

  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] bool has(const std::string& name) const;  // false for None
  [[nodiscard]] std::string text(const std::string& name) const;
  [[nodiscard]] bool on(const std::string& name) const;  // True, or a flag without value
  [[nodiscard]] std::optional<int> integer(const std::string& name) const;
  [[nodiscard]] const std::map<std::string, std::string>& values() const { return values_; }

  // Cells of a measured run by column (validation/README.md); what the arguments do not say is left out. Values that
  // are no numbers where numbers are due are named in `faults`.
  [[nodiscard]] std::map<std::string, std::string> cells(std::vector<std::string>& faults) const;

 private:
  bool take_dump(std::string_view line);
  bool take_world(std::string_view line);
  bool take_flags(std::string_view line);
  bool take_echo(std::string_view line);

  std::map<std::string, std::string> values_;
};

}  // namespace stepcast::validation
