// Parts of the import of Megatron-LM arguments. Internal to scenarios/megatron.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"
#include "scenarios/megatron/argument_set.h"
#include "scenarios/megatron/import.h"

namespace stepcast::scenarios::megatron {

struct ImportDraft {
  ArgumentSet& arguments;
  const ImportOptions& options;
  MegatronImport& made;
  nlohmann::ordered_json carried;  // of an export's comment; null if there is none
  Errors& errors;
  std::optional<models::Model> model;
  int devices = 0;  // 0: not known

  // scenario[pointer] = value, which `argument` gave.
  void set(const std::string& pointer, nlohmann::ordered_json value, std::string_view argument);
  void assume(std::string what) { made.assumptions.push_back(std::move(what)); }
  void warn(std::string what) { made.warnings.push_back(std::move(what)); }
};

void import_model(ImportDraft& draft);     // model
void import_cluster(ImportDraft& draft);   // cluster, software, and the number of devices
void import_layout(ImportDraft& draft);    // parallelism
void import_training(ImportDraft& draft);  // workload, precision, recompute
void import_runtime(ImportDraft& draft);   // routing, overlap, runtime, offload

// "([0]*3+[1]*58)", "[1,0]*4", or "2" where every second entry is 0 or 1 by `from_interval(i, n)`.
[[nodiscard]] std::optional<std::vector<int>> parse_pattern(std::string_view text);

// Why an argument that stepcast knows changes nothing; empty if it is not known.
[[nodiscard]] std::string why_unused(const std::string& name);

}  // namespace stepcast::scenarios::megatron
