#include "parallelism/stage_split.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "parallelism/pipeline_layout.h"

namespace stepcast::parallelism {
namespace {

constexpr int most_layers = 1 << 20;
constexpr const char* layout_key = "/parallelism/pipeline_layout";

// "3 + 13x4 + 2x3": equal neighbours written together.
std::string shown_counts(const std::vector<int>& counts) {
  std::string out;
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t end = i;
    while (end < counts.size() && counts[end] == counts[i]) ++end;
    if (!out.empty()) out += " + ";
    out += end - i == 1 ? fmt::format("{}", counts[i]) : fmt::format("{}x{}", end - i, counts[i]);
    i = end;
  }
  return out;
}

// Pieces in the order of the model from layers a piece; embedding first, MTP and loss last.
StageSplit from_counts(const std::vector<int>& counts, const SplitRequest& request, std::string_view reason) {
  StageSplit split;
  int layer = 0;
  for (const int count : counts) {
    StageContent piece;
    piece.first_layer = layer;
    piece.layers = count;
    layer += count;
    split.pieces.push_back(piece);
  }
  split.pieces.front().embedding = true;
  split.pieces.back().loss = true;
  split.pieces.back().mtp_layers = request.mtp_layers;
  split.how =
      fmt::format("{} layers over {} stages: {} ({})", request.layers, counts.size(), shown_counts(counts), reason);
  if (request.mtp_layers > 0) split.how += fmt::format("; {} MTP layers on the last", request.mtp_layers);
  return split;
}

// With MTP the last piece would hold far more than the others: the loss counts as a layer, an MTP module (a layer and a
// loss of its own) as two, as in Megatron-Bridge's layouts of DeepSeek-V3. What is short is short first at the
// embedding, then before the last piece.
std::vector<int> balanced_with_mtp(const SplitRequest& request) {
  const int stages = request.virtual_stages;
  const int ends = 2 * request.mtp_layers + 1;
  const int all = request.layers + ends;
  const int most = (all + stages - 1) / stages;
  std::vector<int> counts(static_cast<std::size_t>(stages), most);
  counts.back() = std::clamp(most - ends, 0, request.layers);
  int excess = std::accumulate(counts.begin(), counts.end(), 0) - request.layers;
  for (std::size_t i = 0; excess > 0; i = i == 0 ? counts.size() - 2 : i - 1) {
    if (counts[i] > 0) {
      --counts[i];
      --excess;
    }
  }
  return counts;
}

Result<StageSplit> spread_evenly(const SplitRequest& request) {
  const int stages = request.virtual_stages;
  const bool ends_count = (request.layers + 2) % stages == 0;  // embedding and loss take the place of a layer each
  if (request.mtp_layers > 0 && stages > 1 && stages <= request.layers) {
    return from_counts(balanced_with_mtp(request), request, "MTP and loss counted as layers");
  }
  if (stages > request.layers && !ends_count) {
    return make_error(ErrorCode::invalid,
                      fmt::format("{} stages are more than the {} layers; place them with stage_layers or "
                                  "pipeline_layout, or lower pp x vpp",
                                  stages, request.layers),
                      "/parallelism/pp");
  }
  std::vector<int> counts(static_cast<std::size_t>(stages), request.layers / stages);
  const int rest = request.layers % stages;
  if (rest == 0) return from_counts(counts, request, "even");
  if (ends_count) {
    std::fill(counts.begin(), counts.end(), (request.layers + 2) / stages);
    counts.front() -= 1;
    counts.back() -= 1;
    return from_counts(counts, request, "embedding and loss counted as layers");
  }
  // The first and the last stages hold embedding and loss besides, so the middle takes one layer more.
  const auto first = static_cast<std::ptrdiff_t>((stages - rest) / 2);
  for (auto it = counts.begin() + first; it != counts.begin() + first + rest; ++it) *it += 1;
  return from_counts(counts, request, "remainder on middle stages");
}

Result<StageSplit> from_stage_layers(const SplitRequest& request) {
  Errors errors;
  const auto fail = [&errors](std::string message, std::string where) {
    errors.push_back(make_error(ErrorCode::invalid, std::move(message), std::move(where)));
  };
  const std::vector<int>& counts = request.stage_layers;
  if (counts.size() != static_cast<std::size_t>(request.virtual_stages)) {
    fail(fmt::format("stage_layers has {} entries; the layout has {} stages (pp x vpp), one entry each", counts.size(),
                     request.virtual_stages),
         "/parallelism/stage_layers");
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > most_layers) {
      fail(fmt::format("stage {} has {} layers; it must be 0 to {}", i, counts[i], request.layers),
           fmt::format("/parallelism/stage_layers/{}", i));
    }
  }
  if (!errors.empty()) return errors;
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != request.layers) {
    fail(
        fmt::format("stage_layers {} add up to {} layers; the model has {}", shown_counts(counts), sum, request.layers),
        "/parallelism/stage_layers");
    return errors;
  }
  return from_counts(counts, request, "as given");
}

// Counts a symbol over all stages.
int total(const std::vector<std::string>& stages, char symbol) {
  std::ptrdiff_t n = 0;
  for (const std::string& stage : stages) n += std::count(stage.begin(), stage.end(), symbol);
  return static_cast<int>(n);
}

// Embedding, decoder layers, MTP layers, loss: the order in which a microbatch meets them.
bool in_order(const std::vector<std::string>& stages) {
  constexpr std::string_view order = "EtmL";
  std::size_t last = 0;
  for (const std::string& stage : stages) {
    for (const char c : stage) {
      const std::size_t at = order.find(c);
      if (at < last) return false;
      last = at;
    }
  }
  return true;
}

Errors layout_faults(const std::vector<std::string>& stages, const SplitRequest& request) {
  Errors errors;
  const auto fail = [&errors](std::string message) {
    errors.push_back(make_error(ErrorCode::invalid, "pipeline layout: " + message, layout_key));
  };
  const int stage_count = static_cast<int>(stages.size());
  if (stage_count != request.virtual_stages) {
    const bool trailing = stage_count == request.virtual_stages + 1 && stages.back().empty();
    fail(fmt::format("it has {} stages; pp x vpp is {}{}", stage_count, request.virtual_stages,
                     trailing ? " (the '|' at its end opens an empty stage)" : ""));
  }
  const int layers = total(stages, 't');
  if (layers != request.layers) fail(fmt::format("it places {} layers 't'; the model has {}", layers, request.layers));
  const int mtp = total(stages, 'm');
  if (mtp != 0 && mtp != request.mtp_layers) {
    fail(fmt::format("it places {} MTP layers 'm'; the model has {}", mtp, request.mtp_layers));
  }
  const int embeddings = total(stages, 'E');
  const int losses = total(stages, 'L');
  if (embeddings > 1) fail(fmt::format("it places the embedding 'E' {} times; once is allowed", embeddings));
  if (losses > 1) fail(fmt::format("it places the loss 'L' {} times; once is allowed", losses));
  if (!in_order(stages)) fail("the order must be E, then t, then m, then L");
  if (embeddings == 1 && stages.front().find('E') == std::string::npos) fail("'E' must stand in the first stage");
  if (losses == 1 && stages.back().find('L') == std::string::npos) fail("'L' must stand in the last stage");
  return errors;
}

Result<StageSplit> from_layout(const SplitRequest& request) {
  const auto stages = parse_pipeline_layout(request.pipeline_layout);
  if (!stages.ok()) return stages.errors();
  if (Errors errors = layout_faults(*stages, request); !errors.empty()) return errors;
  std::vector<int> counts;
  for (const std::string& stage : *stages) {
    counts.push_back(static_cast<int>(std::count(stage.begin(), stage.end(), 't')));
  }
  StageSplit split = from_counts(counts, request, "pipeline layout");
  if (total(*stages, 'm') > 0) {
    for (std::size_t i = 0; i < split.pieces.size(); ++i) {
      split.pieces[i].mtp_layers = static_cast<int>(std::count((*stages)[i].begin(), (*stages)[i].end(), 'm'));
    }
    split.how = fmt::format("{} layers over {} stages: {} (pipeline layout); MTP layers where it places them",
                            request.layers, counts.size(), shown_counts(counts));
  }
  return split;
}

}  // namespace

Result<StageSplit> split_stages(const SplitRequest& request) {
  Errors errors;
  const auto check = [&errors](const char* what, int value, int low, const char* where) {
    if (value >= low && value <= most_layers) return;
    errors.push_back(make_error(ErrorCode::invalid,
                                fmt::format("{} {}; it must be {} to {}", value, what, low, most_layers), where));
  };
  check("layers", request.layers, 1, "/model/layers");
  check("MTP layers", request.mtp_layers, 0, "/model/mtp_layers");
  check("pipeline stages", request.virtual_stages, 1, "/parallelism/pp");
  if (!request.stage_layers.empty() && !request.pipeline_layout.empty()) {
    errors.push_back(make_error(ErrorCode::invalid,
                                "stage_layers and pipeline_layout both place the layers; give one of them",
                                "/parallelism/stage_layers"));
  }
  if (!errors.empty()) return errors;
  if (!request.pipeline_layout.empty()) return from_layout(request);
  if (!request.stage_layers.empty()) return from_stage_layers(request);
  return spread_evenly(request);
}

}  // namespace stepcast::parallelism
