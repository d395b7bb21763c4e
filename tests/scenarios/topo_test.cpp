// Topologies of hosts: whole, asymmetric, odd and damaged.
#include "scenarios/profile/topo.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

// Eight GPUs behind NVSwitch and eight NICs, as an HGX board prints them.
std::string matrix(const std::string& dead_pair = "NV18") {
  std::string text = "\t\x1b[4mGPU0";
  for (int i = 1; i < 8; ++i) text += fmt::format("\tGPU{}", i);
  for (int i = 0; i < 8; ++i) text += fmt::format("\tNIC{}", i);
  text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n";
  for (int i = 0; i < 8; ++i) {
    text += fmt::format("GPU{}", i);
    for (int j = 0; j < 8; ++j) {
      const bool dead = (i == 2 && j == 5) || (i == 5 && j == 2);
      text += i == j ? "\t X " : dead ? "\t" + dead_pair : "\tNV18";
    }
    for (int j = 0; j < 8; ++j) text += i == j ? "\tPIX" : i / 4 == j / 4 ? "\tNODE" : "\tSYS";
    text += fmt::format("\t0-47\t{}\t\tN/A\n", i / 4);
  }
  for (int i = 0; i < 8; ++i) {
    text += fmt::format("NIC{}", i);
    for (int j = 0; j < 8; ++j) text += i == j ? "\tPIX" : i / 4 == j / 4 ? "\tNODE" : "\tSYS";
    for (int j = 0; j < 8; ++j) text += i == j ? "\t X " : i / 4 == j / 4 ? "\tNODE" : "\tSYS";
    text += "\t\t\t\n";
  }
  return text + "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n";
}

std::string gpu_xml(int i, const std::string& links, const char* numa = "0") {
  return fmt::format(
      R"(<cpu numaid="{}"><pci busid="0000:{:02x}:00.0" class="0x060400"><pci busid="0000:{:02x}:00.1" class="0x030200">)"
      R"(<gpu dev="{}" sm="90" rank="{}" gdr="1">{}</gpu></pci><pci busid="0000:{:02x}:00.2" class="0x020700">)"
      R"(<nic><net name="mlx5_{}" dev="{}" speed="400000" port="1" guid="0x1" maxconn="1" gdr="1"/></nic></pci></pci></cpu>)",
      numa, 16 * i, 16 * i, i, i, links, 16 * i, i, i);
}

std::string xml(const std::string& inside) { return "<system version=\"1\">" + inside + "</system>"; }

Result<Box> read(const std::string& text) { return import_topo(write_file("topo.txt", text)); }

bool says(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

const std::string to_switch = R"(<nvlink target="0000:c0:00.0" count="18" tclass="0x068000"/>)";

}  // namespace

TEST_CASE("topo: a whole matrix has no asymmetry") {
  const auto box = read(matrix());
  INFO((box ? std::string() : shown(box.errors())));
  REQUIRE(box.ok());
  CHECK(box->gpus.size() == 8);
  CHECK(box->nics.size() == 8);
  CHECK(box->nvlinks_per_gpu == 18);
  CHECK(box->nvlink_domain == 8);
  CHECK(box->nvlink_gb_per_s == 450);
  CHECK(box->gpus[5].numa == "1");
  INFO((box->asymmetries.empty() ? "" : box->asymmetries.front()));
  CHECK(box->asymmetries.empty());
  CHECK(to_json(*box)["cluster"]["nvlink_domain"] == 8);
}

TEST_CASE("topo: asymmetries are told") {
  const auto dead = read(matrix("NODE"));
  REQUIRE(dead.ok());
  CHECK(says(dead->asymmetries, "GPU2 to GPU5 is NODE where other pairs have NV18"));

  std::string far = matrix();  // GPU0's own NIC is gone from its row
  const auto at = far.find("\tPIX");
  far.replace(at, 4, "\tSYS");
  const auto nic = read(far);
  REQUIRE(nic.ok());
  CHECK(says(nic->asymmetries, "GPU0 has its nearest NIC at NODE, other GPUs at PIX"));

  const auto one_way = read("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\nGPU1\tPHB\t X \t0-3\n");
  REQUIRE(one_way.ok());
  CHECK(says(one_way->asymmetries, "GPU0 to GPU1 is NV4, back PHB"));

  const auto lost = read(xml(gpu_xml(0, to_switch) + gpu_xml(1, to_switch) + gpu_xml(2, to_switch) +
                             gpu_xml(3, R"(<nvlink target="0000:c0:00.0" count="12" tclass="0x068000"/>)")));
  REQUIRE(lost.ok());
  CHECK(says(lost->asymmetries, "GPU0 to GPU3 is NV12 where other pairs have NV18"));
}

TEST_CASE("topo: NCCL's XML") {
  const auto box = read("<?xml version=\"1.0\"?>\n" + xml(gpu_xml(0, to_switch) + gpu_xml(1, to_switch) +
                                                          gpu_xml(2, to_switch, "1") + gpu_xml(3, to_switch, "1")));
  INFO((box ? std::string() : shown(box.errors())));
  REQUIRE(box.ok());
  CHECK(box->gpus.size() == 4);
  CHECK(box->nics.size() == 4);
  CHECK(box->nvlink_domain == 4);
  CHECK(box->nic_gb_per_s == 50);
  CHECK(box->compute_capability == 90);
  CHECK(box->gpu_to_nic[0][0].distance == Distance::pix);
  CHECK(box->gpu_to_nic[0][2].distance == Distance::sys);
  CHECK(box->asymmetries.empty());
  CHECK(to_json(*box)["cluster"]["nic_gb_per_s"] == 50);
  CHECK(read(xml(gpu_xml(0, to_switch, "0") + gpu_xml(1, R"(<nvlink target="x" count="2" tclass="0x0302"/>)"))).ok());
}

TEST_CASE("topo: odd and damaged descriptions give a clear error or a result with a warning") {
  const std::string header = "\tGPU0\tGPU1\tCPU Affinity\n";
  const std::string rows = "GPU0\t X \tNV4\t0-3\nGPU1\tNV4\t X \t0-3\n";
  struct Case {
    const char* name;
    std::string text, says;
    bool refused;
  };
  const std::vector<Case> cases = {
      {"empty", "", "is empty", true},
      {"white space", " \n\t\r\n", "is empty", true},
      {"prose", "no devices were found\n", "no header line with GPU0", true},
      {"binary", std::string("\x00\x01\x02\x03", 4), "", true},
      {"a header only", header, "a header and no rows", true},
      {"a cut row", header + "GPU0\t X \n", "holds 1 cells, 2 are needed", true},
      {"an unknown cell", header + "GPU0\t X \tWIFI\t0\n", "found 'WIFI'", true},
      {"a link count of 0", header + "GPU0\t X \tNV0\t0\n", "found 'NV0'", true},
      {"a huge link count", header + "GPU0\t X \tNV99999999\t0\n", "found 'NV99999999'", true},
      {"a row twice", header + rows + "GPU0\t X \tNV4\t0-3\n", "second row", true},
      {"a row of no column", header + rows + "GPU7\t X \tNV4\t0-3\n", "no column of the header", true},
      {"a column twice", "\tGPU0\tGPU0\tCPU Affinity\nGPU0\t X \t X \t0\n", "stands twice", true},
      {"shifted columns", header + "GPU0\tNV4\t X \t0-3\nGPU1\t X \tNV4\t0-3\n", "is not X", true},
      {"a missing row", header + "GPU0\t X \tNV4\t0-3\n", "GPU1 has no row", false},
      {"spaces for tabs", "      GPU0 GPU1 CPU Affinity\nGPU0   X   NV4  0-3\nGPU1  NV4   X   0-3\n", "", false},
      {"carriage returns", "\tGPU0\tGPU1\tCPU Affinity\r\nGPU0\t X \tNV4\t0-3\r\nGPU1\tNV4\t X \t0-3\r\n", "", false},
      {"lines before", "$ nvidia-smi topo -m\n" + header + rows, "", false},
      {"one GPU", "\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n", "", false},
      {"old NIC names", "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\t0-3\nmlx5_0\tSOC\t X \t\n",
       "another socket (SYS)", false},
      {"cut XML", xml(gpu_xml(0, to_switch)).substr(0, 100), "no valid XML", true},
      {"another root", "<html><body/></html>", "the root is <html>", true},
      {"a graph dump", "<graphs version=\"1\"><graph id=\"0\"/></graphs>", "NCCL_TOPO_DUMP_FILE", true},
      {"a system of nothing", "<system version=\"1\"></system>", "no GPU", true},
      {"no GPU", xml("<cpu numaid=\"0\"><pci class=\"0x020000\" busid=\"1\"/></cpu>"), "no GPU", true},
      {"a GPU twice", xml(gpu_xml(0, to_switch) + gpu_xml(0, to_switch)), "GPU0 is there twice", true},
      {"a link count of text", xml(gpu_xml(0, "<nvlink target=\"x\" count=\"many\" tclass=\"0x068000\"/>")),
       "1 to 256 is allowed", true},
      {"a negative speed",
       xml("<cpu numaid=\"0\"><pci class=\"0x030200\" busid=\"1\"/><nic><net name=\"a\" speed=\"-1\"/></nic></cpu>"),
       "Mbit/s above 0", true},
      {"nested too deep",
       xml("<cpu>" + std::string([] {
             std::string s;
             for (int i = 0; i < 80; ++i) s += "<pci>";
             for (int i = 0; i < 80; ++i) s += "</pci>";
             return s;
           }()) +
           "</cpu>"),
       "deeper than 64", true},
      {"static vendor file",
       xml("<cpu numaid=\"0\"><pci busid=\"a\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\"/>"
           "<pci busid=\"b\" class=\"0x020700\" link_speed=\"8 GT/s\"/></cpu>"),
       "", false},
      {"no classes and names", xml("<cpu><pci><gpu/></pci><nic><net/></nic></cpu>"), "", false},
  };
  CHECK(cases.size() >= 25);
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto box = read(c.text);
    if (c.refused) {
      REQUIRE_FALSE(box.ok());
      INFO(shown(box.errors()));
      CHECK(shown(box.errors()).find(c.says) != std::string::npos);
      CHECK(box.errors().front().where.find("topo.txt") != std::string::npos);
    } else {
      INFO((box ? std::string() : shown(box.errors())));
      REQUIRE(box.ok());
      if (*c.says.c_str() != 0) CHECK(says(box->warnings, c.says));
      CHECK(box->gpus.size() >= 1);
      CHECK_FALSE(to_table(*box, false).empty());
    }
  }
}

}  // namespace stepcast::scenarios
