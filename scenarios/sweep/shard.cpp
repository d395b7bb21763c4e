#include "scenarios/sweep/shard.h"

#include <algorithm>

#include <fmt/format.h>

namespace stepcast::scenarios {
namespace {

std::optional<long long> whole_number(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::optional<long long>(std::stoll(text)) : std::nullopt;
}

// How one scheduler names a process's place. An empty name: it does not tell.
struct Convention {
  const char* index;
  const char* count;       // how many there are
  const char* first;       // the smallest index; empty: `base`
  const char* last;        // the largest index, where no count is told
  const char* step;        // between neighbours
  int base = 0;            // of an index without `first`
  const char* needs = "";  // a variable without which this is no such process
};

// A rank of the innermost launcher: mpirun inside a Slurm job sets its own variables beside Slurm's.
constexpr Convention rank_conventions[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "", "", ""},
    {"PMI_RANK", "PMI_SIZE", "", "", ""},               // MPICH, Intel MPI, MVAPICH, Cray
    {"PALS_RANKID", "PALS_SIZE", "", "", ""},           // Cray PALS
    {"PMIX_RANK", "PMIX_SIZE", "", "", ""},             // the size by prterun's convention; else Slurm's step below
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "", "", ""},  // srun --mpi=pmix
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "", "", ""},
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "", "", ""},
    // Only inside srun: a batch script has a SLURM_PROCID of 0 and the job's SLURM_NTASKS, and is one process.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", "", "", 0, "SLURM_STEP_NUM_TASKS"},
};

constexpr Convention array_conventions[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "", "SLURM_ARRAY_TASK_STEP"},
    {"LSB_JOBINDEX", "", "", "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP", 1, "LSB_JOBINDEX_END"},
    {"SGE_TASK_ID", "", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"},
    {"PBS_ARRAY_INDEX", "", "", "", "", 0},
    {"AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", "", "", ""},
    {"JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "", "", ""},  // Kubernetes tells no count unless the job passes it on
};

class Detector {
 public:
  Detector(const Environment& environment, int count) : environment_(environment), given_count_(count) {}

  Result<Shard> detect() {
    std::optional<Shard> rank;
    for (const Convention& convention : rank_conventions) {
      if (!rank) rank = place(convention, 0);
    }
    std::optional<Shard> task;
    for (const Convention& convention : array_conventions) {
      // A count of the caller's is that of all shards: a rank's share of it is the array's.
      const int ranks = rank ? rank->count : 1;
      if (!task) task = place(convention, given_count_ > 0 && given_count_ % ranks == 0 ? given_count_ / ranks : 0);
    }
    if (!errors_.empty()) return errors_;
    if (!rank && !task) {
      return make_error(
          ErrorCode::usage,
          "auto, but no scheduler or launcher has told this process its place (Slurm, OpenMPI, PMI, PMIx, "
          "Kubernetes and others are known): give I/N",
          "--shard");
    }
    Shard shard = rank ? *rank : Shard{};
    if (task && task->count > most_shards / shard.count) {
      return make_error(
          ErrorCode::usage,
          fmt::format("{} jobs of {} ranks are more than {} shards", task->count, shard.count, most_shards), "--shard");
    }
    if (task) {
      shard.index += task->index * shard.count;
      shard.count *= task->count;
      shard.origin = task->origin + (rank ? ", " + rank->origin : "");
    }
    if (given_count_ > 0 && given_count_ != shard.count) {
      return make_error(
          ErrorCode::usage,
          fmt::format("{} shards are given; the scheduler says {} ({})", given_count_, shard.count, shard.origin),
          "--shards");
    }
    return shard;
  }

 private:
  // The value of a variable; nothing if it is not set or empty.
  std::optional<long long> value(const char* name) {
    if (*name == '\0') return std::nullopt;
    const auto text = environment_(name);
    if (!text || text->empty()) return std::nullopt;
    const auto number = whole_number(*text);
    if (!number && *text != "undefined") {  // SGE's word for no array
      errors_.push_back(
          make_error(ErrorCode::usage, fmt::format("found '{}'; a whole number is expected", *text), name));
    }
    return number;
  }

  std::optional<Shard> place(const Convention& convention, int count_if_untold) {
    const auto raw = value(convention.index);
    if (!raw) return std::nullopt;
    if (*convention.needs != '\0' && !value(convention.needs)) return std::nullopt;
    const long long step = std::max(1LL, value(convention.step).value_or(1));
    const long long first = value(convention.first).value_or(convention.base);
    long long count = value(convention.count).value_or(0);
    const long long last = value(convention.last).value_or(first - 1);
    if (count == 0 && last >= first) count = (last - first) / step + 1;
    if (count == 0) count = count_if_untold;
    if (count == 0) {
      // A rank of unknown size may still be known by a later convention.
      if (std::string(convention.index) == "PMIX_RANK") return std::nullopt;
      errors_.push_back(make_error(
          ErrorCode::usage,
          fmt::format("{} is {}, but nothing tells how many there are: give --shards N", convention.index, *raw),
          "--shard"));
      return std::nullopt;
    }
    const long long index = (*raw - first) / step;
    const bool regular = *raw >= first && (*raw - first) % step == 0;
    if (!regular || index >= count || count > most_shards) {
      errors_.push_back(make_error(ErrorCode::usage,
                                   fmt::format("{} is {}, which is none of {} places from {} in steps of {}",
                                               convention.index, *raw, count, first, step),
                                   "--shard"));
      return std::nullopt;
    }
    return Shard{static_cast<int>(index), static_cast<int>(count),
                 fmt::format("{} {} of {}", convention.index, *raw, count)};
  }

  const Environment& environment_;
  int given_count_;
  Errors errors_;
};

}  // namespace

Result<Shard> parse_shard(const std::string& text) {
  const auto slash = text.find('/');
  const long long index = whole_number(text.substr(0, slash)).value_or(-1);
  const long long count = slash == std::string::npos ? 0 : whole_number(text.substr(slash + 1)).value_or(0);
  if (index < 0 || count < 1 || count > most_shards || index >= count) {
    return make_error(ErrorCode::usage,
                      fmt::format("found '{}'; I/N with I from 0 to N - 1 is expected, as in 0/4, or auto", text),
                      "--shard");
  }
  return Shard{static_cast<int>(index), static_cast<int>(count), "--shard " + text};
}

Result<Shard> detect_shard(const Environment& environment, int count) { return Detector(environment, count).detect(); }

}  // namespace stepcast::scenarios
