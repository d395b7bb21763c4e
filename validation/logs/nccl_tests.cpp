#include "validation/logs/nccl_tests.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/base/json_reader.h"
#include "validation/logs/log_lines.h"

namespace stepcast::validation {
namespace {

using topology::Collective;

constexpr std::size_t max_bytes = std::size_t{64} << 20;
constexpr int max_ranks = 1 << 20;
constexpr double microsecond = 1e-6;
// Printed rates have two decimals and times lose decimals when large: beyond this they are not the same measurement.
constexpr double rate_tolerance = 0.02;
constexpr double rate_resolution = 0.011e9;

// Longer names first: "reduce" is part of "all_reduce".
constexpr std::array<std::pair<std::string_view, Collective>, 13> collective_words{{
    {"all_reduce", Collective::all_reduce},
    {"allreduce", Collective::all_reduce},
    {"all_gather", Collective::all_gather},
    {"allgather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter},
    {"reducescatter", Collective::reduce_scatter},
    {"alltoall", Collective::all_to_all},
    {"all_to_all", Collective::all_to_all},
    {"all2all", Collective::all_to_all},
    {"sendrecv", Collective::send_receive},
    {"send_receive", Collective::send_receive},
    {"send_recv", Collective::send_receive},
    {"broadcast", Collective::broadcast},
}};

bool is_type(const std::string& word) {
  static const std::set<std::string> types = {"float",  "half",   "double", "bfloat16", "int8",        "uint8",
                                              "int32",  "uint32", "int64",  "uint64",   "fp8_e4m3",    "fp8_e5m2",
                                              "f8e4m3", "f8e5m2", "int",    "char",     "float8_e4m3", "float8_e5m2"};
  return types.contains(word);
}

bool is_digits(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What the header says of the columns to the right of the type.
struct Columns {
  std::size_t right = 8;  // of both sides together
  bool both = true;       // out of place and in place
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file, const NcclHints& hints)
      : lines_(clean_lines(text)), hints_(hints) {
    out_.file = file;
  }

  Result<NcclOutput> read() {
    for (std::size_t i = 0; i < lines_.size(); ++i) line(lines_[i], static_cast<int>(i) + 1);
    drop_repeats();
    if (out_.rows.empty()) {
      const std::string why = out_.damaged.empty() ? "no row of nccl-tests (size, count, type, ..., time, algbw, busbw)"
                                                   : "every row is damaged; the first: " + out_.damaged.front().why;
      return make_error(ErrorCode::unreadable, why, out_.file);
    }
    settle_ranks();
    settle_kind();
    if (errors_.empty()) drop_impossible();
    if (!errors_.empty()) return errors_;
    return std::move(out_);
  }

 private:
  void fail(std::string message) { errors_.push_back(make_error(ErrorCode::invalid, std::move(message), out_.file)); }

  void line(const std::string& text, int number) {
    if (const auto at = text.find("Collective test starting:"); at != std::string::npos) {
      if (const auto kind = collective_named(text.substr(at + 25))) header_kind_ = kind;
      return;
    }
    const auto words = words_of(text);
    if (rank_line(words)) return;
    if (header(words)) return;
    row(words, number);
  }

  // "#  Rank  0 Group  0 Pid   1000 on     node1 device  0 [0x19] NVIDIA H100 80GB HBM3"
  bool rank_line(const std::vector<std::string>& words) {
    const auto at = std::find(words.begin(), words.end(), "Rank");
    const auto on = std::find(at, words.end(), "on");
    const auto device = std::find(on, words.end(), "device");
    if (at == words.end() || device == words.end() || at + 1 == words.end() || !is_digits(*(at + 1))) return false;
    if (at + 1 == on || (at + 1)->size() > 7) return false;
    ranks_.insert(std::stoi(*(at + 1)));
    if (on + 1 != device) hosts_.insert(*(on + 1));
    // After the index and the bus in brackets comes the name; old outputs write "[0x00] NAME" or "[ 0x00 ]".
    auto name = std::find_if(device, words.end(), [](const std::string& w) { return w.ends_with(']'); });
    std::string device_name;
    while (name != words.end() && ++name != words.end()) device_name += (device_name.empty() ? "" : " ") + *name;
    if (!device_name.empty()) out_.device = device_name;
    return true;
  }

  bool header(const std::vector<std::string>& words) {
    const auto size = std::find(words.begin(), words.end(), "size");
    if (size == words.end() || words.end() - size < 3 || *(size + 1) != "count" || *(size + 2) != "type") return false;
    const auto time = std::find(size, words.end(), "time");
    columns_.right = static_cast<std::size_t>(words.end() - time);
    columns_.both = std::count(time, words.end(), "time") > 1;
    return true;
  }

  void row(const std::vector<std::string>& words, int number) {
    for (std::size_t t = 2; t < words.size(); ++t) {
      if (!is_type(words[t]) || !is_digits(words[t - 1]) || !is_digits(words[t - 2])) continue;
      NcclRow row;
      row.line = number;
      row.bytes = whole_number(words[t - 2]).value_or(0);
      row.type = words[t];
      if (row.bytes == 0) return;  // nccl-tests begins below the smallest whole element
      const std::string why = take(words, t, row);
      if (!why.empty()) {
        out_.damaged.push_back({number, why});
      } else {
        out_.rows.push_back(std::move(row));
      }
      return;
    }
    // Looks like the beginning of a row whose middle is lost.
    const auto size = words.size() >= 3 && is_digits(words[0]) && is_digits(words[1]) && words[0].size() < 16;
    if (size &&
        std::count_if(words.begin(), words.end(), [](const auto& w) { return whole_number(w).has_value(); }) > 5) {
      out_.damaged.push_back({number, "no data type after size and count"});
    }
  }

  // The numbers to the right of the type; the reason why they cannot be believed, or empty.
  std::string take(const std::vector<std::string>& words, std::size_t type, NcclRow& row) {
    if (row.bytes > 1e15) return fmt::format("size {} is above 1e15 bytes", words[type - 2]);
    const std::size_t after = words.size() - type - 1;
    if (after < columns_.right)
      return fmt::format("{} columns after the type, expected {} or more", after, columns_.right);
    if (after > columns_.right + 2)
      return fmt::format("{} columns after the type, expected at most {}", after, columns_.right + 2);
    if (after > columns_.right) row.redop = words[type + 1];
    const std::size_t first = words.size() - columns_.right;
    const std::size_t side = columns_.both ? columns_.right / 2 : columns_.right;
    for (std::size_t s = 0; s < (columns_.both ? 2U : 1U); ++s) {
      std::optional<NcclSide> taken;
      const std::string why = take_side(words, first + s * side, side, row.bytes, taken);
      if (!why.empty()) return fmt::format("{}: {}", s == 0 ? "out of place" : "in place", why);
      (s == 0 ? row.out_of_place : row.in_place) = taken;
    }
    if (!row.out_of_place && !row.in_place) return "neither side has a time";
    return {};
  }

  static std::string take_side(const std::vector<std::string>& words, std::size_t at, std::size_t columns, double bytes,
                               std::optional<NcclSide>& out) {
    if (words[at] == "N/A" || words[at] == "-") return {};
    std::array<double, 3> values{};
    const std::array<const char*, 3> names{"time", "algbw", "busbw"};
    for (std::size_t c = 0; c < 3; ++c) {
      const auto value = whole_number(words[at + c]);
      if (!value) return fmt::format("{} is '{}', not a number", names[c], words[at + c].substr(0, 24));
      if (*value < 0) return fmt::format("{} is {}, below 0", names[c], words[at + c]);
      values[c] = *value;
    }
    if (columns > 3) {
      const auto wrong = whole_number(words[at + 3]);
      if (wrong && *wrong > 0) return fmt::format("{} wrong results", words[at + 3]);
    }
    if (values[0] <= 0) return "time is 0";
    NcclSide side{values[0] * microsecond, values[1] * 1e9, values[2] * 1e9};
    const double derived = bytes / side.time_s;
    if (std::abs(derived - side.algbw) > rate_tolerance * derived + rate_resolution) {
      return fmt::format("size / time is {:.4g} GB/s, but algbw says {}", derived / 1e9, words[at + 1]);
    }
    // No collective has more than 2 (n - 1) / n; what the ranks allow is known later (drop_impossible).
    if (side.busbw > above(2 * side.algbw))
      return fmt::format("busbw is {}, more than twice the algbw of {}", words[at + 2], words[at + 1]);
    out = side;
    return {};
  }

  // A printed rate that still may be `rate`.
  static double above(double rate) { return rate * (1 + rate_tolerance) + 2 * rate_resolution; }

  // Rows whose busbw is more than the collective over these ranks makes of their algbw.
  void drop_impossible() {
    const double factor = topology::busbw_factor(out_.kind, out_.ranks);
    std::erase_if(out_.rows, [&](const NcclRow& row) {
      for (const auto& side : {row.out_of_place, row.in_place}) {
        if (!side || side->busbw <= above(factor * side->algbw)) continue;
        out_.damaged.push_back(
            {row.line,
             fmt::format("busbw is {:.2f}, but {} over {} ranks makes {:.2f} of an algbw of {:.2f}", side->busbw / 1e9,
                         topology::name(out_.kind), out_.ranks, factor * side->algbw / 1e9, side->algbw / 1e9)});
        return true;
      }
      return false;
    });
    std::sort(out_.damaged.begin(), out_.damaged.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    if (out_.rows.empty()) fail("every row is damaged; the first: " + out_.damaged.front().why);
  }

  // Launchers print the table once a process: the same size twice with the same times.
  void drop_repeats() {
    std::set<std::tuple<double, std::string, double, double>> seen;
    std::size_t before = out_.rows.size();
    std::erase_if(out_.rows, [&](const NcclRow& r) {
      const auto time = [](const std::optional<NcclSide>& s) { return s ? s->time_s : 0; };
      return !seen.emplace(r.bytes, r.type, time(r.out_of_place), time(r.in_place)).second;
    });
    if (before != out_.rows.size()) {
      out_.warnings.push_back(fmt::format("{} rows stand more than once and are read once", before - out_.rows.size()));
    }
  }

  // busbw / algbw of the largest row: 2(n-1)/n, (n-1)/n or 1.
  [[nodiscard]] double rate_factor() const {
    const NcclRow* largest = nullptr;
    double factor = 0;
    for (const NcclRow& r : out_.rows) {
      const auto& side = r.out_of_place ? r.out_of_place : r.in_place;
      if (side->algbw < 1e9 || (largest != nullptr && r.bytes <= largest->bytes)) continue;
      largest = &r;
      factor = side->busbw / side->algbw;
    }
    return factor;
  }

  void settle_ranks() {
    out_.nodes = static_cast<int>(hosts_.size());
    const int listed = ranks_.empty() ? 0 : *ranks_.rbegin() + 1;
    if (!ranks_.empty() && static_cast<int>(ranks_.size()) != listed) {
      out_.warnings.push_back(fmt::format("{} of {} ranks are listed: the header is cut", ranks_.size(), listed));
    }
    out_.ranks = listed;
    if (hints_.ranks > 0) {
      if (listed > 0 && listed != hints_.ranks) {
        fail(fmt::format("lists {} ranks, but --ranks says {}", listed, hints_.ranks));
      }
      out_.ranks = hints_.ranks;
    }
    if (out_.ranks == 0) out_.ranks = ranks_of_rates();
    if (out_.ranks < 2) {
      fail(out_.ranks == 1 ? "one rank: no collective to measure"
                           : "the ranks are not listed and the rates do not tell them; give --ranks");
    }
    if (out_.ranks > max_ranks) fail(fmt::format("{} ranks, allowed: up to {}", out_.ranks, max_ranks));
  }

  // Of a cut header, where the rates alone tell the count: (n-1)/n below 1, 2(n-1)/n above.
  int ranks_of_rates() {
    const double factor = rate_factor();
    const double missing = factor > 1 ? 1 - factor / 2 : 1 - factor;
    if (factor <= 0 || missing < 0.004 || missing > 0.51) return 0;
    const int n = static_cast<int>(std::lround(1 / missing));
    if (std::abs(1.0 / n - missing) > 0.02 / n) return 0;
    out_.warnings.push_back(fmt::format("the ranks are not listed: {}, as the rates tell", n));
    return n;
  }

  void settle_kind() {
    if (!errors_.empty()) return;
    const auto of_name = collective_named(std::filesystem::path(out_.file).filename().string());
    const std::array<std::pair<std::optional<Collective>, const char*>, 3> told{
        {{hints_.kind, "--collective"}, {header_kind_, "the header"}, {of_name, "the file's name"}}};
    if (hints_.kind && header_kind_ && *hints_.kind != *header_kind_) {
      fail(fmt::format("the header says {}, but --collective says {}", topology::name(*header_kind_),
                       topology::name(*hints_.kind)));
      return;
    }
    for (const auto& [kind, from] : told) {
      if (!kind) continue;
      out_.kind = *kind;
      out_.kind_from = from;
      check_rates();
      return;
    }
    kind_of_rates();
  }

  void check_rates() {
    const double factor = rate_factor();
    const double expected = topology::busbw_factor(out_.kind, out_.ranks);
    if (factor <= 0 || std::abs(factor / expected - 1) < rate_tolerance) return;
    fail(fmt::format("busbw / algbw is {:.3f}, but {} over {} ranks has {:.3f}: another collective or count of ranks",
                     factor, topology::name(out_.kind), out_.ranks, expected));
  }

  void kind_of_rates() {
    const double factor = rate_factor();
    const bool reduces = !out_.rows.front().redop.empty() && out_.rows.front().redop != "none";
    const double n = out_.ranks;
    out_.kind_from = "the rates";
    const auto near = [&](double f) { return std::abs(factor / f - 1) < rate_tolerance; };
    if (n > 2 && near(2 * (n - 1) / n)) {
      out_.kind = Collective::all_reduce;
    } else if (near((n - 1) / n) && reduces) {
      out_.kind = Collective::reduce_scatter;
    } else {
      fail("the collective is not named by the header, the file's name or the rates; give --collective");
    }
  }

  std::vector<std::string> lines_;
  NcclHints hints_;
  NcclOutput out_;
  Errors errors_;
  Columns columns_;
  std::optional<Collective> header_kind_;
  std::set<int> ranks_;
  std::set<std::string> hosts_;
};

}  // namespace

std::optional<Collective> collective_named(std::string_view text) {
  std::string small;
  for (const char c : text) small += c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [word, kind] : collective_words) {
    if (small.find(word) != std::string::npos) return kind;
  }
  return std::nullopt;
}

Result<NcclOutput> parse_nccl_tests(std::string_view text, const std::string& file_name, const NcclHints& hints) {
  if (text.find('\0') != std::string_view::npos)
    return make_error(ErrorCode::unreadable, "binary content, expected the text output of nccl-tests", file_name);
  const auto first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos) return make_error(ErrorCode::unreadable, "empty", file_name);
  if (text[first] == '{')
    return make_error(ErrorCode::unsupported, "JSON, expected the text output (without -J)", file_name);
  return Reader(text, file_name, hints).read();
}

Result<NcclOutput> read_nccl_tests(const std::filesystem::path& file, const NcclHints& hints) {
  const auto text = read_text_file(file, max_bytes);
  if (!text) return text.errors();
  return parse_nccl_tests(*text, file.string(), hints);
}

}  // namespace stepcast::validation
