#include "scenarios/profile/topo.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/report/text_table.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_file = std::size_t{16} << 20;
// One link per direction: NVLink 2 to 4 (V100, A100, H100) 25 GB/s, NVLink 5 (Blackwell) 50 GB/s.
constexpr double link_gb_per_s = 25, blackwell_link_gb_per_s = 50;
constexpr int blackwell = 100;  // compute capability

template <class Key>
Key most_common(const std::map<Key, int>& counts, Key otherwise) {
  int best = 0;
  for (const auto& [key, n] : counts) {
    if (n >= best) {
      best = n;
      otherwise = key;
    }
  }
  return otherwise;
}

std::string shown_link(const BoxLink& link) {
  return link.nvlinks > 0 ? fmt::format("NV{}", link.nvlinks) : std::string(name(link.distance));
}

// GPUs that reach each other over NVLink, largest such set.
int largest_domain(const Box& box) {
  const std::size_t n = box.gpus.size();
  std::vector<bool> seen(n, false);
  int largest = 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (seen[i]) continue;
    std::vector<std::size_t> stack = {i};
    seen[i] = true;
    int size = 0;
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      ++size;
      for (std::size_t j = 0; j < n; ++j) {
        if (seen[j] || (box.gpu_to_gpu[at][j].nvlinks == 0 && box.gpu_to_gpu[j][at].nvlinks == 0)) continue;
        seen[j] = true;
        stack.push_back(j);
      }
    }
    largest = std::max(largest, size);
  }
  return largest;
}

void compare_gpu_links(Box& box) {
  std::map<std::string, int> counts;
  for (std::size_t i = 0; i < box.gpus.size(); ++i) {
    for (std::size_t j = 0; j < box.gpus.size(); ++j) {
      if (i != j) ++counts[shown_link(box.gpu_to_gpu[i][j])];
    }
  }
  const bool nvlink = box.nvlinks_per_gpu > 0;
  const std::string usual = nvlink ? fmt::format("NV{}", box.nvlinks_per_gpu) : "";
  for (std::size_t i = 0; i < box.gpus.size(); ++i) {
    for (std::size_t j = i + 1; j < box.gpus.size(); ++j) {
      const std::string there = shown_link(box.gpu_to_gpu[i][j]), back = shown_link(box.gpu_to_gpu[j][i]);
      if (there != back) {
        box.asymmetries.push_back(
            fmt::format("{} to {} is {}, back {}", box.gpus[i].name, box.gpus[j].name, there, back));
      } else if (nvlink && there != usual) {
        box.asymmetries.push_back(fmt::format("{} to {} is {} where other pairs have {}: an NVLink is missing",
                                              box.gpus[i].name, box.gpus[j].name, there, usual));
      }
    }
  }
}

void compare_nics(Box& box) {
  if (box.nics.empty() || box.gpus.empty()) return;
  std::map<Distance, int> counts;
  std::vector<Distance> nearest;
  for (std::size_t i = 0; i < box.gpus.size(); ++i) {
    Distance best = Distance::unknown;
    for (std::size_t j = 0; j < box.nics.size(); ++j) best = std::min(best, box.gpu_to_nic[i][j].distance);
    nearest.push_back(best);
    ++counts[best];
  }
  const Distance usual = most_common(counts, Distance::unknown);
  for (std::size_t i = 0; i < box.gpus.size(); ++i) {
    if (nearest[i] == usual) continue;
    box.asymmetries.push_back(fmt::format("{} has its nearest NIC at {}, other GPUs at {}{}", box.gpus[i].name,
                                          name(nearest[i]), name(usual),
                                          nearest[i] == Distance::sys ? ": on another socket" : ""));
  }
  if (usual == Distance::sys) {
    box.warnings.push_back("most GPUs have their nearest NIC on another socket (SYS)");
  }
  std::map<double, int> rates;
  for (const BoxPort& nic : box.nics) {
    if (nic.gb_per_s > 0) ++rates[nic.gb_per_s];
  }
  box.nic_gb_per_s = most_common(rates, 0.0);
  for (const BoxPort& nic : box.nics) {
    if (nic.gb_per_s > 0 && nic.gb_per_s != box.nic_gb_per_s) {
      box.asymmetries.push_back(
          fmt::format("{} runs at {:g} GB/s, others at {:g}", nic.name, nic.gb_per_s, box.nic_gb_per_s));
    }
  }
}

void compare_sockets(Box& box) {
  std::map<std::string, int> by_numa;
  for (const BoxPort& gpu : box.gpus) {
    if (!gpu.numa.empty() && gpu.numa != "N/A") ++by_numa[gpu.numa];
  }
  std::set<int> sizes;
  std::vector<std::string> shown;
  for (const auto& [numa, n] : by_numa) {
    sizes.insert(n);
    shown.push_back(fmt::format("{} on {}", n, numa));
  }
  if (sizes.size() > 1) {
    box.asymmetries.push_back(fmt::format("GPUs are spread unevenly over NUMA nodes: {}", fmt::join(shown, ", ")));
  }
}

}  // namespace

std::string_view name(Distance distance) {
  static constexpr std::string_view names[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "unknown"};
  return names[static_cast<std::size_t>(distance)];
}

void settle_box(Box& box) {
  std::map<int, int> counts;
  for (std::size_t i = 0; i < box.gpus.size(); ++i) {
    for (std::size_t j = 0; j < box.gpus.size(); ++j) {
      if (i != j && box.gpu_to_gpu[i][j].nvlinks > 0) ++counts[box.gpu_to_gpu[i][j].nvlinks];
    }
  }
  box.nvlinks_per_gpu = most_common(counts, 0);
  box.nvlink_domain = largest_domain(box);
  const double rate = box.compute_capability >= blackwell ? blackwell_link_gb_per_s : link_gb_per_s;
  box.nvlink_gb_per_s = box.nvlinks_per_gpu * rate;
  if (box.nvlinks_per_gpu > 0) {
    box.assumptions.push_back(fmt::format("a link carries {:g} GB/s per direction{}", rate,
                                          box.compute_capability > 0 ? "" : " (NVLink 2 to 4; NVLink 5 carries 50)"));
  }
  compare_gpu_links(box);
  compare_nics(box);
  compare_sockets(box);
}

Result<Box> import_topo(const std::filesystem::path& file) {
  const auto text = read_text_file(file, longest_file);
  if (!text) return text.errors();
  const auto first = text->find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string::npos) return make_error(ErrorCode::unreadable, "is empty", file.string());
  return (*text)[first] == '<' ? parse_topo_xml(*text, file.string()) : parse_topo_matrix(*text, file.string());
}

Json to_json(const Box& box) {
  Json json;
  json["schema"] = box_schema;
  json["source"] = box.source;
  Json& cluster = json["cluster"];  // members of a scenario's cluster block
  cluster["devices_per_node"] = box.gpus.size();
  cluster["nvlink_domain"] = box.nvlink_domain;
  if (!box.nics.empty()) cluster["rails"] = std::min(box.nics.size(), box.gpus.size());
  if (box.nvlink_gb_per_s > 0) cluster["nvlink_gb_per_s"] = box.nvlink_gb_per_s;
  if (box.nic_gb_per_s > 0 && !box.gpus.empty()) {
    double all = 0;
    for (const BoxPort& nic : box.nics) all += nic.gb_per_s;
    cluster["nic_gb_per_s"] = all / static_cast<double>(box.gpus.size());
  }
  if (box.compute_capability > 0) json["compute_capability"] = box.compute_capability;
  const auto ports = [](const std::vector<BoxPort>& list) {
    Json out = Json::array();
    for (const BoxPort& port : list) {
      Json one = {{"name", port.name}};
      if (!port.numa.empty()) one["numa"] = port.numa;
      if (port.gb_per_s > 0) one["gb_per_s"] = port.gb_per_s;
      out.push_back(std::move(one));
    }
    return out;
  };
  const auto matrix = [](const std::vector<std::vector<BoxLink>>& links) {
    Json out = Json::array();
    for (const auto& row : links) {
      Json cells = Json::array();
      for (const BoxLink& link : row) cells.push_back(shown_link(link));
      out.push_back(std::move(cells));
    }
    return out;
  };
  json["gpus"] = ports(box.gpus);
  json["nics"] = ports(box.nics);
  json["gpu_to_gpu"] = matrix(box.gpu_to_gpu);
  json["gpu_to_nic"] = matrix(box.gpu_to_nic);
  json["asymmetries"] = box.asymmetries;
  json["assumptions"] = box.assumptions;
  json["warnings"] = box.warnings;
  return json;
}

std::string to_table(const Box& box, bool colour) {
  std::string text =
      bold(fmt::format("{} GPUs, {} NICs ({})", box.gpus.size(), box.nics.size(), box.source), colour) + "\n";
  text += fmt::format("  NVLink domain of {}, {} links a GPU, {:g} GB/s per direction\n", box.nvlink_domain,
                      box.nvlinks_per_gpu, box.nvlink_gb_per_s);
  if (box.nic_gb_per_s > 0) text += fmt::format("  NICs at {:g} GB/s per direction\n", box.nic_gb_per_s);
  const auto section = [&](const char* title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += "\n" + bold(title, colour) + "\n";
    for (const std::string& line : lines) text += "  - " + wrapped(line, 4) + "\n";
  };
  section("Asymmetries", box.asymmetries);
  section("Warnings", box.warnings);
  section("Assumptions", box.assumptions);
  return text;
}

std::string to_csv(const Box& box) {
  std::string text = csv_line({"from", "to", "link"});
  for (std::size_t i = 0; i < box.gpus.size(); ++i) {
    for (std::size_t j = 0; j < box.gpus.size(); ++j) {
      if (i != j) text += csv_line({box.gpus[i].name, box.gpus[j].name, shown_link(box.gpu_to_gpu[i][j])});
    }
    for (std::size_t j = 0; j < box.nics.size(); ++j) {
      text += csv_line({box.gpus[i].name, box.nics[j].name, shown_link(box.gpu_to_nic[i][j])});
    }
  }
  return text;
}

}  // namespace stepcast::scenarios
