// Worked cases A, B and D on the command line.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("Case A is audited") {
  const Outcome outcome =
      run(words("account --devices 40 --peak-tflops 148 --step-time 120 --tokens 2.31e6 "
                "--active-params 3e9 --total-params 35e9 --slots 3932160 --samples 80 "
                "--recompute-factor 8/6 --attention-layers 12 --attention-width 2048"));
  CAPTURE(outcome.out, outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  for (const char* figure : {"MFU 5.85 %", "HFU 7.80 %", "346 TFLOP/s", "8.66 TFLOP/s", "19250 effective tokens/s",
                             "481.25", "4.158e+16", "68.3 %", "58.7 %", "41.3 %", "1.70x", "70.5 s", "9.96 %",
                             "5.70e+16", "57.8 %", "13.9 %", "1.97e+16", "32.1 %"}) {
    CAPTURE(figure);
    CHECK(contains(outcome.out, figure));
  }
}

TEST_CASE("The device's peak comes from the catalogue") {
  const Outcome outcome =
      run(words("account --devices 40 --device h20 --step-time 120 --tokens 2.31M --active-params 3B "
                "--format json"));
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["utilisation"]["mfu"].get<double>() == Approx(0.0585).epsilon(1e-3));
  CHECK(json["input"]["peak"] == "h20 bf16");
}

TEST_CASE("Case B is refused with the likely slips") {
  const Outcome outcome =
      run(words("account --devices 1 --peak-tflops 312 --step-time 2 --tokens 1e6 --active-params 7e9"));
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.empty());
  for (const char* said : {"6731 %", "likely slip: device count missing", "total instead of active parameters",
                           "tokens counted after top-k", "with sparsity", "wrong unit", "a100-80gb bf16"}) {
    CAPTURE(said, outcome.err);
    CHECK(contains(outcome.err, said));
  }
  CHECK(contains(
      run(words("account --devices 100 --peak-tflops 312 --step-time 2.4 --tokens 4e6 --active-params 13e9")).err,
      "416.7 %"));
}

TEST_CASE("Case B: MFU and HFU from counted FLOPs") {
  const Outcome outcome =
      run(words("account --devices 1 --peak-tflops 312 --step-time 1 --tokens 1000 --model-flops 100e12 "
                "--executed-flops 130e12"));
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.out, "MFU 32.1 %"));
  CHECK(contains(outcome.out, "HFU 41.7 %"));
  CHECK(run(words("account --devices 1 --peak-tflops 312 --step-time 1 --tokens 1000 --model-flops 100e12 "
                  "--executed-flops 90e12"))
            .exit_code == 2);
}

TEST_CASE("Case D is audited") {
  const Outcome outcome =
      run(words("account --collective all_reduce --bytes 512e6 --ranks 8 --collective-time 1.82e-3"));
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.out, "algbw 281.3 GB/s, busbw 492.3 GB/s"));
}

TEST_CASE("Missing options are all named") {
  const Outcome outcome = run({"account"});
  CHECK(outcome.exit_code == 2);
  for (const char* flag : {"--devices", "--peak-tflops", "--step-time", "--tokens", "--active-params"}) {
    CHECK(contains(outcome.err, flag));
  }
}

}  // namespace
}  // namespace stepcast::cli_tests
