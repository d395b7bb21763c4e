// What every page must be: without faults, and with the result's own JSON in it.
#pragma once

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/html/check.h"

namespace stepcast::html_tests {

// A name that ends scripts, opens tags, is no UTF-8 and leads out of the file.
inline const std::string hostile = "</script><b>\"'&<img src=x onerror=alert(1)>\xff\x01 http://example.org";

// As it can be written: JSON has no bytes that are no UTF-8.
inline nlohmann::ordered_json written(const nlohmann::ordered_json& json) {
  using Json = nlohmann::ordered_json;
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

inline void check_page(const std::string& page, const nlohmann::ordered_json& result) {
  const auto faults = faults_of(page);
  CAPTURE(faults);
  CHECK(faults.empty());
  CHECK(nlohmann::ordered_json::parse(data_of(page))["result"] == written(result));
}

}  // namespace stepcast::html_tests
