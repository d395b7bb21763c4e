// The options of one command line, read with checks.
//
// Options reach Boost.Program_options as text; the getters convert and check,
// so that every message names the flag, what was found and what is allowed.
// A wrong value is an error in the list and the getter returns nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>

#include "sim/base/error.h"

namespace stepcast::cli {

class Arguments {
 public:
  explicit Arguments(boost::program_options::variables_map values) : values_(std::move(values)) {}

  [[nodiscard]] bool has(std::string_view option) const;
  [[nodiscard]] bool flag(std::string_view option) const { return has(option); }
  [[nodiscard]] std::string text(std::string_view option) const;               // empty when absent
  [[nodiscard]] std::vector<std::string> list(std::string_view option) const;  // every occurrence

  // Decimal, with an exponent, a decimal suffix (3B, 1.5M, 40k, 2T) or as a fraction (8/6).
  std::optional<double> number(std::string_view option, double low, double high);
  std::optional<long long> integer(std::string_view option, long long low, long long high);
  // "0,16,32" or "0-7,64": whole numbers in [0, high], ascending and without repeats.
  std::vector<int> integers(std::string_view option, int high);
  std::optional<std::size_t> choice(std::string_view option, const std::vector<std::string>& allowed);

  // Options of the description that take a value and were given an empty one ('--ranks ""').
  [[nodiscard]] std::vector<std::string> empty_options(
      const boost::program_options::options_description& description) const;

  void fail(std::string_view option, std::string message);
  [[nodiscard]] const Errors& errors() const { return errors_; }

 private:
  boost::program_options::variables_map values_;
  Errors errors_;
};

// `description` holds a command's options and the global ones. Errors (unknown flag with the nearest name, missing
// value, a flag given twice) carry ErrorCode::usage.
[[nodiscard]] Result<boost::program_options::variables_map> parse_command_line(
    const std::vector<std::string>& arguments, const boost::program_options::options_description& description,
    std::string_view positional, int max_positional);

// "3e9", "3B", "8/6". Nothing if it is no finite number.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

}  // namespace stepcast::cli
