// The examples that --help shows are command lines that work.
#include <catch2/catch.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

std::vector<std::string> command_names() {
  std::istringstream overview(run({"--help"}).out);
  std::vector<std::string> names;
  for (std::string line; std::getline(overview, line);) {
    if (line.starts_with("  ") && !line.starts_with("  stepcast") && line[2] != ' ')
      names.push_back(words(line).front());
  }
  return names;
}

std::vector<std::string> examples_of(const std::string& help) {
  std::vector<std::string> examples;
  std::istringstream in(help.substr(help.find("Examples:")));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  stepcast ")) examples.push_back(line.substr(11));
  }
  return examples;
}

// Arguments of Megatron-LM that the examples of `import` read.
void fill_megatron(const std::filesystem::path& folder) {
  const Outcome exported = run({"export", "megatron", "mixtral-8x22b-h100-128", "--format", "json"});
  CAPTURE(exported.err);
  REQUIRE(exported.exit_code == 0);
  std::ofstream script(folder / "run.sh"), yaml(folder / "args.yaml");
  script << "torchrun pretrain_gpt.py";
  yaml << "MODEL_ARGS:\n";
  const auto json = nlohmann::json::parse(exported.out);
  for (const auto& argument : json["arguments"]) {
    const std::string name = argument["argument"];
    const std::string value = argument["values"].empty() ? "" : argument["values"][0];
    script << ' ' << name << ' ' << value;
    yaml << "  " << name << ": "
         << (name == "--pipeline-model-parallel-size" ? "${PP}"
             : value.empty()                          ? "true"
                                                      : value)
         << '\n';
  }
}

// Results that examples of `compare` read, and measured runs for `validate`.
void fill(const std::filesystem::path& folder) {
  fill_megatron(folder);
  std::ofstream(folder / "runs.csv") << "id,family,kind,model,device,devices,precision,sequence_length,global_batch,"
                                        "micro_batch,tp,pp,software,step_time_s\n"
                                        "run-1,own,dense,Llama3-8B,h100,8,bf16,8192,16,1,1,1,torchtitan-2025,2.4\n";
  Setting here;
  here.folder = folder;
  const std::vector<std::string> simulate = {"simulate", "olmoe-1b-7b-h100-8", "--steps", "1", "--format", "json",
                                             "--output"};
  for (const char* seed : {"1", "2"}) {
    auto arguments = simulate;
    arguments.insert(arguments.end(), {seed == std::string("1") ? "a.json" : "b.json", "--seed", seed});
    const Outcome outcome = run(arguments, here);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
  }
}

TEST_CASE("Every command has help with two examples, and they run") {
  const ScratchFolder scratch;
  fill(scratch.path());
  Setting here;
  here.folder = scratch.path();
  const auto names = command_names();
  REQUIRE(names.size() >= 5);
  for (const std::string& name : names) {
    const Outcome help = run({name, "--help"});
    CAPTURE(name);
    REQUIRE(help.exit_code == 0);
    REQUIRE(help.err.empty());
    const auto examples = examples_of(help.out);
    CHECK(examples.size() == 2);
    for (const std::string& example : examples) {
      const Outcome outcome = run(words(example), here);
      CAPTURE(example, outcome.err);
      CHECK(outcome.exit_code == 0);
    }
  }
}

}  // namespace
}  // namespace stepcast::cli_tests
