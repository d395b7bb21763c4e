// Texts of `routing.skew`: names with a parameter, and histogram files.
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "parallelism/routing.h"
#include "sim/base/json_reader.h"

namespace stepcast::parallelism {
namespace {

constexpr std::size_t largest_histogram = std::size_t{16} << 20;  // bytes
constexpr double largest_share = 1e30;
constexpr const char* key = "/routing/skew";

Error fault(std::string message, std::string where = key) {
  return make_error(ErrorCode::invalid, std::move(message), std::move(where));
}

// The whole of the text as a finite number.
std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Text from outside, for a message.
std::string shown_text(std::string_view text) {
  constexpr std::size_t most = 40;
  std::string out;
  for (const char c : text.substr(0, most)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return text.size() > most ? out + "..." : out;
}

Result<RoutingSpec> with_parameter(SkewKind kind, std::string_view name, std::string_view text, double low,
                                   double high) {
  const auto value = number(text);
  if (!value || *value < low || *value > high) {
    return fault(
        fmt::format("skew {}:{}; the number after '{}:' must be {} to {}", name, shown_text(text), name, low, high));
  }
  RoutingSpec spec;
  spec.kind = kind;
  spec.parameter = *value;
  return spec;
}

// Shares in the order of the file, each with where it stood.
struct Shares {
  std::vector<double> values;
  Errors errors;

  void add(double value, const std::string& where) {
    constexpr std::size_t most_errors = 20;
    if (value >= 0 && value <= largest_share) {
      values.push_back(value);
    } else if (errors.size() < most_errors) {
      errors.push_back(fault(fmt::format("share {}; it must be 0 to {}", value, largest_share), where));
    }
  }
};

Shares read_text(std::string_view text, const std::string& file) {
  Shares shares;
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#') {
      while (at < text.size() && text[at] != '\n') ++at;
    } else if (c == '\n' || c == '\r' || c == ' ' || c == '\t' || c == ',') {
      line += c == '\n' ? 1U : 0U;
      ++at;
    } else {
      const std::size_t end = std::min(text.find_first_of(" \t\r\n,#", at), text.size());
      const std::string_view word = text.substr(at, end - at);
      const std::string where = fmt::format("{}:{}", file, line);
      if (const auto value = number(word)) {
        shares.add(*value, where);
      } else {
        shares.errors.push_back(fault(fmt::format("'{}' is no number", shown_text(word)), where));
        return shares;
      }
      at = end;
    }
  }
  return shares;
}

void read_json_list(const JsonDocument& document, const nlohmann::ordered_json& list, const std::string& pointer,
                    int depth, Shares& shares) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const nlohmann::ordered_json& item = list[i];
    const std::string at = pointer + pointer_step(i);
    if (item.is_number()) {
      shares.add(item.get<double>(), document.where(at));
    } else if (item.is_array() && depth == 0) {
      read_json_list(document, item, at, depth + 1, shares);
    } else {
      shares.errors.push_back(fault(fmt::format("{} is no number; a histogram is a list of shares, or a list of such "
                                                "lists, one a layer",
                                                shown(item)),
                                    document.where(at)));
      return;
    }
  }
}

Result<RoutingSpec> from_shares(Shares shares, const std::string& file, int experts) {
  if (!shares.errors.empty()) return shares.errors;
  if (experts < 1) return fault(fmt::format("histogram {} for a model without experts", file));
  const auto n = static_cast<std::size_t>(experts);
  if (shares.values.empty() || shares.values.size() % n != 0) {
    return fault(fmt::format("{} shares; it must be the {} experts, or a multiple of them, {} for each layer",
                             shares.values.size(), experts, experts),
                 file);
  }
  for (std::size_t row = 0; row < shares.values.size() / n; ++row) {
    double sum = 0;
    for (std::size_t e = 0; e < n; ++e) sum += shares.values[row * n + e];
    if (!(sum > 0)) return fault(fmt::format("the shares of row {} are all 0", row), file);
  }
  RoutingSpec spec;
  spec.kind = SkewKind::histogram;
  spec.histogram = std::move(shares.values);
  return spec;
}

Result<RoutingSpec> from_file(const std::string& name, int experts) {
  auto text = read_text_file(name, largest_histogram);
  if (!text.ok()) {
    const std::vector<std::string> names{"balanced", "aux-loss-free", "zipf:0.3", "dirichlet:10"};
    return fault(
        fmt::format("skew '{}' is neither balanced, aux-loss-free, zipf:S, dirichlet:A nor a histogram file ({}){}",
                    shown_text(name), text.errors().front().message, suggestion(name, names)));
  }
  const std::size_t first = text->find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) return fault("the histogram is empty", name);
  if ((*text)[first] != '[' && (*text)[first] != '{') return from_shares(read_text(*text, name), name, experts);
  const auto document = parse_json(*text, name);
  if (!document.ok()) return document.errors();
  Shares shares;
  if (!document->root.is_array()) return fault("a histogram is a JSON list of shares", document->where(""));
  read_json_list(*document, document->root, "", 0, shares);
  return from_shares(std::move(shares), name, experts);
}

// Balance by a bias on each expert's score instead of a loss (arXiv 2408.15664): over a step the fullest expert has
// some 4 % more than the mean (its MaxVio, global). As the Zipf exponent at which the first of the experts has that;
// the chance of each microbatch comes on top, as with any exponent.
RoutingSpec aux_loss_free(int experts) {
  constexpr double fullest = 1.04;
  constexpr int halvings = 40;
  const auto first_of = [experts](double exponent) {
    double sum = 0;
    for (int r = 1; r <= experts; ++r) sum += std::pow(r, -exponent);
    return experts / sum;
  };
  double low = 0;
  double high = 1;
  for (int i = 0; i < halvings && experts > 1; ++i) {
    const double middle = (low + high) / 2;
    (first_of(middle) < fullest ? low : high) = middle;
  }
  RoutingSpec spec;
  spec.kind = SkewKind::zipf;
  spec.parameter = low;
  return spec;
}

}  // namespace

Result<RoutingSpec> parse_skew(const std::string& text, int experts) {
  constexpr double largest_exponent = 10;
  constexpr double least_concentration = 1e-3;
  constexpr double largest_concentration = 1e6;
  if (text == "balanced") return RoutingSpec{};
  if (text == "aux-loss-free") return aux_loss_free(experts);
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string_view rest =
      colon == std::string::npos ? std::string_view{} : std::string_view(text).substr(colon + 1);
  if (name == "zipf") return with_parameter(SkewKind::zipf, name, rest, 0, largest_exponent);
  if (name == "dirichlet") {
    return with_parameter(SkewKind::dirichlet, name, rest, least_concentration, largest_concentration);
  }
  return from_file(text, experts);
}

}  // namespace stepcast::parallelism
