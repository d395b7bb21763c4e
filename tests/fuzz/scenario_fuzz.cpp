// libFuzzer target: any bytes as a scenario file. Must return, never crash, and name every error's place.
//
// A first line "#set a=b" ... is cut off and given as --set, so that flags are fuzzed too.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "scenarios/scenario.h"

namespace {

std::filesystem::path scratch_file() {
  const char* folder = std::getenv("STEPCAST_FUZZ_SCRATCH");
  return std::filesystem::path(folder != nullptr ? folder : "/dev/shm") /
         ("stepcast_fuzz_" + std::to_string(::getpid()) + ".json");
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path file = scratch_file();
  std::string text(reinterpret_cast<const char*>(data), size);
  stepcast::scenarios::ScenarioRequest request;
  if (text.starts_with("#set ")) {
    const auto end = text.find('\n');
    request.sets.push_back(text.substr(5, end == std::string::npos ? end : end - 5));
    text = end == std::string::npos ? "" : text.substr(end + 1);
  }
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  request.file = file;
  request.catalog_root = STEPCAST_SOURCE_DIR;
  const auto scenario = stepcast::scenarios::load_scenario(request);
  if (scenario) {
    require(scenario->resolved.is_object());
    require(scenario->spec.cluster.devices > 0);
    require(scenario->spec.workload.global_batch > 0);
  } else {
    require(!scenario.errors().empty());
    for (const auto& error : scenario.errors()) require(!error.message.empty() && !error.where.empty());
  }
  return 0;
}
