// What the tests of models/ share.
#pragma once

#include <string>

#include <catch2/catch.hpp>

#include "models/catalog.h"
#include "models/ledger.h"

namespace stepcast::models {

inline std::string all_messages(const Errors& errors) {
  std::string text;
  for (const Error& e : errors) text += e.where + ": " + e.message + "\n";
  return text;
}

inline Model catalog_model(const std::string& name) {
  auto model = load_model(STEPCAST_SOURCE_DIR, name);
  INFO(name << " " << (model ? "" : all_messages(model.errors())));
  REQUIRE(model.ok());
  return *model;
}

inline double gflop_per_token(const Model& model, int sequence, Convention convention, bool mtp = true) {
  FlopOptions options;
  options.convention = convention;
  options.count_mtp = mtp;
  return flops_per_token(model, sequence, options) / 1e9;
}

}  // namespace stepcast::models
