#include "validation/logs/megatron_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "scenarios/report/text_table.h"
#include "sim/base/json_reader.h"
#include "validation/logs/log_lines.h"

namespace stepcast::validation {
namespace {

constexpr std::size_t max_bytes = std::size_t{256} << 20;
constexpr double warm_above = 1.1;      // of the steady level
constexpr double longest_step_s = 1e5;  // beyond it the unit is not what the line says

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t n = v.size();
  return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// The number right after `name` and a colon, with what follows it up to the next bar ("5444.9", "16601.3/17219.3").
std::optional<std::string> field(std::string_view line, std::string_view name) {
  const auto at = line.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + name.size());
  const auto colon = rest.find_first_not_of(" \t");
  if (colon == std::string_view::npos || rest[colon] != ':') return std::nullopt;
  rest = rest.substr(colon + 1);
  return trimmed_text(rest.substr(0, rest.find('|')));
}

// Positions where "iteration N/ M" begins: two lines may have been written into one.
std::vector<std::size_t> iteration_starts(std::string_view line) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; (at = line.find("iteration", at)) != std::string_view::npos; at += 9) {
    const auto words = words_of(line.substr(at + 9, 48));
    if (words.empty()) continue;
    const auto slash = words.front().find('/');
    const bool number = whole_number(std::string_view(words.front()).substr(0, slash)).has_value();
    const bool bar = slash != std::string::npos || (words.size() > 1 && words[1].starts_with('/'));
    if (number && bar) starts.push_back(at);
  }
  return starts;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : lines_(clean_lines(text)) { log_.file = file; }

  Result<MegatronLog> read() {
    for (std::size_t i = 0; i < lines_.size(); ++i) line(lines_[i], static_cast<int>(i) + 1);
    drop_repeats();
    if (log_.steps.empty()) {
      const std::string why = log_.damaged.empty()
                                  ? "no line with a step time (\"elapsed time per iteration (ms):\" or \"Step Time :\")"
                                  : "every step line is damaged; the first: " + log_.damaged.front().why;
      return make_error(ErrorCode::unreadable, why, log_.file);
    }
    settle();
    if (log_.counted == 0) return nothing_steady();
    return std::move(log_);
  }

 private:
  [[nodiscard]] Error nothing_steady() const {
    std::string why = fmt::format("no usable iteration is left after warm-up and batch ramp-up: {} of {} are warm-up",
                                  log_.warm_up, log_.steps.size());
    if (log_.other_batch > 0) why += fmt::format(", {} are at another batch than the last", log_.other_batch);
    constexpr std::size_t most_named = 5;
    for (std::size_t i = 0; i < std::min(most_named, log_.damaged.size()); ++i)
      why += fmt::format("{} line {}: {}", i == 0 ? "; dropped:" : ";", log_.damaged[i].line, log_.damaged[i].why);
    if (log_.damaged.size() > most_named) why += fmt::format("; and {} more", log_.damaged.size() - most_named);
    return make_error(ErrorCode::invalid, std::move(why), log_.file);
  }

  void line(const std::string& text, int number) {
    const auto starts = iteration_starts(text);
    if (starts.size() > 1) {
      for (std::size_t s = 0; s < starts.size(); ++s) {
        const std::size_t end = s + 1 < starts.size() ? starts[s + 1] : text.size();
        step(std::string_view(text).substr(starts[s], end - starts[s]), number);
      }
    } else if (starts.size() == 1) {
      step(std::string_view(text).substr(starts.front()), number);
    } else if (text.find("Step Time") != std::string::npos) {
      bridge_step(text, number);
    } else if (text.find("max allocated") != std::string::npos) {
      memory(text);
    } else {
      log_.arguments.take_line(text);
    }
  }

  void damaged(int number, std::string why) { log_.damaged.push_back({number, std::move(why)}); }

  void step(std::string_view text, int number) {
    LoggedStep s;
    s.line = number;
    const auto words = words_of(text.substr(9, 48));
    const double count = whole_number(words.front().substr(0, words.front().find('/'))).value_or(0);
    s.iteration = count >= 0 && count < 1e15 ? static_cast<long long>(count) : 0;
    const auto in_ms = field(text, "elapsed time per iteration (ms)");
    const auto in_s = field(text, "elapsed time per iteration (s)");
    if (!in_ms && !in_s) {
      // Bridge prints the loss beside the iteration and the time on a line of its own.
      if (text.find('|') != std::string_view::npos && text.find("elapsed") != std::string_view::npos)
        damaged(number, "the line is cut before its step time");
      pending_ = s;
      return;
    }
    const std::string value = in_ms ? *in_ms : *in_s;
    const auto seconds = whole_number(value.substr(0, value.find('/')));  // last, of last/average
    if (!seconds) {
      damaged(number, fmt::format("the step time is '{}', not a number", value.substr(0, 40)));
      return;
    }
    s.seconds = *seconds * (in_ms ? 1e-3 : 1);
    if (const auto batch = field(text, "global batch size")) {
      const auto size = whole_number(*batch);
      if (!size || *size < 1 || *size != std::floor(*size) || *size > 1e9) {
        damaged(number, fmt::format("the global batch size is '{}'", batch->substr(0, 40)));
        return;
      }
      s.global_batch = static_cast<int>(*size);
    }
    for (const char* name : {"throughput per GPU (TFLOP/s/GPU)", "TFLOPs"}) {
      if (const auto rate = field(text, name))
        s.tflops_per_device = whole_number(rate->substr(0, rate->find('/'))).value_or(0);
    }
    keep(s);
  }

  // "Step Time : 12.03s GPU utilization: 245.1MODEL_TFLOP/s/GPU"
  void bridge_step(std::string_view text, int number) {
    LoggedStep s = pending_.value_or(LoggedStep{});
    pending_.reset();
    s.line = number;
    const auto value = field(text, "Step Time");
    if (!value) return;
    const std::string first = words_of(*value).empty() ? "" : words_of(*value).front();
    const bool ms = first.ends_with("ms");
    const std::string digits = first.substr(0, first.size() - (ms ? 2 : first.ends_with('s') ? 1 : 0));
    const auto seconds = whole_number(digits);
    if (!seconds) {
      damaged(number, fmt::format("the step time is '{}', not a time", first.substr(0, 40)));
      return;
    }
    s.seconds = *seconds * (ms ? 1e-3 : 1);
    if (const auto rate = field(text, "GPU utilization")) {
      const auto unit = rate->find("MODEL_TFLOP");
      s.tflops_per_device = whole_number(trimmed_text(std::string_view(*rate).substr(0, unit))).value_or(0);
    }
    keep(s);
  }

  void keep(const LoggedStep& s) {
    if (!(s.seconds > 0)) {
      damaged(s.line, fmt::format("the step time is {} s, expected a time above 0", s.seconds));
    } else if (s.seconds > longest_step_s) {
      damaged(s.line,
              fmt::format("the step time is {:.4g} s: more than a day, the unit is not what the line says", s.seconds));
    } else {
      log_.steps.push_back(s);
    }
  }

  void memory(std::string_view text) {
    for (const char* name : {"max reserved", "max allocated"}) {
      const auto value = field(text, name);
      const auto mb = value ? whole_number(*value) : std::nullopt;
      if (!mb || *mb <= 0) continue;
      log_.peak_memory_gb = std::max(log_.peak_memory_gb, *mb * 1048576 / 1e9);
      return;
    }
  }

  // Several ranks may print the same line.
  void drop_repeats() {
    std::set<std::tuple<long long, double, int>> seen;
    const std::size_t before = log_.steps.size();
    std::erase_if(log_.steps, [&](const LoggedStep& s) {
      return s.iteration > 0 && !seen.emplace(s.iteration, s.seconds, s.global_batch).second;
    });
    if (before != log_.steps.size())
      log_.warnings.push_back(
          fmt::format("{} step lines stand more than once and count once", before - log_.steps.size()));
  }

  void settle() {
    const int batch = log_.steps.back().global_batch;
    std::vector<LoggedStep> same;
    for (const LoggedStep& s : log_.steps) {
      if (s.global_batch == batch) same.push_back(s);
    }
    log_.other_batch = log_.steps.size() - same.size();
    if (log_.other_batch > 0) {
      log_.warnings.push_back(
          fmt::format("{} steps at another global batch than the last ({}) do not count", log_.other_batch, batch));
    }
    if (log_.steps.size() == 1 && !log_interval() && log_.steps.front().iteration > 1) {
      log_.warnings.push_back(
          "one step line: whether it averages over the run's first step too, which compiles and allocates, is not told "
          "without --log-interval");
    }
    std::vector<double> steady = without_warm_up(same);
    log_.warm_up = same.size() - steady.size();
    log_.counted = steady.size();
    if (steady.empty()) return;
    log_.step_time_s = median(steady);
    std::sort(steady.begin(), steady.end());
    const auto at = [&](double q) {
      return steady[static_cast<std::size_t>(q * static_cast<double>(steady.size() - 1))];
    };
    log_.spread = (at(0.9) - at(0.1)) / 2 / log_.step_time_s;
    if (steady.size() < 5)
      log_.warnings.push_back(fmt::format("only {} steady steps: the median is of few", steady.size()));
    std::vector<double> rates;
    for (const LoggedStep& s : same) {
      if (s.tflops_per_device > 0) rates.push_back(s.tflops_per_device);
    }
    if (!rates.empty()) log_.tflops_per_device = median(rates);
    if (batch > 0) log_.arguments.set("global_batch_size", std::to_string(batch));
  }

  // Iterations that a line averages over, where the launch arguments tell.
  [[nodiscard]] std::optional<long long> log_interval() const {
    const auto told = log_.arguments.integer("log_interval");
    return told && *told > 0 ? std::optional<long long>(*told) : std::nullopt;
  }

  // A run that starts anew (the iteration falls) warms up anew.
  [[nodiscard]] std::vector<double> without_warm_up(const std::vector<LoggedStep>& steps) const {
    std::vector<double> late;
    for (std::size_t i = steps.size() / 2; i < steps.size(); ++i) late.push_back(steps[i].seconds);
    const double level = warm_above * median(late);
    std::vector<double> kept;
    bool warming = true;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool restart = i > 0 && steps[i].iteration > 0 && steps[i].iteration <= steps[i - 1].iteration;
      const long long apart = i + 1 < steps.size() ? steps[i + 1].iteration - steps[i].iteration : 1;
      const long long interval = log_interval().value_or(apart);
      // The first line of a run holds the first step, which compiles and allocates.
      const bool first = restart || (i == 0 && steps[i].iteration > 0 && steps[i].iteration <= interval);
      if (restart) warming = true;
      if (warming && !first && steps[i].seconds <= level) warming = false;
      if (!warming) kept.push_back(steps[i].seconds);
    }
    return kept;
  }

  std::vector<std::string> lines_;
  MegatronLog log_;
  std::optional<LoggedStep> pending_;
};

}  // namespace

Result<MegatronLog> parse_megatron_log(std::string_view text, const std::string& file_name) {
  if (text.find('\0') != std::string_view::npos)
    return make_error(ErrorCode::unreadable, "binary content, expected a training log", file_name);
  if (text.find_first_not_of(" \t\r\n\xef\xbb\xbf") == std::string_view::npos)
    return make_error(ErrorCode::unreadable, "empty", file_name);
  return Reader(text, file_name).read();
}

Result<MegatronLog> read_megatron_log(const std::filesystem::path& file) {
  const auto text = read_text_file(file, max_bytes);
  if (!text) return text.errors();
  return parse_megatron_log(*text, file.string());
}

Result<std::map<std::string, std::string>> run_of_log(const MegatronLog& log, const std::string& id,
                                                      const std::map<std::string, std::string>& stated) {
  std::vector<std::string> faults;
  auto cells = log.arguments.cells(faults);
  for (const auto& [column, value] : stated) cells[column] = value;
  cells["id"] = id;
  cells["step_time_s"] = fmt::format("{:.6g}", log.step_time_s);
  if (log.tflops_per_device > 0) cells["model_tflops_per_device"] = fmt::format("{:.6g}", log.tflops_per_device);
  if (log.peak_memory_gb > 0) cells["peak_memory_gb"] = fmt::format("{:.6g}", log.peak_memory_gb);
  // A gated FFN is told by the model's name in these columns (validation/mapping.cpp).
  if (!cells.contains("model") && cells["kind"] == "dense" && cells.contains("hidden"))
    cells["model"] = log.arguments.on("swiglu") ? "llama-like" : "gpt-like";
  if (cells["kind"].empty()) cells.erase("kind");
  Errors errors;
  for (const std::string& fault : faults) errors.push_back(make_error(ErrorCode::invalid, fault, log.file));
  for (const auto& [column, how] : std::array<std::pair<const char*, const char*>, 3>{
           {{"model", "the arguments do not tell the shape; state it with --model"},
            {"device", "a log does not tell the device; state it with --device"},
            {"devices", "the world size is not in the log; state it with --devices"}}}) {
    if (!cells.contains(column)) errors.push_back(make_error(ErrorCode::invalid, how, log.file));
  }
  if (!errors.empty()) return errors;
  return cells;
}

std::string runs_csv(const std::vector<std::map<std::string, std::string>>& runs) {
  std::vector<std::string> columns = {"id", "kind", "model", "device", "devices", "step_time_s"};
  std::set<std::string> known(columns.begin(), columns.end());
  for (const auto& run : runs) {
    for (const auto& [column, value] : run) {
      if (known.insert(column).second) columns.push_back(column);
    }
  }
  std::string out = scenarios::csv_line(columns);
  for (const auto& run : runs) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      const auto found = run.find(column);
      cells.push_back(found == run.end() ? "" : found->second);
    }
    out += scenarios::csv_line(cells);
  }
  return out;
}

}  // namespace stepcast::validation
