// Joins the files of a sweep's shards.
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/sweep/sweep_run.h"

namespace stepcast::scenarios {
namespace {

namespace fs = std::filesystem;

// N of PREFIX.shard-I-of-N.jsonl; 0 if the name is another.
int count_in(const std::string& name, const std::string& stem) {
  const std::string begin = stem + ".shard-";
  const std::string end = ".jsonl";
  const auto of = name.rfind("-of-");
  if (!name.starts_with(begin) || !name.ends_with(end) || of == std::string::npos || of < begin.size()) return 0;
  const char* first = name.data() + of + 4;
  const char* last = name.data() + name.size() - end.size();
  int count = 0;
  const auto [at, code] = std::from_chars(first, last, count);
  return code == std::errc{} && at == last && count > 0 && count <= most_shards ? count : 0;
}

Result<int> count_shards(const ResultFiles& files) {
  const fs::path folder = files.prefix.has_parent_path() ? files.prefix.parent_path() : fs::path(".");
  std::error_code code;
  std::set<int> counts;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (const int n = count_in(at->path().filename().string(), files.prefix.filename().string()); n > 0)
      counts.insert(n);
  }
  if (counts.size() == 1) return *counts.begin();
  if (counts.empty()) {
    return make_error(ErrorCode::not_found, "no file of a shard is here",
                      files.prefix.string() + ".shard-I-of-N.jsonl");
  }
  return make_error(
      ErrorCode::usage,
      fmt::format("files of runs with {} shards are here: say which by --shards", fmt::join(counts, ", ")),
      files.prefix.string());
}

Errors lacking(const Sweep& sweep, const ResultFiles& files, int shards) {
  Errors errors;
  for (int i = 0; i < shards; ++i) {
    const Shard shard{i, shards, {}};
    const fs::path file = files.shard(shard);
    std::error_code code;
    const bool needed = shard.size(sweep.points) > 0;
    if (!fs::exists(file, code)) {
      if (needed) errors.push_back(make_error(ErrorCode::not_found, "the shard's file is missing", file.string()));
      continue;
    }
    const auto finished = read_finished(file, sweep, shard);
    if (!finished) {
      errors.insert(errors.end(), finished.errors().begin(), finished.errors().end());
    } else if (finished->points < shard.size(sweep.points)) {
      errors.push_back(make_error(ErrorCode::invalid,
                                  fmt::format("the shard has {} of its {} points: run it again, it goes on from there",
                                              finished->points, shard.size(sweep.points)),
                                  file.string()));
    } else if (const std::uintmax_t size = fs::file_size(file, code); !code && size != finished->bytes) {
      errors.push_back(make_error(
          ErrorCode::unreadable,
          fmt::format("{} bytes stand behind the line of the last point: run the shard again, which cuts them off",
                      size - finished->bytes),
          file.string()));
    }
  }
  return errors;
}

// The next line of each shard's file. Many files are not all held open: they are found again where they were left.
class ShardLines {
 public:
  ShardLines(const ResultFiles& files, int shards) : open_(shards <= most_open) {
    for (int i = 0; i < shards; ++i) names_.push_back(files.shard(Shard{i, shards, {}}));
    at_.resize(names_.size());
    if (!open_) return;
    for (const fs::path& name : names_) streams_.emplace_back(name, std::ios::binary);
  }

  bool next(std::size_t shard, std::string& line) {
    if (open_) return static_cast<bool>(std::getline(streams_[shard], line));
    std::ifstream file(names_[shard], std::ios::binary);
    file.seekg(at_[shard]);
    if (!std::getline(file, line)) return false;
    at_[shard] += static_cast<std::streamoff>(line.size() + 1);
    return true;
  }
  [[nodiscard]] std::string name(std::size_t shard) const { return names_[shard].string(); }

 private:
  static constexpr int most_open = 500;  // a process may usually hold 1024

  bool open_;
  std::vector<fs::path> names_;
  std::vector<std::streamoff> at_;
  std::vector<std::ifstream> streams_;
};

// Point i is the next line of shard i mod N.
Status join(const Sweep& sweep, const ResultFiles& files, int shards, std::ofstream& out) {
  ShardLines lines(files, shards);
  std::string line;
  for (std::int64_t point = 0; point < sweep.points; ++point) {
    const auto shard = static_cast<std::size_t>(point % shards);
    if (!lines.next(shard, line) || !line.starts_with(record_start(sweep, point))) {
      return make_error(ErrorCode::unreadable, fmt::format("the line of point {} cannot be read", point),
                        lines.name(shard));
    }
    out << line << '\n';
  }
  return Unit{};
}

}  // namespace

Result<MergeSummary> merge_shards(const Sweep& sweep, const ResultFiles& files, int shards) {
  if (shards == 0) {
    const auto found = count_shards(files);
    if (!found) return found.errors();
    shards = *found;
  }
  if (Errors errors = lacking(sweep, files, shards); !errors.empty()) return errors;
  // What stands at the target already must be of this sweep.
  if (const auto before = read_finished(files.lines(), sweep, Shard{}); !before) return before.errors();

  const fs::path part = fmt::format("{}.{}.part", files.lines().string(), ::getpid());
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  Status joined = join(sweep, files, shards, out);
  out.close();
  std::error_code code;
  if (joined && out) fs::rename(part, files.lines(), code);
  if (!joined || !out || code) {
    std::error_code ignored;
    fs::remove(part, ignored);
    if (!joined) return joined.errors();
    return make_error(ErrorCode::unwritable, "cannot be written", files.lines().string());
  }
  MergeSummary summary;
  summary.shards = shards;
  summary.lines = files.lines().string();
  summary.table = files.table().string();
  auto counts = tabulate(files.lines(), sweep, files.table());
  if (!counts) return counts.errors();
  summary.counts = std::move(*counts);
  return summary;
}

}  // namespace stepcast::scenarios
