// The matrix that `nvidia-smi topo -m` prints.
#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "scenarios/profile/topo.h"

namespace stepcast::scenarios {
namespace {

constexpr std::size_t most_ports = 1024;

// Without terminal codes ("\x1b[4m") and carriage returns.
std::string plain(const std::string& line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && std::isalpha(static_cast<unsigned char>(line[i])) == 0) ++i;
      continue;
    }
    if (line[i] != '\r') out += line[i];
  }
  return out;
}

// Cells between tabs, or between spaces where there are no tabs; empty ones are dropped.
std::vector<std::string> cells(const std::string& line) {
  const char* const separators = line.find('\t') == std::string::npos ? " " : "\t";
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t end = std::min(line.find_first_of(separators, at), line.size());
    std::string cell = line.substr(at, end - at);
    const auto first = cell.find_first_not_of(' ');
    if (first != std::string::npos) out.push_back(cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    at = end + 1;
  }
  return out;
}

bool is_gpu(const std::string& label) {
  return label.size() > 3 && label.starts_with("GPU") && std::isdigit(static_cast<unsigned char>(label[3])) != 0;
}

bool is_port(const std::string& label) {
  if (is_gpu(label)) return true;
  for (const char* prefix : {"NIC", "mlx", "bnxt", "hfi", "ib", "irdma", "efa", "rdma", "roce"}) {
    if (label.starts_with(prefix) && std::isdigit(static_cast<unsigned char>(label.back())) != 0) return true;
  }
  return false;
}

std::optional<BoxLink> link_of(const std::string& cell) {
  for (const Distance d :
       {Distance::self, Distance::pix, Distance::pxb, Distance::phb, Distance::node, Distance::sys}) {
    if (cell == name(d)) return BoxLink{0, d};
  }
  if (cell == "SOC") return BoxLink{0, Distance::sys};  // older drivers
  if (cell.size() > 2 && cell.size() < 6 && cell.starts_with("NV") &&
      std::all_of(cell.begin() + 2, cell.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    const int links = std::stoi(cell.substr(2));
    if (links >= 1 && links <= 256) return BoxLink{links, Distance::pix};
  }
  return {};
}

struct Matrix {
  std::vector<std::string> columns;  // GPUs and NICs in the order of the header
  bool numa = false;
  std::map<std::string, std::vector<BoxLink>> rows;
  std::map<std::string, std::string> numa_of;
};

bool read_header(const std::vector<std::string>& words, Matrix& matrix) {
  if (words.empty() || !is_gpu(words.front())) return false;
  if (words.size() > 1 && link_of(words[1])) return false;  // a row
  for (const std::string& word : words) {
    if (!is_port(word)) break;
    matrix.columns.push_back(word);
  }
  matrix.numa = std::any_of(words.begin(), words.end(), [](const std::string& w) { return w.starts_with("NUMA"); });
  return true;
}

Status read_row(const std::vector<std::string>& words, const std::string& where, Matrix& matrix) {
  const std::string& label = words.front();
  if (matrix.rows.contains(label)) return make_error(ErrorCode::invalid, label + " has a second row", where);
  std::vector<BoxLink> links;
  for (std::size_t i = 0; i < matrix.columns.size(); ++i) {
    if (i + 1 >= words.size()) {
      return make_error(ErrorCode::invalid,
                        fmt::format("the row of {} holds {} cells, {} are needed", label, i, matrix.columns.size()),
                        where);
    }
    const auto link = link_of(words[i + 1]);
    if (!link) {
      return make_error(ErrorCode::invalid,
                        fmt::format("found '{}' in the row of {}; a cell is X, NVn, PIX, PXB, PHB, NODE or SYS",
                                    words[i + 1].substr(0, 40), label),
                        where);
    }
    links.push_back(*link);
  }
  // Behind the cells: CPU affinity, NUMA affinity, the GPU's own NUMA node.
  const std::size_t numa = matrix.columns.size() + 2;
  if (matrix.numa && words.size() > numa) matrix.numa_of[label] = words[numa];
  matrix.rows[label] = std::move(links);
  return Unit{};
}

void fill(const Matrix& matrix, Box& box) {
  for (const std::string& column : matrix.columns) {
    BoxPort port;
    port.name = column;
    if (const auto numa = matrix.numa_of.find(column); numa != matrix.numa_of.end()) port.numa = numa->second;
    (is_gpu(column) ? box.gpus : box.nics).push_back(port);
  }
  for (const std::string& from : matrix.columns) {
    if (!is_gpu(from)) continue;
    auto& to_gpu = box.gpu_to_gpu.emplace_back();
    auto& to_nic = box.gpu_to_nic.emplace_back();
    const auto row = matrix.rows.find(from);
    for (std::size_t i = 0; i < matrix.columns.size(); ++i) {
      const BoxLink link = row == matrix.rows.end() ? BoxLink{} : row->second[i];
      (is_gpu(matrix.columns[i]) ? to_gpu : to_nic).push_back(link);
    }
    if (row == matrix.rows.end()) box.warnings.push_back(from + " has no row: the text is cut");
  }
}

}  // namespace

Result<Box> parse_topo_matrix(const std::string& text, const std::string& file) {
  Matrix matrix;
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto words = cells(plain(line));
    if (words.empty()) continue;
    if (matrix.columns.empty()) {
      read_header(words, matrix);
      if (matrix.columns.size() > most_ports) {
        return make_error(ErrorCode::invalid, fmt::format("more than {} devices", most_ports), file);
      }
      continue;
    }
    if (!is_port(words.front())) continue;  // the legend
    if (std::find(matrix.columns.begin(), matrix.columns.end(), words.front()) == matrix.columns.end()) {
      return make_error(ErrorCode::invalid, fmt::format("{} is no column of the header", words.front()),
                        fmt::format("{}:{}", file, number));
    }
    if (words.size() > 1 && words[1] == ":") continue;
    if (auto status = read_row(words, fmt::format("{}:{}", file, number), matrix); !status) return status.errors();
  }
  if (matrix.columns.empty()) {
    return make_error(ErrorCode::unreadable,
                      "no header line with GPU0: neither the matrix of nvidia-smi topo -m nor NCCL topology XML", file);
  }
  if (matrix.rows.empty()) return make_error(ErrorCode::unreadable, "a header and no rows: the text is cut", file);
  for (std::size_t i = 0; i < matrix.columns.size(); ++i) {
    if (std::count(matrix.columns.begin(), matrix.columns.end(), matrix.columns[i]) > 1) {
      return make_error(ErrorCode::invalid, matrix.columns[i] + " stands twice in the header", file);
    }
    const auto row = matrix.rows.find(matrix.columns[i]);
    if (row != matrix.rows.end() && row->second[i].distance != Distance::self) {
      return make_error(ErrorCode::invalid,
                        fmt::format("{} to itself is not X: columns and rows do not fit", matrix.columns[i]), file);
    }
  }
  Box box;
  box.source = "nvidia-smi topo -m";
  fill(matrix, box);
  settle_box(box);
  return box;
}

}  // namespace stepcast::scenarios
