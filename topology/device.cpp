#include "topology/device.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/file_cache.h"
#include "topology/catalog_reader.h"
#include "topology/device_constants.h"

namespace stepcast::topology {

namespace {

constexpr std::array<std::pair<Precision, std::string_view>, 6> precisions{{{Precision::bf16, "bf16"},
                                                                            {Precision::fp16, "fp16"},
                                                                            {Precision::fp8, "fp8"},
                                                                            {Precision::mxfp8, "mxfp8"},
                                                                            {Precision::fp8_blockwise, "fp8_blockwise"},
                                                                            {Precision::nvfp4, "nvfp4"}}};

constexpr std::array<std::string_view, 6> generations{"fa2", "fa3", "cudnn", "trtllm", "triton", "unfused"};

constexpr std::array<ConstantKey, 14> constant_keys{{
    {"peak_bf16_tflops", "TFLOP/s", 1, 1e6, false},
    {"peak_fp16_tflops", "TFLOP/s", 1, 1e6, false},
    {"peak_fp8_tflops", "TFLOP/s", 1, 1e6, false},
    {"peak_fp4_tflops", "TFLOP/s", 1, 1e6, false},
    {"hbm_gb", "GB", 1, 1e5},
    {"hbm_usable_gib", "GiB", 1, 1e5},
    {"hbm_bandwidth_gb_per_s", "GB/s", 1, 1e6},
    {"sms", "", 1, 1e5, true, true},
    {"nvlink_domain", "", 1, max_domain, true, true},
    {"devices_per_node", "", 1, max_domain, true, true},
    {"nvlink_gb_per_s", "GB/s", 0.001, 1e5},
    {"nic_gb_per_s", "GB/s", 0.001, 1e5},
    {"host_memory_gib", "GiB", 1, 1e5},
    {"host_link_gb_per_s", "GB/s", 0.001, 1e5},
}};

std::string_view peak_key(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return "peak_bf16_tflops";
    case Precision::fp16:
      return "peak_fp16_tflops";
    case Precision::nvfp4:
      return "peak_fp4_tflops";
    default:
      return "peak_fp8_tflops";
  }
}

void read_constants(CatalogReader& reader, Device& device) {
  device.provenance = reader.constants("/constants", constant_keys);
  const auto value = [&](const char* key) {
    const auto at = device.provenance.find(key);
    return at == device.provenance.end() ? 0.0 : at->second.value;
  };
  device.hbm = gib(value("hbm_usable_gib"));
  device.hbm_bandwidth = gb_per_s(value("hbm_bandwidth_gb_per_s"));
  device.sms = static_cast<int>(value("sms"));
  device.nvlink_domain = static_cast<int>(value("nvlink_domain"));
  device.devices_per_node = static_cast<int>(value("devices_per_node"));
  device.nvlink_bandwidth = gb_per_s(value("nvlink_gb_per_s"));
  device.nic_bandwidth = gb_per_s(value("nic_gb_per_s"));
  device.host_memory_per_device = gib(value("host_memory_gib"));
  device.host_link_bandwidth = gb_per_s(value("host_link_gb_per_s"));
}

// A number of a fit block, kept in the provenance map under "gemm.bf16.e" and the like.
class FitBlock {
 public:
  FitBlock(CatalogReader& reader, Device& device, const std::string& pointer, std::string prefix)
      : reader_(reader), device_(device), pointer_(pointer), prefix_(std::move(prefix)) {
    provenance_ = reader.provenance(pointer + "/provenance");
    source_ = reader.text(pointer + "/source");
  }
  double operator()(const std::string& key, double minimum, double maximum) {
    const double value = reader_.number(pointer_ + pointer_step(key), minimum, maximum);
    device_.provenance[fmt::format("{}.{}", prefix_, key)] = {value, provenance_, source_};
    return value;
  }

 private:
  CatalogReader& reader_;
  Device& device_;
  std::string pointer_;
  std::string prefix_;
  Provenance provenance_ = Provenance::assumption;
  std::string source_;
};

void read_gemm(CatalogReader& reader, Device& device) {
  std::vector<std::string> names;
  for (const auto& [precision, text] : precisions) names.emplace_back(text);
  const auto& block = reader.object("/fits/gemm", {}, names);
  for (const auto& [precision, text] : precisions) {
    if (!block.contains(text)) continue;
    const std::string at = fmt::format("/fits/gemm/{}", text);
    const auto& fit =
        reader.object(at, {"e", "m0", "n0", "k0", "b", "t0_us", "provenance", "source"}, {"align8", "align64", "wave"});
    FitBlock read(reader, device, at, fmt::format("gemm.{}", text));
    GemmFit g;
    g.e = read("e", 0.01, 1.2);
    g.m0 = read("m0", 0, 1e5);
    g.n0 = read("n0", 0, 1e5);
    g.k0 = read("k0", 0, 1e5);
    g.b = read("b", 0.01, 1.5);
    g.t0 = microseconds(read("t0_us", 0, 1e4));
    if (fit.contains("align8")) g.align8 = read("align8", 0.01, 1);
    if (fit.contains("align64")) g.align64 = read("align64", 0.01, 1);
    if (fit.contains("wave")) g.wave = read("wave", 0, 1);
    const auto peak = device.provenance.find(std::string(peak_key(precision)));
    if (peak == device.provenance.end()) {
      reader.fail(at, fmt::format("a fit for {} without '/constants/{}'", text, peak_key(precision)));
      continue;
    }
    device.gemm[precision] = g;
    device.peak_flops[precision] = peak->second.value * 1e12;
  }
  // bf16 and fp16 run on the same units at the same rate: one fit serves both.
  const std::array<std::pair<Precision, Precision>, 2> twins{
      {{Precision::bf16, Precision::fp16}, {Precision::fp16, Precision::bf16}}};
  for (const auto& [have, want] : twins) {
    const auto peak = device.provenance.find(std::string(peak_key(want)));
    if (device.gemm.contains(have) && !device.gemm.contains(want) && peak != device.provenance.end()) {
      device.gemm[want] = device.gemm[have];
      device.peak_flops[want] = peak->second.value * 1e12;
    }
  }
  if (device.gemm.empty()) reader.fail("/fits/gemm", "no precision has a fit and a peak");
}

void read_grouped(CatalogReader& reader, Device& device) {
  std::vector<std::string> names;
  for (const auto& [precision, text] : precisions) names.emplace_back(text);
  const auto& block = reader.object("/fits/grouped", {}, names);
  for (const auto& [precision, text] : precisions) {
    if (!block.contains(text)) continue;
    const std::string at = fmt::format("/fits/grouped/{}", text);
    reader.object(at, {"e", "m0", "b", "provenance", "source"}, {});
    FitBlock read(reader, device, at, fmt::format("grouped.{}", text));
    device.grouped[precision] = {read("e", 0.01, 1.2), read("m0", 0, 1e5), read("b", 0.01, 1.5)};
  }
}

void read_attention(CatalogReader& reader, Device& device) {
  const std::vector<std::string> names(generations.begin(), generations.end());
  const auto& block = reader.object("/fits/attention", {}, names);
  for (const std::string& generation : names) {
    if (!block.contains(generation)) continue;
    const std::string at = "/fits/attention" + pointer_step(generation);
    const auto& given = reader.object(
        at, {"e_forward", "s0_forward", "e_backward", "s0_backward", "head_dim_64", "t0_us", "provenance", "source"},
        {"tail"});
    FitBlock read(reader, device, at, "attention." + generation);
    AttentionFit fit;
    fit.e_forward = read("e_forward", 0.001, 1.2);
    fit.s0_forward = read("s0_forward", 0, 1e6);
    fit.e_backward = read("e_backward", 0.001, 1.2);
    fit.s0_backward = read("s0_backward", 0, 1e6);
    fit.head_dim_64 = read("head_dim_64", 0.01, 2);
    fit.t0 = microseconds(read("t0_us", 0, 1e4));
    if (given.contains("tail")) fit.tail = read("tail", 0, 100);
    device.attention[generation] = fit;
  }
  device.default_attention = reader.text("/default_attention");
  if (!device.default_attention.empty() && !device.attention.contains(device.default_attention)) {
    reader.fail("/default_attention", fmt::format("'{}' has no block under /fits/attention{}", device.default_attention,
                                                  suggestion(device.default_attention, names)));
  }
}

void read_levels(CatalogReader& reader, Device& device, bool narrow) {
  reader.object("/fits/membound", {"efficiency", "t0_us", "provenance", "source"}, {});
  FitBlock membound(reader, device, "/fits/membound", "membound");
  device.membound_efficiency = membound("efficiency", 0.01, 1.2);
  device.membound_t0 = microseconds(membound("t0_us", 0, 1e4));
  reader.object("/fits/sustained_gemm", {"value", "provenance", "source"}, {});
  FitBlock sustained(reader, device, "/fits/sustained_gemm", "sustained_gemm");
  device.sustained_gemm = sustained("value", 0.05, 2);
  device.sustained_fp8 = device.sustained_gemm;
  if (!narrow) return;
  reader.object("/fits/sustained_fp8", {"value", "provenance", "source"}, {});
  FitBlock sustained_fp8(reader, device, "/fits/sustained_fp8", "sustained_fp8");
  device.sustained_fp8 = sustained_fp8("value", 0.05, 2);
}

// The number of the document that stands behind a key of Device::provenance.
nlohmann::ordered_json* member_of(nlohmann::ordered_json& root, const std::string& key) {
  if (root["constants"].contains(key)) return &root["constants"][key]["value"];
  nlohmann::ordered_json* at = &root["fits"];
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    const auto member = at->find(key.substr(begin, end - begin));
    if (member == at->end()) return nullptr;
    at = &*member;
    begin = end + 1;
  }
  return at->is_number() ? at : nullptr;
}

Result<Device> read_device(const JsonDocument& document, const std::string& name) {
  CatalogReader reader(document);
  Device device;
  reader.object("", {"name", "vendor", "default_attention", "constants", "fits"},
                {"scale_up", "secondary", "low_confidence"});
  device.name = reader.text("/name");
  if (device.name != name && reader.errors().empty()) {
    reader.fail("/name", fmt::format("found '{}', expected '{}', the file's name", device.name, name));
  }
  device.vendor = reader.text("/vendor");
  device.secondary = reader.flag("/secondary", false);
  device.low_confidence = reader.flag("/low_confidence", false);
  if (reader.choice("/scale_up", {"switched", "mesh"}) == "mesh") device.scale_up = ScaleUp::mesh;
  read_constants(reader, device);
  const auto& fits =
      reader.object("/fits", {"gemm", "attention", "membound", "sustained_gemm"}, {"grouped", "sustained_fp8"});
  read_gemm(reader, device);
  if (fits.contains("grouped")) read_grouped(reader, device);
  read_attention(reader, device);
  read_levels(reader, device, fits.contains("sustained_fp8"));
  if (!reader.errors().empty()) return reader.errors();
  return device;
}

}  // namespace

double element_bytes(Precision precision) {
  switch (precision) {
    case Precision::bf16:
    case Precision::fp16:
      return 2;
    case Precision::fp8:
      return 1;
    case Precision::mxfp8:
      return 1 + 1.0 / 32;
    case Precision::fp8_blockwise:
      return 1 + 4.0 / 128;
    case Precision::nvfp4:
      return 0.5 + 1.0 / 16;
  }
  return 0;
}

std::string_view name(Precision precision) {
  for (const auto& [p, text] : precisions) {
    if (p == precision) return text;
  }
  return "unknown";
}

std::optional<Precision> precision_named(std::string_view text) {
  for (const auto& [p, known] : precisions) {
    if (known == text) return p;
  }
  return std::nullopt;
}

std::string_view name(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured_fit:
      return "measured_fit";
    case Provenance::specification:
      return "specification";
    case Provenance::secondary:
      return "secondary";
    case Provenance::assumption:
      return "assumption";
    case Provenance::given:
      return "given";
  }
  return "unknown";
}

Result<std::vector<std::string>> list_devices(const std::filesystem::path& catalog_root) {
  return catalog_names(catalog_root / "topology/catalog/devices");
}

namespace {

Result<JsonDocument> device_document(const std::filesystem::path& file) {
  static FileCache<JsonDocument> cache;
  return cache.get(file, "", [&] { return read_json_file(file); });
}

}  // namespace

Result<Device> load_device(const std::filesystem::path& catalog_root, const std::string& device) {
  const auto file = catalog_file(catalog_root / "topology/catalog/devices", device, "device");
  if (!file) return file.errors();
  static FileCache<Device> cache;
  return cache.get(*file, device, [&]() -> Result<Device> {
    const auto document = device_document(*file);
    if (!document) return document.errors();
    return read_device(*document, device);
  });
}

namespace {

// Facts of a device are shown with this in front.
std::string bare(const std::string& key) {
  constexpr std::string_view prefix = "device.";
  return key.starts_with(prefix) ? key.substr(prefix.size()) : key;
}

}  // namespace

Result<Device> load_device(const std::filesystem::path& catalog_root, const std::string& device,
                           const std::map<std::string, double>& constants) {
  if (constants.empty()) return load_device(catalog_root, device);
  const auto file = catalog_file(catalog_root / "topology/catalog/devices", device, "device");
  if (!file) return file.errors();
  auto document = device_document(*file);
  if (!document) return document.errors();
  auto before = load_device(catalog_root, device);
  if (!before) return before;
  Errors errors;
  for (const auto& [given, value] : constants) {
    const std::string key = bare(given);
    const auto known = before->provenance.find(key);
    auto* member = known == before->provenance.end() ? nullptr : member_of(document->root, key);
    if (member != nullptr) {
      *member = value;
      continue;
    }
    std::vector<std::string> names;
    for (const auto& [name, constant] : before->provenance) names.push_back(name);
    errors.push_back(make_error(ErrorCode::invalid,
                                fmt::format("device {} has no constant '{}'{}", device, given, suggestion(key, names)),
                                "cluster.constants." + given));
  }
  if (!errors.empty()) return errors;
  auto changed = read_device(*document, device);
  if (!changed) {
    // The catalogue reads without them, so what is wrong is a value given here and not a place of its file.
    const std::string at =
        constants.size() == 1 ? "cluster.constants." + constants.begin()->first : "cluster.constants";
    Errors given = changed.errors();
    for (Error& error : given) {
      const auto pointer = error.where.find(" /");
      if (pointer != std::string::npos) error.message = error.where.substr(pointer + 1) + ": " + error.message;
      error.where = at;
    }
    return given;
  }
  for (const auto& [given, value] : constants) {
    changed->provenance[bare(given)] = {value, Provenance::given, "stated in the scenario or its calibration"};
  }
  return changed;
}

std::vector<Fact> describe(const Device& device) {
  std::vector<Fact> facts;
  for (const auto& [key, constant] : device.provenance) {
    facts.push_back({key, constant.value, unit_of(key), constant.provenance, constant.source});
  }
  return facts;
}

std::vector<std::string> assumptions_of(const Device& device) {
  std::vector<std::string> lines;
  if (device.secondary) {
    lines.push_back(fmt::format(
        "device {}: its figures come from secondary sources, without measurement: +-10 % at best", device.name));
  }
  if (device.low_confidence) {
    lines.push_back(
        fmt::format("device {}: kernel levels are carried over from another device: low confidence", device.name));
  }
  for (const Provenance origin : {Provenance::secondary, Provenance::assumption}) {
    std::vector<std::string> entries;
    for (const auto& [key, constant] : device.provenance) {
      // One entry a fit block: "gemm.fp8" for gemm.fp8.e, gemm.fp8.m0, ...
      const std::size_t dot = key.rfind('.');
      const bool block = dot != std::string::npos;
      std::string entry = block ? key.substr(0, dot) : fmt::format("{} = {:g}", key, constant.value);
      if (constant.provenance == origin && (entries.empty() || entries.back() != entry)) entries.push_back(entry);
    }
    if (!entries.empty()) {
      lines.push_back(fmt::format("device {}: {}: {}", device.name, name(origin), fmt::join(entries, ", ")));
    }
  }
  return lines;
}

}  // namespace stepcast::topology
