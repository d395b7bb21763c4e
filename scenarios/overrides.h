// Changes to a scenario's JSON before it is read: --set flags, short forms.
//
// Works on the tree, not on the text: values that come from a flag have no
// position in the file, so each change keeps the flag that an error then names.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {

struct Override {
  std::string pointer;  // "/parallelism/ep"
  std::string label;    // "--set parallelism.ep=32"
};

// "parallelism.ep=32": the value is JSON, or else a bare text. Missing objects on the way are made, a list takes an
// index, a short form ("cluster": "h800:2048") becomes its long form. Null removes. Appends to `overrides`.
[[nodiscard]] Status apply_set(const std::string& set, nlohmann::ordered_json& tree, std::vector<Override>& overrides);

// "model": "x" -> {"name": "x"} or {"config": "x"}; "cluster": "x" -> {"preset": "x"}; "precision" -> {"recipe": "x"};
// "recompute": "selective:a,b" -> {"mode": "selective", "modules": ["a", "b"]}; "software" -> {"name": "x"};
// "runtime.cuda_graphs": "partial:a,b" -> the mode and graph_modules.
void expand_short_forms(nlohmann::ordered_json& tree);

// Where an error stands: at the flag if a flag gave the value, else as it is. `flags_only`: there is no file, only a
// command line.
void name_flags(const std::vector<Override>& overrides, bool flags_only, Errors& errors);

// The JSON pointer of an error's position, "" if it has none.
[[nodiscard]] std::string pointer_in(const std::string& where);

// A path or a name: "x/config.json" and "config.json" are paths, "mixtral-8x7b" and "llama-3.1-405b" are names.
[[nodiscard]] bool looks_like_path(const std::string& text);

}  // namespace stepcast::scenarios
