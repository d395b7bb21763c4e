// Which rows the protocol keeps together.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "validation/calibrate/protocol.h"

namespace stepcast::validation {
namespace {

// FNV-1a, 64 bits: the same on every machine.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash ^ (hash >> 29);
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k) out[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return out;
}

}  // namespace

bool in_first_half(const Observation& row) {
  std::string layout;
  for (const char* key : {"model", "parallelism", "workload", "precision", "recompute"}) {
    if (row.scenario.contains(key)) layout += row.scenario[key].dump() + '\n';
  }
  if (row.scenario.contains("cluster")) {
    layout += row.scenario["cluster"].value("device", "") + ':' + std::to_string(row.devices);
  }
  return hash_of(layout) % 2 == 0;
}

std::string source_group(const Observation& row) {
  const std::string& f = row.family;
  if (row.kind != "moe") return f;
  if (f.starts_with("DGXC")) return "DGXC";
  if (f.starts_with("MB25") || f.starts_with("MB26")) return "Megatron-Bridge tables";
  if (f == "MBAB" || f == "MBCARD") return "MBAB, MBCARD";
  return f;
}

std::string base_model(const Observation& row) {
  const auto model = row.scenario.find("model");
  if (model == row.scenario.end() || !model->is_object()) return row.model;
  return model->value("name", row.model);
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() < 2) return 0;
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double middle = static_cast<double>(a.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace stepcast::validation
