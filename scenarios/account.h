// Audits a measured step without simulating it: FLOPs, utilisation, throughput, waste.
//
//   achieved = model FLOPs of a step / step time
//   MFU      = achieved / (devices x peak)                    model FLOPs: what the mathematics needs
//   HFU      = executed FLOPs / (step time x devices x peak)  executed: model + recompute (+ padded slots)
//
// so HFU is never below MFU. Model FLOPs come by up to three routes: 6ND over active parameters, the ledger of a
// model, and a reported rate. A utilisation above 100 % is refused with the slips that would explain it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/transformer.h"
#include "sim/base/error.h"
#include "topology/collective_cost.h"

namespace stepcast::scenarios {

struct KnownPeak {
  std::string name;  // "h100 fp8"
  double flops = 0;  // per device, dense
};

struct AuditInput {
  double devices = 0;
  double peak_flops = 0;  // per device
  std::string peak_name;  // "h20 bf16", or "as given"
  double step_time_s = 0;
  double tokens = 0;  // effective tokens a step: padding not counted
  std::optional<double> active_parameters, total_parameters;
  std::optional<double> model_flops;      // per step, counted elsewhere
  std::optional<double> slots;            // token slots a step, padding counted
  std::optional<double> samples;          // sequences a step
  std::optional<double> sequence_length;  // of the samples; with `slots` and `samples` the mean effective length
  std::vector<double> lengths;            // of every sample of the step; empty: not known
  std::optional<double> attention_layers, attention_width;  // full-attention layers; heads x head dimension
  double executed_factor = 1;  // executed over model FLOPs: recompute and capacity slots; full recompute 8/6
  std::optional<double> top_k;
  std::optional<models::Model> model;
  std::optional<double> reported_tokens_per_s, reported_tflops_per_device, reported_mfu;
  std::vector<KnownPeak> known_peaks;  // of the catalogue, to recognise a wrong peak
};

// Model FLOPs of the step under one convention, and the utilisation that follows.
struct FlopRoute {
  std::string name;  // "6nd_active", "attention_causal", "reported_rate", ...
  double model_flops = 0;
  double mfu = 0, hfu = 0;
};

// Attention that 6ND leaves out, at one length and convention.
struct AttentionShare {
  std::string length_kind;  // "padded" (executed, not model FLOPs), "mean" (a lower bound), "lengths" (exact)
  double length = 0;        // 0 for "lengths"
  std::string convention;   // "attention_full" | "attention_causal"
  double flops = 0;
  double share = 0;        // of 6ND + attention
  double utilisation = 0;  // (6ND + attention) over peak
};

struct PaddingWaste {
  double slots = 0;
  double effective_share = 0, waste = 0;
  double packing_speedup = 1;  // upper bound: time in proportion to slots
  double packed_step_time_s = 0, packed_mfu = 0;
  double hfu_with_padding = 0;  // if the padded slots are computed
};

struct Audit {
  double model_flops = 0, executed_flops = 0;  // per step, of the leading route
  std::string convention;
  double achieved_flops_per_s = 0, achieved_per_device = 0;
  double mfu = 0, hfu = 0;
  double tokens_per_s = 0, tokens_per_s_per_device = 0, flops_per_token = 0;
  std::vector<FlopRoute> routes;
  std::optional<double> mfu_if_total_parameters;
  std::vector<AttentionShare> attention;
  std::optional<PaddingWaste> padding;
  std::vector<std::string> assumptions, warnings;
};

// One way to have come by an impossible utilisation.
struct Slip {
  std::string text;
  double corrected_mfu = 0;  // after the correction; 0: depends on a number that is not known
  bool explains = false;     // the corrected utilisation is one that machines reach
};

// Errors: missing or non-positive inputs; MFU or HFU above 100 %, one entry for the verdict and one for each slip.
[[nodiscard]] Result<Audit> audit(const AuditInput& input);

// All slips considered, those that explain first.
[[nodiscard]] std::vector<Slip> likely_slips(const AuditInput& input, double mfu);

// nccl-tests: algbw = size / time, busbw = algbw x factor.
struct CollectiveRates {
  double algbw_gb_per_s = 0, busbw_gb_per_s = 0, factor = 1;
};
[[nodiscard]] CollectiveRates collective_rates(topology::Collective kind, double bytes, int ranks, double seconds);

inline constexpr const char* account_schema = "stepcast.account/1";
[[nodiscard]] nlohmann::ordered_json to_json(const AuditInput& input, const Audit& audit);
[[nodiscard]] std::string to_table(const AuditInput& input, const Audit& audit, bool colour);
[[nodiscard]] std::string to_csv(const AuditInput& input, const Audit& audit);

}  // namespace stepcast::scenarios
