// One result, three formats: only the one that was asked for is made.
#pragma once

#include <string>

#include "cli/command.h"

namespace stepcast::cli {

template <class MakeJson, class MakeTable, class MakeCsv>
[[nodiscard]] std::string render(const Globals& globals, const MakeJson& json, const MakeTable& table,
                                 const MakeCsv& csv) {
  switch (globals.format) {
    case Format::json:
      return json().dump(2) + "\n";
    case Format::csv:
      return csv();
    case Format::table:
      break;
  }
  return table();
}

}  // namespace stepcast::cli
