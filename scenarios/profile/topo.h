// One host's topology as measured: what `nvidia-smi topo -m` prints or NCCL dumps as XML.
//
// Only one host is described; the network between hosts must come from the
// user. What is not as its peers are (a dead NVLink, a NIC on another socket)
// is listed, never averaged away.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"

namespace stepcast::scenarios {

// From near to far. NVLink counts apart.
enum class Distance : unsigned char { self, pix, pxb, phb, node, sys, unknown };
[[nodiscard]] std::string_view name(Distance distance);

struct BoxLink {
  int nvlinks = 0;  // bonded links between two GPUs, or of a GPU to switches
  Distance distance = Distance::unknown;
};

struct BoxPort {
  std::string name;     // "GPU0", "NIC3", "mlx5_2"
  std::string numa;     // as told; empty: not
  double gb_per_s = 0;  // of a NIC, per direction; 0: not told
};

struct Box {
  std::string source;  // "nvidia-smi topo -m" or "NCCL topology XML"
  std::vector<BoxPort> gpus, nics;
  std::vector<std::vector<BoxLink>> gpu_to_gpu, gpu_to_nic;
  int nvlinks_per_gpu = 0;     // the most common count
  int nvlink_domain = 1;       // GPUs that reach each other over NVLink
  double nvlink_gb_per_s = 0;  // per direction and GPU
  double nic_gb_per_s = 0;     // the most common rate; 0: not told
  int compute_capability = 0;  // "sm" of the XML: 90
  std::vector<std::string> asymmetries, assumptions, warnings;
};

// Errors: neither format, no GPU, cells that are no distance; each with its line.
[[nodiscard]] Result<Box> import_topo(const std::filesystem::path& file);
[[nodiscard]] Result<Box> parse_topo_matrix(const std::string& text, const std::string& file);
[[nodiscard]] Result<Box> parse_topo_xml(const std::string& text, const std::string& file);

inline constexpr const char* box_schema = "stepcast.box/1";
[[nodiscard]] nlohmann::ordered_json to_json(const Box& box);
[[nodiscard]] std::string to_table(const Box& box, bool colour);
[[nodiscard]] std::string to_csv(const Box& box);

// Counts, domain and asymmetries from the links. Internal to the two parsers.
void settle_box(Box& box);

}  // namespace stepcast::scenarios
