#include "scenarios/account.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "models/ledger.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

constexpr double rate_agreement = 0.02;  // reported rates are rounded to two or three digits
constexpr double implausibly_low_mfu = 0.01;

double peak_of_step(const AuditInput& input) { return input.peak_flops * input.devices * input.step_time_s; }

Errors missing_or_wrong(const AuditInput& input) {
  Errors errors;
  const auto need = [&errors](bool good, const char* flag, const char* message) {
    if (!good) errors.push_back(make_error(ErrorCode::usage, message, flag));
  };
  need(input.devices >= 1 && input.devices == std::floor(input.devices), "--devices",
       "the number of devices is needed: a whole number, at least 1");
  need(input.peak_flops > 0, "--peak-tflops", "the peak of a device is needed (or --device with --precision)");
  need(input.step_time_s > 0, "--step-time", "the time of a step in seconds is needed, above 0");
  need(input.tokens > 0, "--tokens", "the effective tokens of a step are needed, above 0");
  need(input.executed_factor >= 1, "--recompute-factor",
       "executed FLOPs are never below model FLOPs: 1 or more is needed");
  need(!input.slots || *input.slots >= input.tokens, "--slots", "slots hold the tokens, so they cannot be fewer");
  need(input.active_parameters || input.model || input.model_flops, "--active-params",
       "the parameters active per token are needed (or --model, or --model-flops); for a dense model these are all of "
       "them");
  if (input.active_parameters && input.total_parameters) {
    need(*input.active_parameters <= *input.total_parameters, "--active-params",
         "above --total-params: the two seem swapped");
  }
  return errors;
}

// Documents of the step as far as they are known: all lengths, or equal samples.
models::Documents documents_of(const AuditInput& input, int sequence_length) {
  if (!input.lengths.empty()) return models::make_documents(input.lengths, input.model->window, sequence_length);
  models::Documents documents = models::one_sequence(sequence_length, input.model->window);
  const double scale = input.tokens / documents.tokens;
  documents.tokens *= scale;
  documents.sum_of_squares *= scale;
  documents.sum_windowed *= scale;
  documents.sum_chunked *= scale;
  return documents;
}

void add_route(Audit& audit, const AuditInput& input, std::string name, double model_flops) {
  const double mfu = model_flops / peak_of_step(input);
  audit.routes.push_back({std::move(name), model_flops, mfu, mfu * input.executed_factor});
}

void add_routes(Audit& audit, const AuditInput& input) {
  if (input.model_flops) add_route(audit, input, "given", *input.model_flops);
  if (input.model) {
    const int length = static_cast<int>(input.sequence_length.value_or(0));
    for (const auto convention : {models::Convention::attention_causal, models::Convention::attention_full,
                                  models::Convention::six_nd_active}) {
      if (length <= 0 && convention != models::Convention::six_nd_active) continue;
      models::FlopOptions options;
      options.convention = convention;
      const auto account = models::flops(*input.model, documents_of(input, std::max(length, 1)), options);
      add_route(audit, input, std::string(models::name(convention)), account.total());
    }
    if (length <= 0) audit.warnings.emplace_back("no --sequence-length: attention is left out, 6ND only");
  }
  if (input.active_parameters) {
    add_route(audit, input, input.model ? "6nd_active_given" : "6nd_active",
              6 * *input.active_parameters * input.tokens);
  }
  if (input.reported_tflops_per_device) {
    add_route(audit, input, "reported_tflops_per_device",
              *input.reported_tflops_per_device * 1e12 * input.devices * input.step_time_s);
  }
  if (input.reported_mfu) add_route(audit, input, "reported_mfu", *input.reported_mfu * peak_of_step(input));
}

void add_attention(Audit& audit, const AuditInput& input) {
  if (!input.attention_layers || !input.attention_width || !input.active_parameters) return;
  const double six_nd = 6 * *input.active_parameters * input.tokens;
  const auto add = [&](const char* kind, double length, double sum_of_squares) {
    // Scores and values: 2 x 2 s^2 width a layer forward, training three times that.
    const double full = 3 * 4 * sum_of_squares * *input.attention_width * *input.attention_layers;
    for (const bool causal : {false, true}) {
      const double flops = causal ? full / 2 : full;
      audit.attention.push_back({kind, length, causal ? "attention_causal" : "attention_full", flops,
                                 flops / (six_nd + flops), (six_nd + flops) / peak_of_step(input)});
    }
  };
  if (!input.lengths.empty()) {
    add("lengths", 0, std::inner_product(input.lengths.begin(), input.lengths.end(), input.lengths.begin(), 0.0));
    return;
  }
  if (input.samples && input.slots) {
    const double padded = *input.slots / *input.samples;
    add("padded", padded, *input.samples * padded * padded);
  }
  const double mean = input.sequence_length.value_or(input.samples ? input.tokens / *input.samples : 0);
  if (mean > 0) add("mean", mean, input.tokens * mean);
}

void add_padding(Audit& audit, const AuditInput& input) {
  if (!input.slots) return;
  PaddingWaste waste;
  waste.slots = *input.slots;
  waste.effective_share = input.tokens / waste.slots;
  waste.waste = 1 - waste.effective_share;
  waste.packing_speedup = waste.slots / input.tokens;
  waste.packed_step_time_s = input.step_time_s / waste.packing_speedup;
  waste.packed_mfu = audit.mfu * waste.packing_speedup;
  waste.hfu_with_padding = audit.hfu * waste.packing_speedup;
  audit.padding = waste;
}

void compare_routes(Audit& audit, const AuditInput& input) {
  if (input.reported_tokens_per_s) {
    const double apart = *input.reported_tokens_per_s / audit.tokens_per_s - 1;
    if (std::abs(apart) > rate_agreement) {
      audit.warnings.push_back(fmt::format("{:.4g} tokens/s are reported, tokens over step time give {:.4g}: {} apart",
                                           *input.reported_tokens_per_s, audit.tokens_per_s,
                                           percent_text(std::abs(apart))));
    }
  }
  for (const FlopRoute& route : audit.routes) {
    if (!route.name.starts_with("reported")) continue;
    const FlopRoute* nearest = nullptr;
    for (const FlopRoute& other : audit.routes) {
      if (other.name.starts_with("reported")) continue;
      const auto apart = [&route](const FlopRoute& r) { return std::abs(std::log(r.model_flops / route.model_flops)); };
      if (nearest == nullptr || apart(other) < apart(*nearest)) nearest = &other;
    }
    const double ratio = route.model_flops / nearest->model_flops;
    if (std::abs(ratio - 1) > rate_agreement) {
      audit.warnings.push_back(
          fmt::format("{} is {:.3g} times the nearest count here ({}): another convention, another "
                      "peak, or executed instead of model FLOPs",
                      route.name, ratio, nearest->name));
    }
  }
}

void note_implausible(Audit& audit, const AuditInput& input) {
  if (audit.mfu < implausibly_low_mfu) {
    audit.warnings.push_back(fmt::format(
        "MFU {} is hardly ever seen: is the step time in ms, the peak with sparsity or of another precision, or "
        "parameters in billions given without B?",
        percent_text(audit.mfu)));
  }
  if (input.active_parameters && input.total_parameters && *input.active_parameters == *input.total_parameters &&
      input.model && input.model->is_moe()) {
    audit.warnings.emplace_back("an MoE audited with its total parameters: only the experts a token visits are active");
  }
}

Errors refusal(const AuditInput& input, double utilisation, const char* what) {
  Errors errors;
  errors.push_back(make_error(
      ErrorCode::invalid,
      fmt::format(
          "{} would be {:.4g} %, and nothing runs above 100 %: {:.4g} TFLOP/s on {:g} device(s) of {:g} TFLOP/s ({})",
          what, 100 * utilisation, utilisation * input.devices * input.peak_flops / 1e12, input.devices,
          input.peak_flops / 1e12, input.peak_name)));
  for (const Slip& slip : likely_slips(input, utilisation)) {
    errors.push_back(make_error(ErrorCode::invalid, slip.text, slip.explains ? "likely slip" : "possible slip"));
  }
  return errors;
}

}  // namespace

Result<Audit> audit(const AuditInput& input) {
  if (Errors errors = missing_or_wrong(input); !errors.empty()) return errors;
  Audit audit;
  add_routes(audit, input);
  const FlopRoute& leading = audit.routes.front();
  audit.convention = leading.name;
  audit.model_flops = leading.model_flops;
  audit.executed_flops = leading.model_flops * input.executed_factor;
  audit.mfu = leading.mfu;
  audit.hfu = leading.hfu;
  if (audit.mfu > 1) return refusal(input, audit.mfu, "MFU");
  if (audit.hfu > 1) return refusal(input, audit.hfu, "HFU");
  audit.achieved_flops_per_s = audit.model_flops / input.step_time_s;
  audit.achieved_per_device = audit.achieved_flops_per_s / input.devices;
  audit.tokens_per_s = input.tokens / input.step_time_s;
  audit.tokens_per_s_per_device = audit.tokens_per_s / input.devices;
  audit.flops_per_token = audit.model_flops / input.tokens;
  if (input.total_parameters && input.active_parameters && *input.total_parameters > *input.active_parameters) {
    audit.mfu_if_total_parameters = 6 * *input.total_parameters * input.tokens / peak_of_step(input);
  }
  if (input.executed_factor == 1)
    audit.assumptions.emplace_back("no recompute and no capacity padding: HFU equals MFU");
  add_attention(audit, input);
  add_padding(audit, input);
  compare_routes(audit, input);
  note_implausible(audit, input);
  return audit;
}

CollectiveRates collective_rates(topology::Collective kind, double bytes, int ranks, double seconds) {
  CollectiveRates rates;
  rates.factor = topology::busbw_factor(kind, ranks);
  rates.algbw_gb_per_s = bytes / seconds / 1e9;
  rates.busbw_gb_per_s = rates.algbw_gb_per_s * rates.factor;
  return rates;
}

}  // namespace stepcast::scenarios
