#include "validation/components/component_data.h"

#include <array>
#include <utility>

namespace stepcast::validation {

Result<ComponentData> load_component_data(const std::filesystem::path& root) {
  ComponentData data;
  const std::filesystem::path folder = root / "validation" / "data" / "calibration";
  const std::array<std::pair<Table ComponentData::*, const char*>, 8> tables{{
      {&ComponentData::gemm, "gemm.csv"},
      {&ComponentData::attention, "attention.csv"},
      {&ComponentData::attention_published, "attention_published.csv"},
      {&ComponentData::collectives, "collectives.csv"},
      {&ComponentData::expert_layer, "moe_layer.csv"},
      {&ComponentData::dispatch, "moe_a2a.csv"},
      {&ComponentData::dispatch_published, "dispatch_published.csv"},
      {&ComponentData::memory, "membound.csv"},
  }};
  Errors errors;
  for (const auto& [member, file] : tables) {
    auto table = Table::read(folder / file);
    if (table) {
      data.*member = std::move(*table);
    } else {
      errors.insert(errors.end(), table.errors().begin(), table.errors().end());
    }
  }
  for (const char* name : {"a100-80gb", "h100", "h200", "h800", "b200", "b300", "gb200", "gb300"}) {
    auto device = topology::load_device(root, name);
    if (device) {
      data.devices.emplace(name, std::move(*device));
    } else {
      errors.insert(errors.end(), device.errors().begin(), device.errors().end());
    }
  }
  if (!errors.empty()) return errors;
  return data;
}

topology::Device burst_device(const topology::Device& device) {
  topology::Device slim = device;
  slim.provenance.clear();
  slim.sustained_gemm = slim.sustained_fp8 = 1;
  return slim;
}

}  // namespace stepcast::validation
