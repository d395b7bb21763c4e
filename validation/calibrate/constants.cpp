#include "validation/calibrate/constants.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "sim/base/json_fields.h"
#include "sim/base/json_reader.h"
#include "validation/calibrate/constant_names.h"

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;

// Lists that name something: an empty one would stand for all, or for nothing.
void refuse_empty_lists(JsonFields& fields) {
  for (const char* key : {"keys", "device", "software"}) {
    const Json* list = fields.find(key);
    if (list != nullptr && list->is_array() && list->empty())
      fields.fail(key, fmt::format("the list is empty: name at least one{}",
                                   key == std::string_view("keys") ? " key" : ", or leave it out for all"));
  }
}

CalibrationConstant read_one(const JsonDocument& document, const Json& element, const std::string& pointer,
                             const ConstantNames& names, Errors& errors) {
  CalibrationConstant c;
  JsonFields fields(document, element, pointer, errors);
  if (auto text = fields.required_text("name")) c.name = std::move(*text);
  if (auto text = fields.required_text("meaning")) c.meaning = std::move(*text);
  if (auto text = fields.required_text("source")) c.source = std::move(*text);
  fields.read("measurement", c.measurement);
  if (const auto form = fields.choice("form", {"factor", "share"})) {
    c.form = static_cast<CalibrationConstant::Form>(*form);
  }
  const bool share = c.form == CalibrationConstant::Form::share;
  if (share) {
    c.lower = 0.01;
    c.upper = 0.99;
    fields.require("prior");
  }
  fields.read("lower", c.lower, share ? 0.001 : 1e-3, share ? 0.999 : 1e3);
  fields.read("upper", c.upper, share ? 0.001 : 1e-3, share ? 0.999 : 1e3);
  fields.read("prior", c.prior, 1e-3, 1e3);
  if (const auto sigma = fields.required_number("sigma", 1e-3, 10)) c.sigma = *sigma;
  if (c.prior < c.lower || c.prior > c.upper) {
    fields.fail("prior", fmt::format("the prior {} is outside its bounds {} to {}", c.prior, c.lower, c.upper));
  }
  // The rest is an adjustment without its number.
  Json target = Json::object({{"name", c.name}, {"times", 1}});
  for (const char* key : {"keys", "device", "software", "kind", "at_least", "at_most"}) {
    if (const Json* member = fields.find(key)) target[key] = *member;
  }
  const Json list = Json::object({{"adjust", Json::array({target})}});
  Errors inner;
  JsonFields adjust(document, list, pointer, inner);
  auto read = scenarios::read_adjustments(adjust);
  for (Error& e : inner) {
    e.where = document.where(pointer);
    errors.push_back(std::move(e));
  }
  if (!read.empty()) c.target = std::move(read.front());
  c.target.times.reset();
  refuse_empty_lists(fields);
  fields.refuse_unknown();
  if (!inner.empty()) return c;
  for (UnknownName& unknown : unknown_names(names, c.target))
    errors.push_back(
        make_error(ErrorCode::invalid, std::move(unknown.message), document.where(pointer + unknown.member)));
  return c;
}

}  // namespace

double CalibrationConstant::to_internal(double value) const {
  return form == Form::factor ? std::log(value) : std::log(value / (1 - value));
}

double CalibrationConstant::to_value(double internal) const {
  return form == Form::factor ? std::exp(internal) : 1 / (1 + std::exp(-internal));
}

scenarios::Adjustment CalibrationConstant::adjustment(double value) const {
  scenarios::Adjustment a = target;
  (form == Form::factor ? a.times : a.value) = value;
  return a;
}

Result<std::vector<CalibrationConstant>> read_constants(const std::filesystem::path& file,
                                                        const std::filesystem::path& catalog_root) {
  const auto document = read_json_file(file);
  if (!document) return document.errors();
  const auto known = constant_names(catalog_root);
  if (!known) return known.errors();
  Errors errors;
  JsonFields root(*document, document->root, "", errors);
  std::vector<CalibrationConstant> constants;
  root.require("constants");
  root.find("description");
  std::set<std::string> names;
  root.list("constants", [&](const Json& element, const std::string& pointer) {
    constants.push_back(read_one(*document, element, pointer, *known, errors));
    if (!names.insert(constants.back().name).second) {
      errors.push_back(make_error(ErrorCode::invalid, fmt::format("the name '{}' stands twice", constants.back().name),
                                  document->where(pointer)));
    }
  });
  root.refuse_unknown();
  if (errors.empty() && constants.empty()) {
    errors.push_back(make_error(ErrorCode::invalid, "the table holds no constant", document->where("/constants")));
  }
  if (!errors.empty()) return errors;
  return constants;
}

std::filesystem::path default_constants(const std::filesystem::path& catalog_root) {
  return catalog_root / "validation" / "calibrate" / "constants.json";
}

Json calibration_at(const std::vector<CalibrationConstant>& constants, std::span<const double> values) {
  Json adjust = Json::array();
  for (std::size_t i = 0; i < constants.size(); ++i) {
    // A factor of one changes nothing: left out, so that the scenario stays the plain one.
    if (constants[i].form == CalibrationConstant::Form::factor && values[i] == 1) continue;
    adjust.push_back(scenarios::to_json(constants[i].adjustment(values[i])));
  }
  return Json::object({{"adjust", adjust}});
}

}  // namespace stepcast::validation
