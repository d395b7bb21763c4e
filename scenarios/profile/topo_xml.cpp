// NCCL's topology dump (NCCL_TOPO_DUMP_FILE).
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "scenarios/profile/topo.h"

namespace stepcast::scenarios {
namespace {

constexpr std::size_t most_ports = 1024;
constexpr int deepest = 64;
constexpr const char* switch_class = "0x068000";

// A GPU or NIC and the way to it: the CPU's place, then the PCI bridges' bus ids.
struct Port {
  BoxPort port;
  std::vector<std::string> path;
  std::vector<std::pair<std::string, int>> nvlinks;  // target bus id (or the switch class) and count
  std::string busid;
};

class Reader {
 public:
  Reader(Box& box, Errors& errors, const std::string& file) : box_(box), errors_(errors), file_(file) {}

  std::vector<Port> gpus, nics;

  void walk(const pugi::xml_node& node, std::vector<std::string> path, const std::string& numa, int depth) {
    if (depth > deepest) {
      fail("elements nest deeper than 64");
      return;
    }
    for (const pugi::xml_node& child : node.children()) {
      const std::string tag = child.name();
      if (tag == "cpu") {
        walk(child, {std::string("cpu ") + child.attribute("numaid").value()}, child.attribute("numaid").value(),
             depth + 1);
      } else if (tag == "pci") {
        auto below = path;
        below.emplace_back(child.attribute("busid").value());
        pci(child, below, numa, depth);
      } else if (tag == "nic") {
        nic(child, path, numa);
      } else if (tag == "gpu") {
        gpu(child, path, numa);
      }
    }
  }

 private:
  void fail(const std::string& what) {
    if (errors_.size() < 20) errors_.push_back(make_error(ErrorCode::invalid, what, file_));
  }

  void pci(const pugi::xml_node& node, const std::vector<std::string>& path, const std::string& numa, int depth) {
    const std::string kind = node.attribute("class").value();
    // Vendors' static files hold no <gpu> and <net>, only the class.
    if (kind.starts_with("0x0302") && !node.child("gpu")) gpu(node, path, numa);
    if ((kind.starts_with("0x0207") || kind.starts_with("0x0200")) && !node.child("nic")) {
      Port port;
      port.port.name = fmt::format("NIC{}", nics.size());
      port.port.numa = numa;
      port.path = path;
      nics.push_back(std::move(port));
    }
    walk(node, path, numa, depth + 1);
  }

  void gpu(const pugi::xml_node& node, const std::vector<std::string>& path, const std::string& numa) {
    Port port;
    port.port.name =
        fmt::format("GPU{}", node.attribute("dev") ? node.attribute("dev").as_int(-1) : static_cast<int>(gpus.size()));
    port.port.numa = numa;
    port.path = path;
    port.busid = path.empty() ? "" : path.back();
    const int sm = node.attribute("sm").as_int(0);
    if (sm > 0) box_.compute_capability = sm;
    for (const pugi::xml_node& link : node.children("nvlink")) {
      const int count = link.attribute("count").as_int(-1);
      if (count < 1 || count > 256) {
        fail(fmt::format("{}: an nvlink has count '{}'; 1 to 256 is allowed", port.port.name,
                         link.attribute("count").value()));
        continue;
      }
      const std::string kind = link.attribute("tclass").value();
      port.nvlinks.emplace_back(kind == switch_class ? kind : link.attribute("target").value(), count);
    }
    for (const Port& other : gpus) {
      if (other.port.name == port.port.name) fail(port.port.name + " is there twice");
    }
    gpus.push_back(std::move(port));
  }

  void nic(const pugi::xml_node& node, const std::vector<std::string>& path, const std::string& numa) {
    for (const pugi::xml_node& net : node.children("net")) {
      Port port;
      port.port.name = net.attribute("name") ? net.attribute("name").value() : fmt::format("NIC{}", nics.size());
      port.port.numa = numa;
      const double mbit = net.attribute("speed").as_double(-1);
      if (net.attribute("speed") && (!(mbit > 0) || mbit > 1e8)) {
        fail(fmt::format("{}: speed '{}'; Mbit/s above 0 are needed", port.port.name, net.attribute("speed").value()));
      }
      port.port.gb_per_s = mbit > 0 ? mbit / 8000 : 0;
      port.path = path;
      nics.push_back(std::move(port));
    }
  }

  Box& box_;
  Errors& errors_;
  const std::string& file_;
};

// By the bridges that two ports share: none, another CPU; only the CPU; a bridge far up; the last one.
Distance distance(const Port& a, const Port& b) {
  std::size_t common = 0;
  while (common < a.path.size() && common < b.path.size() && a.path[common] == b.path[common]) ++common;
  if (common == 0) return Distance::sys;
  if (common == 1) return Distance::phb;
  return common + 1 >= std::min(a.path.size(), b.path.size()) ? Distance::pix : Distance::pxb;
}

int links_between(const Port& a, const Port& b) {
  int direct = 0, to_switch = 0, from_switch = 0;
  for (const auto& [target, count] : a.nvlinks) {
    if (target == switch_class) to_switch += count;
    if (!target.empty() && target == b.busid) direct += count;
  }
  for (const auto& [target, count] : b.nvlinks) {
    if (target == switch_class) from_switch += count;
  }
  return direct + std::min(to_switch, from_switch);
}

}  // namespace

Result<Box> parse_topo_xml(const std::string& text, const std::string& file) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    const auto line =
        1 + std::count(text.begin(),
                       text.begin() + std::min<std::ptrdiff_t>(parsed.offset, static_cast<std::ptrdiff_t>(text.size())),
                       '\n');
    return make_error(ErrorCode::unreadable, fmt::format("no valid XML: {}", parsed.description()),
                      fmt::format("{}:{}", file, line));
  }
  if (document.child("graphs")) {
    return make_error(ErrorCode::unsupported,
                      "a graph dump (NCCL_GRAPH_DUMP_FILE); the topology dump (NCCL_TOPO_DUMP_FILE) is needed", file);
  }
  const pugi::xml_node system = document.child("system");
  if (!system) {
    return make_error(ErrorCode::unreadable,
                      fmt::format("the root is <{}>; <system> is needed", document.first_child().name()), file);
  }
  Box box;
  box.source = "NCCL topology XML";
  Errors errors;
  Reader reader(box, errors, file);
  reader.walk(system, {}, "", 0);
  if (errors.empty() && reader.gpus.empty()) {
    errors.push_back(make_error(ErrorCode::invalid, "no GPU (pci of class 0x0302.. or <gpu>)", file));
  }
  if (reader.gpus.size() > most_ports || reader.nics.size() > most_ports) {
    errors.push_back(make_error(ErrorCode::invalid, fmt::format("more than {} devices", most_ports), file));
  }
  if (!errors.empty()) return errors;
  std::stable_sort(reader.gpus.begin(), reader.gpus.end(), [](const Port& a, const Port& b) {
    return a.port.name.size() != b.port.name.size() ? a.port.name.size() < b.port.name.size()
                                                    : a.port.name < b.port.name;
  });
  for (const Port& gpu : reader.gpus) {
    box.gpus.push_back(gpu.port);
    auto& to_gpu = box.gpu_to_gpu.emplace_back();
    auto& to_nic = box.gpu_to_nic.emplace_back();
    for (const Port& other : reader.gpus) {
      to_gpu.push_back(&other == &gpu ? BoxLink{0, Distance::self}
                                      : BoxLink{links_between(gpu, other), distance(gpu, other)});
    }
    for (const Port& nic : reader.nics) to_nic.push_back({0, distance(gpu, nic)});
  }
  for (const Port& nic : reader.nics) box.nics.push_back(nic.port);
  settle_box(box);
  return box;
}

}  // namespace stepcast::scenarios
