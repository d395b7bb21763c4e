// The recorded step of chosen ranks as Chakra execution traces, one file a rank, for graphs to be checked in ASTRA-sim.
//
// README.md says which attributes the nodes have. The schema is et_def.proto; no
// header of protobuf is needed to use this one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/program/program.h"
#include "sim/record/recorder.h"

namespace stepcast::scenarios::chakra {

struct TraceFile {
  int rank = 0;
  std::filesystem::path file;  // PREFIX.RANK.et; empty before it is written
  std::int64_t nodes = 0, bytes = 0;
};

struct ChakraExport {
  std::string title;  // the scenario in words
  std::uint64_t step = 0;
  double step_time_s = 0;
  std::vector<TraceFile> traces;
  std::filesystem::path groups_file;  // PREFIX.groups.json: ranks by the number in pg_name
  int groups = 0;
  std::vector<std::string> notes;  // what a reader of the files must know
};

class Graph;

class Traces {
 public:
  // Borrows both. `title` goes into the metadata of each file.
  Traces(const sim::Program& program, const sim::Timeline& timeline, std::string title);
  ~Traces();

  // Exact size of all files, to be stated before writing.
  [[nodiscard]] std::int64_t bytes() const;
  // The bytes of one file: index into Timeline::ranks.
  [[nodiscard]] std::string text(std::size_t index) const;
  // {"1": [0, 8, ...], ...}: ASTRA-sim's file of communicator groups.
  [[nodiscard]] nlohmann::ordered_json groups() const;
  // Each file through a temporary one beside it. Errors: unwritable.
  [[nodiscard]] Result<ChakraExport> write(const std::filesystem::path& prefix) const;

 private:
  std::unique_ptr<const Graph> graph_;
  std::string title_;
  std::vector<TraceFile> sizes_;
};

[[nodiscard]] nlohmann::ordered_json to_json(const ChakraExport& exported);
[[nodiscard]] std::string to_table(const ChakraExport& exported, bool colour);
[[nodiscard]] std::string to_csv(const ChakraExport& exported);

}  // namespace stepcast::scenarios::chakra
