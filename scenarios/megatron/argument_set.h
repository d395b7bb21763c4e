// Arguments by name, read with checks; what nobody asked for is known at the end.
//
// As argparse does, the last of a repeated argument wins. A wrong value is an
// error with the argument's place, and the getter returns nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/megatron/arguments.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::megatron {

class ArgumentSet {
 public:
  ArgumentSet(const ArgumentList& arguments, Errors& errors);

  [[nodiscard]] bool has(std::string_view name) const;
  // A flag without a value (or with "true"); marks it as used, as all getters do.
  bool flag(std::string_view name);
  std::optional<long long> integer(std::string_view name, long long low, long long high);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<std::string> text(std::string_view name);
  std::optional<std::size_t> choice(std::string_view name, const std::vector<std::string>& allowed);
  // All values; a single one is split at blanks and commas.
  std::vector<std::string> list(std::string_view name);

  void fail(std::string_view name, std::string message, ErrorCode code = ErrorCode::invalid);
  // "FILE:12 --num-layers", or the name alone where it was not given.
  [[nodiscard]] std::string where(std::string_view name) const;

  [[nodiscard]] ArgumentList unused() const;
  // Names that a getter was asked for, given or not.
  [[nodiscard]] const std::vector<std::string>& known() const { return asked_; }
  // Names that were given more than once.
  [[nodiscard]] const std::vector<std::string>& repeated() const { return repeated_; }

 private:
  const Argument* find(std::string_view name);

  ArgumentList arguments_;
  std::map<std::string, std::size_t, std::less<>> index_;  // name -> its last
  std::vector<bool> used_;
  std::vector<std::string> asked_, repeated_;
  Errors* errors_;
};

}  // namespace stepcast::scenarios::megatron
