#include "cli/report_file.h"

#include <filesystem>

#include <boost/program_options/value_semantic.hpp>

namespace stepcast::cli {
namespace fs = std::filesystem;

void add_report_option(boost::program_options::options_description& options) {
  options.add_options()("report", boost::program_options::value<std::string>()->value_name("FILE.html"),
                        "write the result as one HTML page too: charts, tables, assumptions");
}

Result<ReportFile> ReportFile::open(const Invocation& invocation) {
  ReportFile report;
  if (!invocation.arguments.has("report")) return report;
  const fs::path name = invocation.arguments.text("report");
  auto file = OutputFile::open(name);
  if (!file) return file.errors();
  report.file_ = std::move(*file);
  return report;
}

Status ReportFile::write(const std::function<Result<std::string>()>& make_page) const {
  if (!file_) return Unit{};
  const auto page = make_page();
  if (!page) return page.errors();
  return file_->write(*page);
}

}  // namespace stepcast::cli
