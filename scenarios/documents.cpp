#include "scenarios/documents.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/format.h>

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_numbers = 1'000'000;
constexpr std::size_t largest_file = std::size_t{16} << 20;
constexpr std::string_view lognormal_prefix = "lognormal:";

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Numbers of a JSON list, of lists in it as well.
void collect(const JsonDocument& document, const Json& value, const std::string& pointer, std::vector<double>& numbers,
             Errors& errors) {
  constexpr std::size_t most_errors = 20;
  if (errors.size() >= most_errors) return;
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      collect(document, value[i], pointer + pointer_step(i), numbers, errors);
    }
  } else if (value.is_number()) {
    numbers.push_back(value.get<double>());
  } else {
    errors.push_back(make_error(ErrorCode::invalid, fmt::format("found {}; a number is expected", shown(value)),
                                document.where(pointer)));
  }
}

// "lognormal:MEAN,SIGMA"; nothing if the text is something else, an error in words if it is malformed.
struct Lognormal {
  double mean = 0, sigma = 0;
  std::string fault;
};
std::optional<Lognormal> parse_lognormal(const std::string& text) {
  if (!text.starts_with(lognormal_prefix)) return std::nullopt;
  const std::string_view rest = std::string_view(text).substr(lognormal_prefix.size());
  const auto comma = rest.find(',');
  const auto mean = comma == std::string_view::npos ? std::nullopt : number_of(rest.substr(0, comma));
  const auto sigma = comma == std::string_view::npos ? std::nullopt : number_of(rest.substr(comma + 1));
  if (!mean || !sigma || *mean < 1 || *mean > 1e8 || *sigma < 0 || *sigma > 5) {
    return Lognormal{0, 0,
                     fmt::format("document_lengths is '{}'; lognormal:MEAN,SIGMA is expected, with a mean of 1 to 1e8 "
                                 "tokens and a sigma of the logarithm of 0 to 5",
                                 text.substr(0, 60))};
  }
  return Lognormal{*mean, *sigma, {}};
}

// Cuts at the sequence length and refuses what is no length.
void take_lengths(Draft& draft, JsonFields& workload, std::vector<double> lengths, const std::string& from) {
  if (lengths.empty()) {
    workload.fail("document_lengths", fmt::format("{} holds no length", from));
    return;
  }
  if (lengths.size() > most_numbers) {
    workload.fail("document_lengths",
                  fmt::format("{} holds {} lengths; at most {} are read", from, lengths.size(), most_numbers));
    return;
  }
  std::size_t cut = 0;
  const double longest = draft.spec.workload.sequence_length;
  for (double& length : lengths) {
    if (!(length >= 1) || length > 1e9 || length != std::floor(length)) {
      workload.fail("document_lengths",
                    fmt::format("{} holds the length {}; whole tokens from 1 to 1e9 are expected", from, length));
      return;
    }
    if (length > longest) {
      ++cut;
      length = longest;
    }
  }
  if (cut > 0) {
    draft.assume(fmt::format("{} of {} document lengths are above the sequence length and count as {} tokens", cut,
                             lengths.size(), draft.spec.workload.sequence_length));
  }
  draft.spec.workload.document_lengths = std::move(lengths);
}

}  // namespace

double normal_quantile(double p) {
  double low = -40;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

std::vector<double> lognormal_lengths(double mean, double sigma, double longest) {
  constexpr int quantiles = 512;
  std::vector<double> lengths;
  double sum = 0;
  for (int i = 0; i < quantiles; ++i) {
    lengths.push_back(std::exp(sigma * normal_quantile((i + 0.5) / quantiles)));
    sum += lengths.back();
  }
  const double scale = mean * quantiles / sum;
  for (double& length : lengths) length = std::clamp(length * scale, 1.0, longest);
  return lengths;
}

Result<std::vector<double>> parse_numbers(const std::string& text, const std::string& file) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) return parse_numbers(text.substr(byte_order_mark.size()), file);
  std::vector<double> numbers;
  Errors errors;
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (text[first] == '[' || text[first] == '{')) {
    const auto document = parse_json(text, file);
    if (!document) return document.errors();
    collect(*document, document->root, "", numbers, errors);
    if (!errors.empty()) return errors;
    return numbers;
  }
  std::size_t line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    constexpr std::string_view separators = " \t\r\n,;";
    if (separators.find(text[at]) != std::string_view::npos) {
      if (text[at] == '\n') {
        ++line;
        line_start = at + 1;
      }
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    const auto value = number_of(word);
    if (!value) {
      const Json shown_word(std::string(word.substr(0, 40)));
      return make_error(ErrorCode::invalid, fmt::format("found {}; a number is expected", shown(shown_word)),
                        fmt::format("{}:{}:{}", file, line, at - line_start + 1));
    }
    numbers.push_back(*value);
    at = end;
  }
  return numbers;
}

void read_documents(Draft& draft, JsonFields& workload) {
  const Json* value = workload.find("document_lengths");
  if (value == nullptr) return;
  if (value->is_array()) {
    std::vector<double> lengths;
    collect(workload.document(), *value, workload.pointer_of("document_lengths"), lengths, workload.errors());
    take_lengths(draft, workload, std::move(lengths), "document_lengths");
    return;
  }
  const auto text = workload.text("document_lengths");
  if (!text) return;
  if (const auto lognormal = parse_lognormal(*text)) {
    if (!lognormal->fault.empty()) {
      workload.fail("document_lengths", lognormal->fault);
      return;
    }
    draft.documents = *text;
    draft.spec.workload.document_lengths =
        lognormal_lengths(lognormal->mean, lognormal->sigma, draft.spec.workload.sequence_length);
    return;
  }
  const auto file = draft.locate(*text);
  auto content = read_text_file(file, largest_file);
  auto lengths = content ? parse_numbers(*content, file.string()) : Result<std::vector<double>>(content.errors());
  if (!lengths) {
    for (const Error& e : lengths.errors()) {
      workload.fail("document_lengths", fmt::format("document_lengths: {} ({})", e.message, e.where), e.code);
    }
    return;
  }
  take_lengths(draft, workload, std::move(*lengths), *text);
}

}  // namespace stepcast::scenarios
