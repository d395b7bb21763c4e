// --report FILE.html: the result as a page, beside what goes to standard output.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <boost/program_options/options_description.hpp>

#include "cli/command.h"
#include "cli/output_file.h"
#include "sim/base/error.h"

namespace stepcast::cli {

void add_report_option(boost::program_options::options_description& options);

class ReportFile {
 public:
  // Checks the file before anything is computed. Errors: unwritable, the same file as --output.
  [[nodiscard]] static Result<ReportFile> open(const Invocation& invocation);

  [[nodiscard]] bool wanted() const { return file_.has_value(); }
  // Makes the page and writes it, complete or not at all; nothing when it is not wanted.
  [[nodiscard]] Status write(const std::function<Result<std::string>()>& make_page) const;

 private:
  std::optional<OutputFile> file_;
};

}  // namespace stepcast::cli
