// The calibration tables and the devices that their rows stand for.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "topology/device.h"
#include "validation/components/csv.h"
#include "validation/components/fit_task.h"

namespace stepcast::validation {

struct ComponentData {
  Table gemm, attention, attention_published, collectives, expert_layer, dispatch, dispatch_published, memory;
  std::map<std::string, topology::Device> devices;  // by catalogue name
};

// `root` holds validation/data/calibration and topology/catalog.
[[nodiscard]] Result<ComponentData> load_component_data(const std::filesystem::path& root);

// The catalogue device with what kernel costs read, and without its texts: cheap to copy. Sustained level 1: the tables
// are short bursts.
[[nodiscard]] topology::Device burst_device(const topology::Device& device);

// Numbers the distinct keys of rows in order of appearance.
class GroupIds {
 public:
  int operator()(const std::string& key) { return ids_.emplace(key, static_cast<int>(ids_.size())).first->second; }

 private:
  std::map<std::string, int> ids_;
};

[[nodiscard]] std::vector<FitTask> gemm_tasks(const ComponentData& data);
[[nodiscard]] std::vector<FitTask> attention_tasks(const ComponentData& data);
[[nodiscard]] std::vector<FitTask> memory_tasks(const ComponentData& data);
[[nodiscard]] std::vector<FitTask> expert_layer_tasks(const ComponentData& data);
[[nodiscard]] std::vector<FitTask> collective_tasks(const ComponentData& data);
[[nodiscard]] std::vector<FitTask> dispatch_tasks(const ComponentData& data);

}  // namespace stepcast::validation
