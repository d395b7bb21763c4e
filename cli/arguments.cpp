#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>

namespace stepcast::cli {
namespace po = boost::program_options;
namespace {

std::optional<double> parse_decimal(std::string_view text) {
  double scale = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        scale = 1e3;
        break;
      case 'M':
        scale = 1e6;
        break;
      case 'G':
      case 'B':
        scale = 1e9;
        break;
      case 'T':
        scale = 1e12;
        break;
      default:
        break;
    }
    if (scale > 1) text.remove_suffix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value * scale;
}

template <class Int>
std::optional<Int> parse_integer(std::string_view text) {
  Int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Error usage(std::string_view option, std::string message) {
  return make_error(ErrorCode::usage, std::move(message), "--" + std::string(option));
}

std::vector<std::string> long_names(const po::options_description& description) {
  std::vector<std::string> names;
  for (const auto& option : description.options()) names.push_back("--" + option->long_name());
  return names;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return parse_decimal(text);
  const auto over = parse_decimal(text.substr(0, slash));
  const auto under = parse_decimal(text.substr(slash + 1));
  if (!over || !under || *under == 0) return std::nullopt;
  return *over / *under;
}

bool Arguments::has(std::string_view option) const { return values_.count(std::string(option)) > 0; }

std::string Arguments::text(std::string_view option) const {
  return has(option) ? values_[std::string(option)].as<std::string>() : std::string{};
}

std::vector<std::string> Arguments::list(std::string_view option) const {
  return has(option) ? values_[std::string(option)].as<std::vector<std::string>>() : std::vector<std::string>{};
}

std::vector<std::string> Arguments::empty_options(const po::options_description& description) const {
  std::vector<std::string> names;
  for (const auto& option : description.options()) {
    const std::string& name = option->long_name();
    if (option->semantic()->max_tokens() == 0 || !has(name)) continue;
    const auto* text = boost::any_cast<std::string>(&values_[name].value());
    if (text != nullptr && text->empty()) names.push_back(name);
  }
  return names;
}

void Arguments::fail(std::string_view option, std::string message) {
  errors_.push_back(usage(option, std::move(message)));
}

std::optional<double> Arguments::number(std::string_view option, double low, double high) {
  if (!has(option)) return std::nullopt;
  const auto value = parse_number(text(option));
  if (!value) {
    fail(option, fmt::format("found '{}', a number such as 2.31e6, 35B or 8/6 is needed", text(option)));
    return std::nullopt;
  }
  if (*value < low || *value > high) {
    fail(option, fmt::format("found {}, allowed is {:g} to {:g}", text(option), low, high));
    return std::nullopt;
  }
  return value;
}

std::optional<long long> Arguments::integer(std::string_view option, long long low, long long high) {
  if (!has(option)) return std::nullopt;
  const auto value = parse_integer<long long>(text(option));
  if (!value || *value < low || *value > high) {
    fail(option, fmt::format("found '{}', a whole number from {} to {} is needed", text(option), low, high));
    return std::nullopt;
  }
  return value;
}

std::vector<int> Arguments::integers(std::string_view option, int high) {
  std::vector<int> numbers;
  const std::string all = text(option);
  std::string_view rest = all;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto dash = item.find('-');
    const auto first = parse_integer<int>(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_integer<int>(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > high) {
      fail(option, fmt::format("found '{}', a list such as 0,16,32-39 of numbers from 0 to {} is needed", item, high));
      return {};
    }
    for (int n = *first; n <= *last; ++n) numbers.push_back(n);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::optional<std::size_t> Arguments::choice(std::string_view option, const std::vector<std::string>& allowed) {
  if (!has(option)) return std::nullopt;
  const std::string found = text(option);
  const auto at = std::find(allowed.begin(), allowed.end(), found);
  if (at == allowed.end()) {
    fail(option,
         fmt::format("found '{}', allowed is {}{}", found, fmt::join(allowed, ", "), suggestion(found, allowed)));
    return std::nullopt;
  }
  return static_cast<std::size_t>(at - allowed.begin());
}

Result<po::variables_map> parse_command_line(const std::vector<std::string>& arguments,
                                             const po::options_description& description, std::string_view positional,
                                             int max_positional) {
  po::positional_options_description positions;
  if (!positional.empty()) positions.add(std::string(positional).c_str(), max_positional);
  constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(arguments).options(description).positional(positions).style(style).run(), values);
    po::notify(values);
  } catch (const po::unknown_option& error) {
    const std::string found = error.get_option_name();
    return make_error(ErrorCode::usage, "unknown option" + suggestion(found, long_names(description)), found);
  } catch (const po::too_many_positional_options_error&) {
    std::string message = positional.empty()
                              ? "takes no arguments that are not flags"
                              : fmt::format("takes at most {} argument(s) that are not flags", max_positional);
    return make_error(ErrorCode::usage, std::move(message));
  } catch (const po::multiple_occurrences& error) {
    return make_error(ErrorCode::usage, "given more than once", error.get_option_name());
  } catch (const po::error_with_option_name& error) {
    return make_error(ErrorCode::usage, "needs a value", error.get_option_name());
  } catch (const std::exception& error) {
    return make_error(ErrorCode::usage, error.what());
  }
  return values;
}

}  // namespace stepcast::cli
