// sweep, merge, import and export from end to end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Points of a few milliseconds each.
std::string tiny(int points) {
  return R"({"name": "tiny", "scenario": {"model": {"name": "olmoe-1b-7b", "layers": 2}, "cluster": "h100:8",
    "parallelism": {"ep": 8}, "workload": {"sequence_length": 256, "global_batch": 16, "micro_batch": 1, "steps": 1},
    "routing": {"skew": "zipf:0.3"}}, "vary": [{"seed": {"from": 1, "to": )" +
         std::to_string(points) + "}}]}";
}

struct Folder {
  ScratchFolder scratch;
  Setting here;

  explicit Folder(int points) {
    here.folder = scratch.path();
    std::ofstream(scratch.path() / "tiny.json") << tiny(points);
  }
  [[nodiscard]] std::string text(const std::string& name) const { return read_file(scratch.path() / name); }
  [[nodiscard]] Outcome stepcast(const std::string& line, const std::vector<std::string>& environment = {}) const {
    Setting setting = here;
    setting.environment = environment;
    return run(words(line), setting);
  }
};

TEST_CASE("Shards told by a launcher's variables merge into the unsharded run") {
  const Folder folder(11);
  REQUIRE(folder.stepcast("sweep tiny.json --results whole").exit_code == 0);
  for (const char* rank : {"0", "1", "2"}) {
    const Outcome outcome = folder.stepcast("sweep tiny.json --results parts --shard auto --format json",
                                            {std::string("OMPI_COMM_WORLD_RANK=") + rank, "OMPI_COMM_WORLD_SIZE=3"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const auto json = nlohmann::json::parse(outcome.out);
    CHECK(json["shard"]["index"] == std::stoi(rank));
    CHECK(json["points_of_all_shards"] == 11);
  }
  const Outcome merged = folder.stepcast("merge tiny.json --results parts");
  CAPTURE(merged.err);
  REQUIRE(merged.exit_code == 0);
  CHECK(folder.text("parts.jsonl") == folder.text("whole.jsonl"));
  CHECK(folder.text("parts.csv") == folder.text("whole.csv"));
}

TEST_CASE("An interrupted sweep says so, leaves valid files and goes on later") {
  constexpr int many = 200'000;  // minutes of work: cut long before it ends
  Folder folder(many);
  Setting setting = folder.here;
  setting.interrupt_after_s = 1.5;
  const Outcome cut = run(words("sweep tiny.json --results cut --threads 2"), setting);
  CAPTURE(cut.err);
  CHECK(cut.exit_code == 130);
  CHECK(contains(cut.err, "interrupted"));
  const std::string lines = folder.text("cut.jsonl");
  const auto points = std::count(lines.begin(), lines.end(), '\n');
  CHECK(points < many);
  CHECK((lines.empty() || lines.back() == '\n'));
  const std::string table = folder.text("cut.csv");
  CHECK(std::count(table.begin(), table.end(), '\n') == points + 1);
}

TEST_CASE("Progress on a terminal is one line that is gone at the end") {
  const Folder folder(200'000);
  Setting setting = folder.here;
  setting.terminal = true;
  setting.interrupt_after_s = 3;  // progress begins after two
  const Outcome cut = run(words("sweep tiny.json --results shown --threads 1"), setting);
  CHECK(cut.exit_code == 130);
  const auto line = cut.out.rfind("/200000] points, ");
  REQUIRE(line != std::string::npos);
  CHECK(contains(cut.out.substr(line), " s left"));
  const auto removed = cut.out.rfind("\r\x1b[K");
  CHECK((removed != std::string::npos && removed > line));
  CHECK(cut.out.find('\n') > removed);
}

TEST_CASE("The threads of a process are those that Slurm gives its task") {
  const auto threads = [](const std::vector<std::string>& environment) {
    Setting setting;
    setting.environment = environment;
    const Outcome outcome = run({"simulate", "olmoe-1b-7b-h100-8", "--steps", "1", "--format", "json"}, setting);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return nlohmann::json::parse(outcome.out)["engine"]["threads"].get<int>();
  };
  const int all = threads({});
  CHECK(all >= 1);
  CHECK(threads({"SLURM_CPUS_PER_TASK=1"}) == 1);
  CHECK(threads({"SLURM_CPUS_PER_TASK=100000"}) == all);
  CHECK(threads({"SLURM_CPUS_PER_TASK="}) == all);
}

TEST_CASE("sweep and merge refuse what they cannot do") {
  const Folder folder(2);
  const auto fails = [&](const std::string& line, int code, const std::string& part) {
    const Outcome outcome = folder.stepcast(line);
    CAPTURE(line, outcome.err);
    CHECK(outcome.exit_code == code);
    CHECK(contains(outcome.err, part));
  };
  fails("sweep", 2, "a sweep is needed");
  fails("sweep no-such-sweep", 1, "neither a file nor a sweep of the library");
  fails("sweep tiny.json --shard 2/2", 2, "I/N");
  fails("sweep tiny.json --shard auto", 2, "no scheduler or launcher");
  fails("sweep tiny.json --shards 2", 2, "--shard auto");
  fails("sweep tiny.json --results no/such/folder/x", 1, "cannot be written");
  fails("sweep tiny.json --set parallelism.tp=3", 1, "");
  fails("merge tiny.json", 1, "no file of a shard");
}

TEST_CASE("The files of a sweep's results are written for nothing else") {
  const Folder folder(2);
  const auto fails = [&](const std::string& line, const std::string& part) {
    const Outcome outcome = folder.stepcast(line);
    CAPTURE(line, outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, part));
  };
  fs::create_directory(folder.scratch.path() / "R");
  for (const std::string ending : {".csv", ".jsonl", ".shard-0-of-2.jsonl"}) {
    fails("sweep tiny.json --results R/two -o R/two" + ending,
          "--output: R/two" + ending + " is a file of the results");
    fails("merge tiny.json --results R/two -o ./R/two" + ending, "is a file of the results that begin with R/two");
  }
  fails("sweep tiny.json -o tiny.csv", "--output: tiny.csv is a file of the results");
  fs::create_symlink("../tiny.json", folder.scratch.path() / "R" / "x.jsonl");
  fails("sweep tiny.json --results R/x", "would overwrite tiny.json");
  fails("sweep tiny.json --results R", "--results R: is a folder");
  fails("sweep tiny.json --results R/", "is a folder");
  fails("merge tiny.json --results R", "is a folder");
  fails("sweep tiny.json --results /dev/full", "--results /dev/full: is a device");
  CHECK(folder.text("tiny.json") == tiny(2));
  CHECK_FALSE(fs::exists(folder.scratch.path() / "R" / "two.csv"));
}

constexpr const char* script =
    R"(ARGS="--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --swiglu --disable-bias-linear --normalization RMSNorm
  --untie-embeddings-and-output-weights --position-embedding-type rope --attention-dropout 0 --hidden-dropout 0
  --num-experts 8 --moe-token-dispatcher-type alltoall --expert-model-parallel-size 8 --expert-tensor-parallel-size 1
  --seq-length 4096 --micro-batch-size 1 --global-batch-size 256 --bf16 --use-distributed-optimizer
  --pipeline-model-parallel-size $PP --lr 1e-4 --no-such-argument 3"
torchrun --nproc_per_node 8 pretrain_gpt.py $ARGS
)";

TEST_CASE("A launch script is imported, simulated and exported again") {
  const Folder folder(1);
  std::ofstream(folder.scratch.path() / "run.sh") << script;
  const Outcome imported =
      folder.stepcast("import megatron run.sh --cluster h100:64 --define PP=4 --output scenario.json");
  CAPTURE(imported.err);
  REQUIRE(imported.exit_code == 0);
  CHECK(contains(imported.err, "run.sh:6: --lr 1e-4 not used"));
  CHECK(contains(imported.err, "run.sh:6: --no-such-argument 3 not used: not known"));
  CHECK(contains(imported.err, "the launcher's arguments say 8 devices"));
  const Outcome explained = folder.stepcast("explain scenario.json --format json");
  CAPTURE(explained.err);
  REQUIRE(explained.exit_code == 0);
  const auto resolved = nlohmann::ordered_json::parse(explained.out)["scenario"];
  CHECK(resolved["model"]["name"] == "mixtral-8x7b");
  CHECK(resolved["parallelism"]["pp"] == 4);

  const Outcome exported = folder.stepcast("export megatron scenario.json --output args.sh");
  CAPTURE(exported.err);
  REQUIRE(exported.exit_code == 0);
  const Outcome again = folder.stepcast("import megatron args.sh --output again.json");
  CAPTURE(again.err);
  REQUIRE(again.exit_code == 0);
  const Outcome same = folder.stepcast("explain again.json --format json");
  REQUIRE(same.exit_code == 0);
  auto second = nlohmann::ordered_json::parse(same.out)["scenario"];
  CHECK(second == resolved);
}

TEST_CASE("import and export name their kinds, and an argument's fault at its line") {
  const Folder folder(1);
  std::ofstream(folder.scratch.path() / "run.sh") << script;
  const auto fails = [&](const std::string& line, int code, const std::string& part) {
    const Outcome outcome = folder.stepcast(line);
    CAPTURE(line, outcome.err);
    CHECK(outcome.exit_code == code);
    CHECK(contains(outcome.err, part));
  };
  fails("import", 2, "kinds are megatron");
  fails("import megatrom run.sh", 2, "did you mean 'megatron'?");
  fails("import megatron", 2, "found 0 files");
  fails("import megatron run.sh b.sh", 2, "found 2 files");
  fails("import megatron missing.sh --cluster h100:8", 1, "missing.sh");
  fails("import megatron run.sh --define PP=4", 2, "--cluster");
  fails("import megatron run.sh --cluster h100:64", 1, "run.sh:6 --pipeline-model-parallel-size: found '$PP'");
  fails("import megatron run.sh --cluster h100:64 --define PP", 2, "NAME=VALUE");
  fails("import megatron run.sh --cluster h100:64 --define PP=7", 1, "must divide the 64 devices");
  fails("import megatron run.sh --cluster h999:64 --define PP=4", 1, "h999");
  fails("export", 2, "kinds are megatron");
  fails("export megatron", 2, "a scenario is needed");
}

}  // namespace
}  // namespace stepcast::cli_tests
