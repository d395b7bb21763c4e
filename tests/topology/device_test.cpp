#include "topology/device.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "cluster_fixture.h"

namespace stepcast::topology {

namespace {

namespace fs = std::filesystem;

// A catalogue of one device, "x", that a test may damage.
class Scratch {
 public:
  Scratch()
      : root_(fs::temp_directory_path() /
              ("stepcast_device_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)))) {
    fs::create_directories(root_ / "topology/catalog/devices");
    fs::create_directories(root_ / "topology/catalog/clusters");
    std::ifstream in(catalog_root() / "topology/catalog/devices/h100.json");
    text_.assign(std::istreambuf_iterator<char>(in), {});
    replace("\"name\": \"h100\"", "\"name\": \"x\"");
  }
  ~Scratch() { fs::remove_all(root_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Scratch& replace(const std::string& from, const std::string& to) {
    const std::size_t at = text_.find(from);
    REQUIRE(at != std::string::npos);
    text_.replace(at, from.size(), to);
    return *this;
  }
  Result<Device> load() {
    std::ofstream(root_ / "topology/catalog/devices/x.json") << text_;
    return load_device(root_, "x");
  }
  std::string failure() {
    const auto device = load();
    REQUIRE_FALSE(device);
    return messages(device.errors());
  }

 private:
  fs::path root_;
  std::string text_;
};

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("every device of the catalogue loads with sane, sourced numbers") {
  const auto names = list_devices(catalog_root());
  REQUIRE(names);
  CHECK(names->size() >= 18);
  for (const std::string& name : *names) {
    const auto device = load_device(catalog_root(), name);
    INFO(name << "\n" << (device ? "" : messages(device.errors())));
    REQUIRE(device);
    CHECK(device->name == name);
    CHECK(device->hbm.value > 1e10);
    CHECK(device->hbm_bandwidth.value > 5e11);
    CHECK(device->attention.contains(device->default_attention));
    CHECK(device->gemm.size() == device->peak_flops.size());
    CHECK((device->peak_flops.contains(Precision::bf16) || device->peak_flops.contains(Precision::fp16)));
    for (const auto& [precision, fit] : device->gemm) {
      CHECK(device->peak_flops.at(precision) > 1e13);
      CHECK(fit.e <= 1);
    }
    for (const Fact& fact : describe(*device)) {
      INFO(fact.key);
      CHECK(std::isfinite(fact.value));
      CHECK_FALSE(fact.source.empty());
    }
  }
}

TEST_CASE("a precision is supported only with a peak and a fit") {
  const auto a100 = load_device(catalog_root(), "a100-80gb");
  REQUIRE(a100);
  CHECK(a100->peak_flops.size() == 2);
  CHECK(a100->gemm.at(Precision::fp16).e == a100->gemm.at(Precision::bf16).e);
  const auto v100 = load_device(catalog_root(), "v100-16gb");
  REQUIRE(v100);
  CHECK(v100->gemm.size() == 1);
  CHECK(v100->gemm.contains(Precision::fp16));
  CHECK(v100->low_confidence);
  const auto gb200 = load_device(catalog_root(), "gb200");
  REQUIRE(gb200);
  CHECK(gb200->peak_flops.at(Precision::nvfp4) == 1e16);
  CHECK(gb200->peak_flops.at(Precision::mxfp8) == 5e15);
}

TEST_CASE("secondary figures are announced") {
  const auto ascend = load_device(catalog_root(), "ascend-910c");
  REQUIRE(ascend);
  CHECK(ascend->secondary);
  const auto lines = assumptions_of(*ascend);
  REQUIRE_FALSE(lines.empty());
  CHECK_THAT(lines.front(), Contains("secondary sources"));
  const auto h100 = load_device(catalog_root(), "h100");
  REQUIRE(h100);
  for (const std::string& line : assumptions_of(*h100)) CHECK_THAT(line, !Contains("secondary"));
}

TEST_CASE("an unknown device names the nearest") {
  for (const char* slip : {"h10", "H100", "h1000"}) {
    const auto device = load_device(catalog_root(), slip);
    REQUIRE_FALSE(device);
    CHECK(device.errors().front().code == ErrorCode::not_found);
    CHECK_THAT(device.errors().front().message, Contains("did you mean 'h100'"));
  }
  CHECK_FALSE(load_device(catalog_root(), "../devices/h100"));
  CHECK_FALSE(load_device(catalog_root(), ""));
  CHECK_FALSE(load_device("/nowhere", "h100"));
}

TEST_CASE("a damaged device file names line, column and key") {
  CHECK(Scratch().load());
  CHECK_THAT(Scratch().replace("\"hbm_gb\"", "\"hbm_bg\"").failure(),
             Contains("x.json:") && Contains("unknown key 'hbm_bg'; did you mean 'hbm_gb'") &&
                 Contains("missing key 'hbm_gb'"));
  CHECK_THAT(Scratch().replace("\"value\": 132", "\"value\": \"132\"").failure(),
             Contains("/constants/sms/value") && Contains("expected a number"));
  CHECK_THAT(Scratch().replace("\"value\": 132", "\"value\": 132.5").failure(), Contains("whole number"));
  CHECK_THAT(Scratch().replace("\"value\": 132", "\"value\": -132").failure(), Contains("found -132"));
  CHECK_THAT(Scratch().replace("\"value\": 132", "\"value\": 1e300").failure(), Contains("expected a number from"));
  CHECK_THAT(Scratch().replace("\"specification\"", "\"specificaton\"").failure(),
             Contains("did you mean 'specification'"));
  CHECK_THAT(Scratch().replace("\"e\": ", "\"ee\": ").failure(), Contains("missing key 'e'"));
  CHECK_THAT(Scratch().replace("\"cudnn\": {", "\"cudnnn\": {").failure(), Contains("did you mean 'cudnn'"));
  CHECK_THAT(Scratch().replace("\"name\": \"x\"", "\"name\": \"y\"").failure(), Contains("expected 'x'"));
  CHECK_THAT(Scratch().replace("\"constants\": {", "\"constants\": 7, \"rest\": {").failure(),
             Contains("expected an object"));
  CHECK_THAT(Scratch().replace("{", "").failure(), Contains("x.json:2:11: not valid JSON"));
}

TEST_CASE("all errors of a file are reported together") {
  Scratch scratch;
  scratch.replace("\"value\": 132", "\"value\": null").replace("\"hbm_gb\"", "\"hbm_bg\"");
  const auto device = scratch.load();
  REQUIRE_FALSE(device);
  CHECK(device.errors().size() == 3);
}

TEST_CASE("element widths include scales") {
  CHECK(element_bytes(Precision::bf16) == 2);
  CHECK(element_bytes(Precision::fp8_blockwise) == 1.03125);
  CHECK(element_bytes(Precision::mxfp8) == 1.03125);
  CHECK(element_bytes(Precision::nvfp4) == 0.5625);
  for (const char* text : {"bf16", "fp16", "fp8", "mxfp8", "fp8_blockwise", "nvfp4"}) {
    REQUIRE(precision_named(text));
    CHECK(name(*precision_named(text)) == text);
  }
  CHECK_FALSE(precision_named("fp7"));
}

}  // namespace stepcast::topology
