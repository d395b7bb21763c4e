// Whether two scenarios do the same work, so that their times may be called scaling.
//
// Work is what a step computes: model, tokens, precision, recompute, routing with its capacity. Layout, software and
// hardware are how it is done, and may differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace stepcast::scenarios {

enum class ScalingKind : unsigned char { strong, weak };

struct ScenarioDifferences {
  std::vector<std::string> work;   // "precision/recipe: bf16 -> fp8-blockwise"
  std::vector<std::string> other;  // layout, software, network, ...
};

// Of two resolved scenarios, but for names and the global batch, which scaling may change.
[[nodiscard]] ScenarioDifferences differences(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

// Sequences a step; nothing where the scenario does not say.
[[nodiscard]] std::optional<double> global_batch(const nlohmann::ordered_json& scenario);

// Strong: the same batch. Weak: the same batch a device. Exact: a batch that was rounded is another one.
[[nodiscard]] bool same_batch(ScalingKind kind, double batch0, int devices0, double batch1, int devices1);

}  // namespace stepcast::scenarios
