// One result, three formats: only the one that was asked for is made.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace stepcast::cli {

// File names may hold bytes that are no UTF-8: they are replaced, since JSON cannot hold them.
[[nodiscard]] inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

template <class MakeJson, class MakeTable, class MakeCsv>
[[nodiscard]] std::string render(const Globals& globals, const MakeJson& json, const MakeTable& table,
                                 const MakeCsv& csv) {
  switch (globals.format) {
    case Format::json:
      return json_text(json());
    case Format::csv:
      return csv();
    case Format::table:
      break;
  }
  return table();
}

}  // namespace stepcast::cli
