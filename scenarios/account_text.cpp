// The three formats of an audit.
#include <fmt/format.h>

#include "scenarios/account.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {

nlohmann::ordered_json to_json(const AuditInput& input, const Audit& audit) {
  nlohmann::ordered_json json;
  json["schema"] = account_schema;
  json["input"] = {{"devices", input.devices}, {"peak_flops_per_device", input.peak_flops},
                   {"peak", input.peak_name},  {"step_time_s", input.step_time_s},
                   {"tokens", input.tokens},   {"executed_factor", input.executed_factor}};
  if (input.active_parameters) json["input"]["active_parameters"] = *input.active_parameters;
  if (input.total_parameters) json["input"]["total_parameters"] = *input.total_parameters;
  if (input.model) json["input"]["model"] = input.model->name;
  json["throughput"] = {{"tokens_per_s", audit.tokens_per_s},
                        {"tokens_per_s_per_device", audit.tokens_per_s_per_device},
                        {"steps_per_s", 1 / input.step_time_s}};
  json["utilisation"] = {{"mfu", audit.mfu},
                         {"hfu", audit.hfu},
                         {"model_flops", audit.model_flops},
                         {"executed_flops", audit.executed_flops},
                         {"convention", audit.convention},
                         {"peak_flops_per_device", input.peak_flops},
                         {"achieved_flops_per_s", audit.achieved_flops_per_s},
                         {"achieved_flops_per_s_per_device", audit.achieved_per_device},
                         {"flops_per_token", audit.flops_per_token}};
  for (const FlopRoute& route : audit.routes) {
    json["utilisation"]["by_convention"][route.name] = {
        {"model_flops", route.model_flops}, {"mfu", route.mfu}, {"hfu", route.hfu}};
  }
  if (audit.mfu_if_total_parameters) json["utilisation"]["mfu_if_total_parameters"] = *audit.mfu_if_total_parameters;
  json["attention"] = nlohmann::ordered_json::array();
  for (const AttentionShare& share : audit.attention) {
    json["attention"].push_back({{"length_kind", share.length_kind},
                                 {"length", share.length},
                                 {"convention", share.convention},
                                 {"flops", share.flops},
                                 {"share", share.share},
                                 {"utilisation", share.utilisation}});
  }
  if (audit.padding) {
    json["padding"] = {{"slots", audit.padding->slots},
                       {"effective_share", audit.padding->effective_share},
                       {"waste", audit.padding->waste},
                       {"packing_speedup_bound", audit.padding->packing_speedup},
                       {"packed_step_time_s", audit.padding->packed_step_time_s},
                       {"packed_mfu", audit.padding->packed_mfu},
                       {"hfu_with_padding", audit.padding->hfu_with_padding}};
  }
  json["assumptions"] = audit.assumptions;
  json["warnings"] = audit.warnings;
  return json;
}

namespace {

std::string routes_text(const Audit& audit) {
  TextTable table({"convention or route", "model FLOPs", "MFU", "HFU"});
  for (const FlopRoute& route : audit.routes) {
    table.row({route.name, fmt::format("{:.3e}", route.model_flops), percent_text(route.mfu), percent_text(route.hfu)});
  }
  table.row({"tokens/s x FLOP/token x time", fmt::format("{:.3e}", audit.model_flops), percent_text(audit.mfu),
             percent_text(audit.hfu)});
  return table.text();
}

std::string attention_text(const Audit& audit) {
  TextTable table({"attention at length", "<convention", "FLOPs", "share", "utilisation", "<counts"});
  for (const AttentionShare& share : audit.attention) {
    const char* counts = share.length_kind == "padded" ? "executed, not model FLOPs"
                         : share.length_kind == "mean" ? "a lower bound: mean of squares >= square of mean"
                                                       : "the sum of squared lengths";
    table.row({share.length > 0 ? fmt::format("{:.0f} ({})", share.length, share.length_kind) : "each sample's",
               share.convention.substr(10), fmt::format("{:.2e}", share.flops), percent_text(share.share),
               percent_text(share.utilisation), counts});
  }
  return table.text();
}

std::string padding_text(const PaddingWaste& waste) {
  return fmt::format(
      "  slots {} of which {} effective, {} padding\n"
      "  perfect packing: at most {:.2f}x (time in proportion to slots), step {}, MFU {}\n"
      "  HFU with padded slots computed: {}\n",
      count_text(waste.slots), percent_text(waste.effective_share), percent_text(waste.waste), waste.packing_speedup,
      time_text(waste.packed_step_time_s), percent_text(waste.packed_mfu), percent_text(waste.hfu_with_padding));
}

std::string list_text(const char* title, const std::vector<std::string>& lines, bool colour) {
  if (lines.empty()) return {};
  std::string text = "\n" + bold(title, colour) + "\n";
  for (const std::string& line : lines) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

}  // namespace

std::string to_table(const AuditInput& input, const Audit& audit, bool colour) {
  std::string text = bold(fmt::format("Step of {} on {:g} devices of {:g} TFLOP/s ({})", time_text(input.step_time_s),
                                      input.devices, input.peak_flops / 1e12, input.peak_name),
                          colour) +
                     "\n";
  text += fmt::format("  MFU {} of peak ({}), HFU {} (executed FLOPs {:.3g} x model)\n", percent_text(audit.mfu),
                      audit.convention, percent_text(audit.hfu), input.executed_factor);
  text += fmt::format("  achieved {} of model FLOPs, {} a device\n", rate_text(audit.achieved_flops_per_s),
                      rate_text(audit.achieved_per_device));
  text += fmt::format("  {:.6g} effective tokens/s, {:.5g} a device; {:.4g} GFLOP a token\n", audit.tokens_per_s,
                      audit.tokens_per_s_per_device, audit.flops_per_token / 1e9);
  text += "\n" + bold("Model FLOPs", colour) + "\n" + routes_text(audit);
  if (audit.mfu_if_total_parameters) {
    text += fmt::format("  an MoE audited with its total parameters by mistake: {}\n",
                        percent_text(*audit.mfu_if_total_parameters));
  }
  if (!audit.attention.empty())
    text += "\n" + bold("Attention, left out by 6ND", colour) + "\n" + attention_text(audit);
  if (audit.padding) text += "\n" + bold("Padding", colour) + "\n" + padding_text(*audit.padding);
  return text + list_text("Assumptions", audit.assumptions, colour) + list_text("Warnings", audit.warnings, colour);
}

std::string to_csv(const AuditInput& input, const Audit& audit) {
  std::string text = csv_line({"route", "devices", "step_time_s", "tokens", "model_flops", "mfu", "hfu", "tokens_per_s",
                               "achieved_flops_per_s_per_device"});
  for (const FlopRoute& route : audit.routes) {
    text +=
        csv_line({route.name, csv_number(input.devices), csv_number(input.step_time_s), csv_number(input.tokens),
                  csv_number(route.model_flops), csv_number(route.mfu), csv_number(route.hfu),
                  csv_number(audit.tokens_per_s), csv_number(route.model_flops / input.step_time_s / input.devices)});
  }
  return text;
}

}  // namespace stepcast::scenarios
