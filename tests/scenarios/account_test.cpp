// Worked cases A (a measured step, audited), B (MFU against HFU) and D (collectives).
#include "scenarios/account.h"

#include <catch2/catch.hpp>

#include "models/catalog.h"
#include "models/ledger.h"

namespace stepcast::scenarios {
namespace {

// 35 B parameters, 3 B active, 40 H20, 120 s, 80 samples of 28,875 tokens in slots of 49,152.
AuditInput case_a() {
  AuditInput input;
  input.devices = 40;
  input.peak_flops = 148e12;
  input.peak_name = "h20 bf16";
  input.step_time_s = 120;
  input.tokens = 2.31e6;
  input.active_parameters = 3e9;
  input.total_parameters = 35e9;
  input.slots = 3932160;
  input.samples = 80;
  return input;
}

AuditInput one_device() {
  AuditInput input;
  input.devices = 1;
  input.peak_flops = 312e12;
  input.peak_name = "a100 bf16";
  input.step_time_s = 2;
  input.tokens = 1e6;
  input.active_parameters = 7e9;
  return input;
}

const Slip* find(const std::vector<Slip>& slips, const std::string& beginning) {
  for (const Slip& slip : slips) {
    if (slip.text.starts_with(beginning)) return &slip;
  }
  return nullptr;
}

TEST_CASE("Case A: utilisation and throughput of the measured step") {
  AuditInput input = case_a();
  input.executed_factor = 8.0 / 6.0;
  const auto result = audit(input);
  REQUIRE(result.ok());
  CHECK(result->model_flops == Approx(4.158e16));
  CHECK(result->convention == "6nd_active");
  CHECK(result->achieved_flops_per_s == Approx(346.5e12));
  CHECK(result->achieved_per_device == Approx(8.6625e12));
  CHECK(result->mfu == Approx(0.0585).epsilon(1e-3));
  CHECK(result->hfu == Approx(0.0780).epsilon(1e-3));
  CHECK(result->tokens_per_s == Approx(19250));
  CHECK(result->tokens_per_s_per_device == Approx(481.25));
  REQUIRE(result->mfu_if_total_parameters.has_value());
  CHECK(*result->mfu_if_total_parameters == Approx(0.683).epsilon(1e-3));
}

TEST_CASE("Case A: padding and the bound of perfect packing") {
  const auto result = audit(case_a());
  REQUIRE(result.ok());
  REQUIRE(result->padding.has_value());
  CHECK(result->padding->effective_share == Approx(0.587).epsilon(1e-3));
  CHECK(result->padding->waste == Approx(0.413).epsilon(2e-3));
  CHECK(result->padding->packing_speedup == Approx(1.70).epsilon(2e-3));
  CHECK(result->padding->packed_mfu == Approx(0.0996).epsilon(1e-3));
  CHECK(result->padding->packed_step_time_s == Approx(70.5).epsilon(1e-3));
}

TEST_CASE("Case A: attention that 6ND leaves out, by length and convention") {
  struct Row {
    double layers, width, padded_flops, padded_share, padded_use, mean_flops, mean_share, mean_use;
  };
  const Row row = GENERATE(Row{12, 2048, 5.70e16, .578, .139, 1.97e16, .321, .086},
                           Row{12, 4096, 1.14e17, .733, .219, 3.93e16, .486, .114},
                           Row{16, 2560, 9.50e16, .696, .192, 3.28e16, .441, .105});
  AuditInput input = case_a();
  input.attention_layers = row.layers;
  input.attention_width = row.width;
  const auto result = audit(input);
  REQUIRE(result.ok());
  REQUIRE(result->attention.size() == 4);
  const AttentionShare& padded = result->attention[0];
  const AttentionShare& mean = result->attention[2];
  CHECK(padded.length == Approx(49152));
  CHECK(mean.length == Approx(28875));
  CHECK(padded.flops == Approx(row.padded_flops).epsilon(3e-3));
  CHECK(padded.share == Approx(row.padded_share).epsilon(2e-3));
  CHECK(padded.utilisation == Approx(row.padded_use).epsilon(4e-3));
  CHECK(mean.flops == Approx(row.mean_flops).epsilon(3e-3));
  CHECK(mean.share == Approx(row.mean_share).epsilon(2e-3));
  CHECK(mean.utilisation == Approx(row.mean_use).epsilon(6e-3));
  CHECK(result->attention[1].convention == "attention_causal");
  CHECK(result->attention[1].flops == Approx(padded.flops / 2));
  CHECK(result->attention[3].flops == Approx(mean.flops / 2));
}

TEST_CASE("Given lengths, attention uses the sum of their squares") {
  AuditInput input = case_a();
  input.attention_layers = 12;
  input.attention_width = 2048;
  input.lengths.assign(40, 10000);
  input.lengths.insert(input.lengths.end(), 40, 47750);  // the same mean, 28,875
  const auto result = audit(input);
  REQUIRE(result.ok());
  REQUIRE(result->attention.size() == 2);
  const double squares = 40 * (10000.0 * 10000.0 + 47750.0 * 47750.0);
  CHECK(result->attention[0].flops == Approx(12 * squares * 2048 * 12));
  CHECK(result->attention[0].flops > 1.97e16);
}

TEST_CASE("Case B: HFU from executed FLOPs") {
  AuditInput input = one_device();
  input.tokens = 1;
  input.active_parameters.reset();
  input.step_time_s = 1;
  input.peak_flops = 312e12;
  SECTION("MFU 39.06 % and 1.25 times the FLOPs executed") {
    input.model_flops = 0.390625 * 312e12;
    input.executed_factor = 1.25;
    const auto result = audit(input);
    REQUIRE(result.ok());
    CHECK(result->mfu == Approx(0.3906).epsilon(1e-3));
    CHECK(result->hfu == Approx(0.4883).epsilon(1e-3));
  }
  SECTION("100 TFLOP/s of model work, 130 executed") {
    input.model_flops = 100e12;
    input.executed_factor = 1.3;
    const auto result = audit(input);
    REQUIRE(result.ok());
    CHECK(result->mfu == Approx(0.321).epsilon(2e-3));
    CHECK(result->hfu == Approx(0.417).epsilon(1e-3));
  }
}

TEST_CASE("HFU is never below MFU") {
  for (const double factor : {1.0, 1.1, 4.0 / 3.0, 3.0}) {
    AuditInput input = case_a();
    input.executed_factor = factor;
    const auto result = audit(input);
    REQUIRE(result.ok());
    CHECK(result->hfu >= result->mfu);
  }
  AuditInput input = case_a();
  input.executed_factor = 0.9;
  CHECK_FALSE(audit(input).ok());
}

TEST_CASE("Case B: above 100 % is refused, with the slips that would explain it") {
  const auto result = audit(one_device());
  REQUIRE_FALSE(result.ok());
  CHECK(result.errors().front().message.find("6731 %") != std::string::npos);
  const auto slips = likely_slips(one_device(), 67.31);
  for (const char* named : {"device count missing", "total instead of active", "tokens counted after top-k",
                            "peak of another precision or with sparsity", "wrong unit"}) {
    CAPTURE(named);
    CHECK(find(slips, named) != nullptr);
  }
  CHECK(find(slips, "device count missing")->explains);
  CHECK(find(slips, "device count missing")->text.find("68 devices") != std::string::npos);
  CHECK_FALSE(find(slips, "peak of another")->explains);  // 67 times too much is no precision
  CHECK_FALSE(find(slips, "tokens counted")->explains);
}

TEST_CASE("Case B: 13 B parameters on 100 A100 in 2.4 s is 417 %") {
  AuditInput input = one_device();
  input.devices = 100;
  input.active_parameters = 13e9;
  input.tokens = 4e6;
  input.step_time_s = 2.4;
  const auto result = audit(input);
  REQUIRE_FALSE(result.ok());
  CHECK(result.errors().front().message.find("416.7 %") != std::string::npos);
  const auto slips = likely_slips(input, 4.167);
  CHECK_FALSE(find(slips, "device count missing")->explains);
  CHECK(find(slips, "total instead of active")->explains);
  CHECK(find(slips, "tokens counted after top-k")->explains);  // 52 % at top-8
}

TEST_CASE("A wrong peak is recognised from the catalogue's peaks") {
  AuditInput input = one_device();
  input.devices = 100;
  input.known_peaks = {{"a100 bf16", 312e12}, {"h100 bf16", 989e12}, {"h100 fp8", 1979e12}};
  const auto slips = likely_slips(input, 1.3);
  const Slip* slip = find(slips, "peak of another");
  REQUIRE(slip != nullptr);
  CHECK(slip->explains);
  CHECK(slip->text.find("a100 bf16") != std::string::npos);
  CHECK(slip->text.find("h100 bf16") != std::string::npos);
}

TEST_CASE("HFU above 100 % is refused where MFU is not") {
  AuditInput input = case_a();
  input.executed_factor = 20;
  const auto result = audit(input);
  REQUIRE_FALSE(result.ok());
  CHECK(result.errors().front().message.starts_with("HFU"));
}

TEST_CASE("Reported rates are compared with the counts") {
  AuditInput input = case_a();
  input.reported_tflops_per_device = 8.66;
  input.reported_tokens_per_s = 19250;
  CHECK(audit(input)->warnings.empty());
  input.reported_tflops_per_device = 11.55;  // executed FLOPs under full recompute
  input.reported_tokens_per_s = 32768;       // slots over time
  CHECK(audit(input)->warnings.size() == 2);
}

TEST_CASE("Missing inputs are all named at once") {
  const auto result = audit(AuditInput{});
  REQUIRE_FALSE(result.ok());
  CHECK(result.errors().size() == 5);
  for (const Error& error : result.errors()) CHECK(error.code == ErrorCode::usage);
}

TEST_CASE("The ledger is the leading route when a model is given") {
  AuditInput input = case_a();
  auto model = models::load_model(STEPCAST_SOURCE_DIR, "qwen3-30b-a3b");
  REQUIRE(model.ok());
  input.model = *model;
  input.sequence_length = 4096;
  const auto result = audit(input);
  REQUIRE(result.ok());
  CHECK(result->convention == "attention_causal");
  CHECK(result->flops_per_token / 1e9 == Approx(23.0).epsilon(5e-3));
  CHECK(result->routes.size() == 4);
}

TEST_CASE("Case D: bandwidths as nccl-tests defines them") {
  const auto rates = collective_rates(topology::Collective::all_reduce, 512e6, 8, 1.82e-3);
  CHECK(rates.algbw_gb_per_s == Approx(281.3).epsilon(1e-3));
  CHECK(rates.busbw_gb_per_s == Approx(492.3).epsilon(1e-3));
  for (int n = 2; n <= 64; n *= 2) {
    const auto all_reduce = collective_rates(topology::Collective::all_reduce, 1e6, n, 1e-3);
    CHECK(all_reduce.busbw_gb_per_s >= all_reduce.algbw_gb_per_s);
    for (const auto kind :
         {topology::Collective::all_gather, topology::Collective::reduce_scatter, topology::Collective::all_to_all}) {
      CHECK(collective_rates(kind, 1e6, n, 1e-3).factor == Approx((n - 1.0) / n));
    }
    CHECK(collective_rates(topology::Collective::send_receive, 1e6, n, 1e-3).factor == 1);
    CHECK(collective_rates(topology::Collective::broadcast, 1e6, n, 1e-3).factor == 1);
  }
}

TEST_CASE("The three formats of an audit agree") {
  const AuditInput input = case_a();
  const auto result = audit(input);
  REQUIRE(result.ok());
  const auto json = to_json(input, *result);
  CHECK(json["schema"] == "stepcast.account/1");
  CHECK(json["utilisation"]["mfu"].get<double>() == Approx(result->mfu));
  CHECK(json["padding"]["waste"].get<double>() == Approx(0.4125).epsilon(1e-3));
  CHECK(to_table(input, *result, false).find("MFU 5.85 %") != std::string::npos);
  CHECK(to_csv(input, *result).find("6nd_active,40,120,") != std::string::npos);
}

}  // namespace
}  // namespace stepcast::scenarios
