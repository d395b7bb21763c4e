// Shards by hand and from the variables of schedulers and launchers.
#include <map>

#include <catch2/catch.hpp>

#include "scenarios/sweep/shard.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Shard> detect(const Variables& variables, int count = 0) {
  return detect_shard(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      count);
}

std::string text(const Result<Shard>& shard) {
  return shard ? std::to_string(shard->index) + "/" + std::to_string(shard->count) : shown(shard.errors());
}

bool fails(const Result<Shard>& shard, const std::string& part) {
  return !shard && shown(shard.errors()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("shards part the points") {
  for (const std::int64_t total : {0, 1, 5, 12, 13}) {
    std::vector<int> seen(static_cast<std::size_t>(total), 0);
    for (int i = 0; i < 4; ++i) {
      const Shard shard{i, 4, {}};
      for (std::int64_t k = 0; k < shard.size(total); ++k) ++seen[static_cast<std::size_t>(shard.point(k))];
    }
    for (const int times : seen) CHECK(times == 1);
  }
}

TEST_CASE("a shard is I/N") {
  CHECK(text(parse_shard("0/1")) == "0/1");
  CHECK(text(parse_shard("3/4")) == "3/4");
  for (const char* bad : {"4/4", "-1/4", "1", "1/", "/4", "a/b", "1/0", "0/99999999", "1/4/2", "", " 1/4"}) {
    INFO(bad);
    CHECK(fails(parse_shard(bad), "I/N"));
  }
}

TEST_CASE("schedulers tell a process its shard") {
  CHECK(text(detect({{"SLURM_ARRAY_TASK_ID", "5"}, {"SLURM_ARRAY_TASK_COUNT", "8"}, {"SLURM_ARRAY_TASK_MIN", "0"}})) ==
        "5/8");
  CHECK(text(detect({{"SLURM_ARRAY_TASK_ID", "11"},
                     {"SLURM_ARRAY_TASK_COUNT", "4"},
                     {"SLURM_ARRAY_TASK_MIN", "5"},
                     {"SLURM_ARRAY_TASK_STEP", "2"}})) == "3/4");
  CHECK(text(detect({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}})) == "2/4");
  CHECK(text(detect({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}})) == "3/4");
  CHECK(text(detect({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})) == "1/2");
  CHECK(text(detect({{"PMIX_RANK", "6"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "6"}})) == "6/8");
  CHECK(text(detect({{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "3"}})) == "0/3");
  CHECK(text(detect({{"JSM_NAMESPACE_RANK", "1"}, {"JSM_NAMESPACE_SIZE", "6"}})) == "1/6");
  CHECK(text(detect({{"LSB_JOBINDEX", "4"}, {"LSB_JOBINDEX_END", "10"}})) == "3/10");
  CHECK(text(detect(
            {{"SGE_TASK_ID", "7"}, {"SGE_TASK_FIRST", "1"}, {"SGE_TASK_LAST", "9"}, {"SGE_TASK_STEPSIZE", "2"}})) ==
        "3/5");
  CHECK(text(detect({{"JOB_COMPLETION_INDEX", "2"}}, 5)) == "2/5");
  CHECK(text(detect({{"JOB_COMPLETION_INDEX", "2"}, {"JOB_COMPLETIONS", "3"}})) == "2/3");
  CHECK(text(detect({{"PBS_ARRAY_INDEX", "0"}}, 2)) == "0/2");
  CHECK(text(detect({{"AWS_BATCH_JOB_ARRAY_INDEX", "1"}, {"AWS_BATCH_JOB_ARRAY_SIZE", "2"}})) == "1/2");
}

TEST_CASE("mpirun inside a Slurm job is the innermost launcher") {
  CHECK(text(detect({{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "1"},
                     {"SLURM_NTASKS", "4"}})) == "1/4");
}

TEST_CASE("an array of jobs of several ranks multiplies both") {
  const Variables array = {
      {"SLURM_ARRAY_TASK_ID", "2"}, {"SLURM_ARRAY_TASK_COUNT", "3"}, {"SLURM_ARRAY_TASK_MIN", "0"}};
  Variables ranks = array;
  ranks.insert({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  CHECK(text(detect(ranks)) == "9/12");
  // A batch script is one process, whatever its job's number of tasks.
  Variables batch = array;
  batch.insert({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  CHECK(text(detect(batch)) == "2/3");
}

TEST_CASE("places that a scheduler cannot have told are refused") {
  CHECK(fails(detect({}), "no scheduler or launcher"));
  CHECK(fails(detect({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}), "no scheduler or launcher"));
  CHECK(fails(detect({{"JOB_COMPLETION_INDEX", "2"}}), "give --shards N"));
  CHECK(fails(detect({{"JOB_COMPLETION_INDEX", "7"}}, 5), "none of 5 places"));
  CHECK(fails(detect({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "found 'x'"));
  CHECK(fails(detect({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "none of 4 places"));
  CHECK(fails(detect({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, 8), "the scheduler says 4"));
  // An array with gaps: 1, 3, 7.
  CHECK(fails(detect({{"SLURM_ARRAY_TASK_ID", "7"}, {"SLURM_ARRAY_TASK_COUNT", "3"}, {"SLURM_ARRAY_TASK_MIN", "1"}}),
              "none of 3 places"));
  CHECK(fails(detect({{"SGE_TASK_ID", "undefined"}}), "no scheduler"));
}

}  // namespace stepcast::scenarios
