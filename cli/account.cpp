// stepcast account: audits a measured step, or one measured collective, without simulating.
#include <cmath>
#include <sstream>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/render.h"
#include "models/catalog.h"
#include "scenarios/account.h"
#include "scenarios/report/text_table.h"
#include "sim/base/json_reader.h"
#include "topology/device.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

constexpr double full_recompute = 8.0 / 6.0;  // a second forward: 2 + 2 + 4 over 2 + 4
constexpr double huge = 1e30;
const std::vector<std::string> collectives = {"all_reduce", "all_gather",   "reduce_scatter",
                                              "all_to_all", "send_receive", "broadcast"};

void add_options(po::options_description& options) {
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("devices", value("N"), "devices of the run")(
      "peak-tflops", value("X"), "dense peak of a device, TFLOP/s")("device", value("NAME"),
                                                                    "take the peak of this catalogue device instead")(
      "precision", value("P"), "precision of that peak: bf16 (default), fp8, mxfp8, nvfp4, ...")(
      "step-time", value("S"), "seconds a step")("tokens", value("N"), "effective tokens a step, padding not counted")(
      "active-params", value("N"), "parameters active per token (3e9, 3B)")(
      "total-params", value("N"), "all parameters")("model", value("NAME"),
                                                    "catalogue model: the ledger counts its FLOPs")(
      "sequence-length", value("N"), "length of a sequence")("sequence", value("N"), "the same")(
      "samples", value("N"), "sequences a step")("slots", value("N"), "token slots a step, padding counted")(
      "lengths", value("FILE"), "length of every sample of the step, one number a line")(
      "attention-layers", value("N"), "layers with full attention, which 6ND leaves out")(
      "attention-width", value("N"), "heads times head dimension")("recompute-factor", value("X"),
                                                                   "executed over model FLOPs: full, 8/6 or a number")(
      "model-flops", value("X"), "model FLOPs a step, counted elsewhere")("executed-flops", value("X"),
                                                                          "executed FLOPs a step, counted elsewhere")(
      "top-k", value("K"), "experts a token visits")("reported-tokens-per-s", value("X"),
                                                     "tokens/s as logged, to check")(
      "reported-tflops", value("X"), "TFLOP/s a device as logged, to check")("reported-mfu", value("X"),
                                                                             "MFU as reported (0.39), to check")(
      "collective", value("KIND"), "audit a collective instead: all_reduce, all_gather, ...")(
      "bytes", value("N"), "its size as nccl-tests counts it")("ranks", value("N"), "its ranks")(
      "collective-time", value("S"), "its seconds");
}

std::string collective_text(const std::string& kind, long long ranks, const scenarios::CollectiveRates& rates,
                            Format format) {
  if (format == Format::json) {
    const nlohmann::ordered_json json = {{"schema", scenarios::account_schema},
                                         {"collective", kind},
                                         {"ranks", ranks},
                                         {"algbw_gb_per_s", rates.algbw_gb_per_s},
                                         {"busbw_gb_per_s", rates.busbw_gb_per_s},
                                         {"busbw_factor", rates.factor}};
    return json_text(json);
  }
  if (format == Format::csv) {
    return scenarios::csv_line({"collective", "ranks", "algbw_gb_per_s", "busbw_gb_per_s", "busbw_factor"}) +
           scenarios::csv_line({kind, std::to_string(ranks), scenarios::csv_number(rates.algbw_gb_per_s),
                                scenarios::csv_number(rates.busbw_gb_per_s), scenarios::csv_number(rates.factor)});
  }
  return fmt::format("{} on {} ranks: algbw {:.1f} GB/s, busbw {:.1f} GB/s (factor {:.4g}, as nccl-tests defines it)\n",
                     kind, ranks, rates.algbw_gb_per_s, rates.busbw_gb_per_s, rates.factor);
}

Result<Output> run_collective(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  const auto kind = arguments.choice("collective", collectives);
  const auto bytes = arguments.number("bytes", 1, huge);
  const auto ranks = arguments.integer("ranks", 2, 1 << 20);
  const auto seconds = arguments.number("collective-time", 1e-9, huge);
  for (const char* needed : {"bytes", "ranks", "collective-time"}) {
    if (!arguments.has(needed)) arguments.fail(needed, "is needed with --collective");
  }
  if (!arguments.errors().empty()) return arguments.errors();
  const auto rates =
      scenarios::collective_rates(static_cast<topology::Collective>(*kind), *bytes, static_cast<int>(*ranks), *seconds);
  return Output{collective_text(collectives[*kind], *ranks, rates, invocation.globals.format)};
}

std::vector<scenarios::KnownPeak> known_peaks(const std::filesystem::path& root) {
  std::vector<scenarios::KnownPeak> peaks;
  const auto names = topology::list_devices(root);
  if (!names) return peaks;
  for (const std::string& name : *names) {
    const auto device = topology::load_device(root, name);
    if (!device) continue;
    for (const auto& [precision, flops] : device->peak_flops) {
      const bool twin_of_bf16 =
          precision == topology::Precision::fp16 && device->peak_flops.contains(topology::Precision::bf16);
      if (twin_of_bf16) continue;
      peaks.push_back({fmt::format("{} {}", name, topology::name(precision)), flops});
    }
  }
  return peaks;
}

void read_peak(const Invocation& invocation, scenarios::AuditInput& input, Errors& errors) {
  Arguments& arguments = invocation.arguments;
  const auto given = arguments.number("peak-tflops", 1e-6, 1e9);
  if (given) {
    input.peak_flops = *given * 1e12;
    input.peak_name = "as given";
    return;
  }
  if (!arguments.has("device")) return;
  const std::string wanted = arguments.has("precision") ? arguments.text("precision") : "bf16";
  const auto precision = topology::precision_named(wanted);
  if (!precision) {
    arguments.fail("precision",
                   fmt::format("found '{}', allowed is bf16, fp16, fp8, mxfp8, fp8-blockwise or nvfp4", wanted));
    return;
  }
  const auto device = topology::load_device(invocation.globals.catalog_root, arguments.text("device"));
  if (!device) {
    errors.insert(errors.end(), device.errors().begin(), device.errors().end());
    return;
  }
  const auto peak = device->peak_flops.find(*precision);
  if (peak == device->peak_flops.end()) {
    arguments.fail("precision", fmt::format("{} has no {} peak in the catalogue", device->name, wanted));
    return;
  }
  input.peak_flops = peak->second;
  input.peak_name = device->name + " " + wanted;
}

void read_model(const Invocation& invocation, scenarios::AuditInput& input, Errors& errors) {
  if (!invocation.arguments.has("model")) return;
  auto model = models::load_model(invocation.globals.catalog_root, invocation.arguments.text("model"));
  if (model) {
    input.model = std::move(*model);
  } else {
    errors.insert(errors.end(), model.errors().begin(), model.errors().end());
  }
}

void read_lengths(Arguments& arguments, scenarios::AuditInput& input, Errors& errors) {
  if (!arguments.has("lengths")) return;
  const auto text = read_text_file(arguments.text("lengths"), json_max_bytes);
  if (!text) {
    errors.insert(errors.end(), text.errors().begin(), text.errors().end());
    return;
  }
  std::istringstream lines(*text);
  std::string line;
  double sum = 0;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    const auto length = parse_number(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
    if (!length || *length < 1 || *length > 1e9) {
      errors.push_back(make_error(ErrorCode::invalid,
                                  fmt::format("found '{}', a length of 1 token or more is needed", line.substr(0, 40)),
                                  fmt::format("{}:{}", arguments.text("lengths"), number)));
      return;
    }
    input.lengths.push_back(*length);
    sum += *length;
  }
  if (input.lengths.empty()) {
    errors.push_back(make_error(ErrorCode::invalid, "holds no lengths", arguments.text("lengths")));
    return;
  }
  constexpr double same_tokens = 0.01;
  if (input.tokens == 0) input.tokens = sum;
  if (std::abs(input.tokens / sum - 1) > same_tokens) {
    arguments.fail("tokens", fmt::format("found {:g}, but the lengths of --lengths add up to {:g}", input.tokens, sum));
  }
  if (!input.samples) input.samples = static_cast<double>(input.lengths.size());
}

void read_executed(Arguments& arguments, scenarios::AuditInput& input) {
  if (arguments.text("recompute-factor") == "full") {
    input.executed_factor = full_recompute;
  } else if (const auto factor = arguments.number("recompute-factor", 1, 100)) {
    input.executed_factor = *factor;
  }
  const auto executed = arguments.number("executed-flops", 1, huge);
  if (!executed) return;
  if (!input.model_flops) {
    arguments.fail("executed-flops", "needs --model-flops beside it");
  } else if (*executed < *input.model_flops) {
    arguments.fail("executed-flops", "executed FLOPs are never below model FLOPs");
  } else {
    input.executed_factor = *executed / *input.model_flops;
  }
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  if (arguments.has("collective")) return run_collective(invocation);
  scenarios::AuditInput input;
  Errors errors;
  input.devices = arguments.number("devices", 1, 1 << 20).value_or(0);
  input.step_time_s = arguments.number("step-time", 1e-9, huge).value_or(0);
  input.tokens = arguments.number("tokens", 1, huge).value_or(0);
  input.active_parameters = arguments.number("active-params", 1, huge);
  input.total_parameters = arguments.number("total-params", 1, huge);
  input.samples = arguments.number("samples", 1, huge);
  input.slots = arguments.number("slots", 1, huge);
  input.sequence_length = arguments.number(arguments.has("sequence") ? "sequence" : "sequence-length", 1, 1e9);
  input.attention_layers = arguments.number("attention-layers", 0, 1e5);
  input.attention_width = arguments.number("attention-width", 1, 1e7);
  input.model_flops = arguments.number("model-flops", 1, huge);
  input.top_k = arguments.number("top-k", 1, 1e4);
  input.reported_tokens_per_s = arguments.number("reported-tokens-per-s", 1e-9, huge);
  input.reported_tflops_per_device = arguments.number("reported-tflops", 1e-9, 1e9);
  input.reported_mfu = arguments.number("reported-mfu", 1e-6, 1);
  read_lengths(arguments, input, errors);
  read_executed(arguments, input);
  read_peak(invocation, input, errors);
  read_model(invocation, input, errors);
  if (!arguments.errors().empty()) return arguments.errors();
  if (!errors.empty()) return errors;
  input.known_peaks = known_peaks(invocation.globals.catalog_root);
  const auto audit = scenarios::audit(input);
  if (!audit) return audit.errors();
  return Output{render(
      invocation.globals, [&] { return to_json(input, *audit); },
      [&] { return to_table(input, *audit, invocation.globals.colour); }, [&] { return to_csv(input, *audit); })};
}

}  // namespace

const Command account_command = {
    "account",
    "--devices N --peak-tflops X --step-time S --tokens N --active-params N [OPTIONS]",
    "Audits a measured step: MFU, HFU, throughput, padding, attention; refuses the impossible.",
    {"stepcast account --devices 40 --peak-tflops 148 --step-time 120 --tokens 2.31e6 --active-params 3e9 "
     "--total-params 35e9 --slots 3932160 --recompute-factor full",
     "stepcast account --collective all_reduce --bytes 512e6 --ranks 8 --collective-time 1.82e-3"},
    "",
    0,
    add_options,
    run,
    false,
    false};

}  // namespace stepcast::cli
