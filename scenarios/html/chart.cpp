#include "scenarios/html/chart.h"

#include <algorithm>
#include <array>

namespace stepcast::scenarios::html {
namespace {

struct Words {
  std::string_view category, words;
};
constexpr std::array<Words, 21> all_words = {{
    {"gemm", "dense GEMM"},
    {"grouped_gemm", "expert GEMM"},
    {"attention", "attention"},
    {"memory_bound", "memory-bound kernels"},
    {"permute", "token permutation"},
    {"quantise", "quantisation"},
    {"recompute", "recomputation"},
    {"optimizer", "optimizer"},
    {"exposed_tp", "exposed, tensor"},
    {"exposed_cp", "exposed, context"},
    {"exposed_ep", "exposed, experts"},
    {"exposed_pp", "exposed, pipeline"},
    {"exposed_dp", "exposed, data"},
    {"wait_tp", "waiting, tensor"},
    {"wait_cp", "waiting, context"},
    {"wait_ep", "waiting, experts"},
    {"wait_dp", "waiting, data"},
    {"bubble", "pipeline bubble"},
    {"host", "host"},
    {"data", "data loading"},
    {"other", "other"},
}};

}  // namespace

std::string category_group(const std::string& category) {
  if (category.starts_with("exposed_")) return "exposed";
  if (category.starts_with("wait_")) return "waiting";
  if (category == "host" || category == "data") return "host";
  if (category == "bubble" || category == "other") return category;
  return "kernels";
}

std::string category_style(const std::string& category) { return "k-" + category_group(category); }

std::string category_words(const std::string& category) {
  const auto* found =
      std::find_if(all_words.begin(), all_words.end(), [&](const Words& w) { return w.category == category; });
  return std::string(found == all_words.end() ? std::string_view(category) : found->words);
}

const std::vector<LegendEntry>& group_legend() {
  static const std::vector<LegendEntry> legend = {
      {"k-kernels", "kernels"},           {"k-exposed", "exposed communication"},
      {"k-waiting", "waiting for peers"}, {"k-bubble", "pipeline bubble"},
      {"k-host", "host and data"},        {"k-other", "other"}};
  return legend;
}

}  // namespace stepcast::scenarios::html
