// The reader of sim/base, on the texts that configs and catalogues come in.
#include "sim/base/json_reader.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "sim/base/json_fields.h"

namespace stepcast {
namespace {

std::string errors_of(const std::string& text) {
  const auto document = parse_json(text, "f.json");
  if (document.ok()) return "";
  std::string all;
  for (const Error& e : document.errors()) all += e.where + ": " + e.message + "\n";
  return all;
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Positions of values and keys, in characters") {
  const auto document =
      parse_json("{\"a\": [1, 2.5,\"x\"],\n  \"b\": [ {}, {\"\u00e9/~\" : -3e2}], \"\u00e9\u00e9\": 7}", "f.json");
  REQUIRE(document.ok());
  CHECK(document->where("") == "f.json:1:1");
  CHECK(document->where("/a") == "f.json:1:7 /a");
  CHECK(document->where("/a/1") == "f.json:1:11 /a/1");
  CHECK(document->where("/b/1" + pointer_step("\u00e9/~")) == "f.json:2:23 /b/1/\u00e9~1~0");
  CHECK(document->where_key("/b") == "f.json:2:3 /b");
  CHECK(document->where_key("/\u00e9\u00e9") == "f.json:2:31 /\u00e9\u00e9");
  CHECK(document->where("/\u00e9\u00e9") == "f.json:2:37 /\u00e9\u00e9");
  // What is not there is placed at its nearest ancestor.
  CHECK(document->where("/b/0/missing") == "f.json:2:10 /b/0/missing");
  CHECK(document->where("/a/17") == "f.json:1:7 /a/17");
  CHECK(document->where("/a/99999999999999999999") == "f.json:1:7 /a/99999999999999999999");
}

TEST_CASE("Malformed text says where and what in plain words") {
  CHECK(mentions(errors_of("{\"a\": 1,}"), "f.json:1:9: not valid JSON: unexpected '}'"));
  CHECK(mentions(errors_of("{\"a\": 1,}"), "no comma before a closing bracket"));
  CHECK(mentions(errors_of("[1, 2"), "unexpected end of input"));
  CHECK(mentions(errors_of("{\n\"a\": Infinity}"), "f.json:2:6: not valid JSON"));
  CHECK(mentions(errors_of("{\"a\": 1e999}"), "number overflow"));
  CHECK(mentions(errors_of("{\"a\": 1} x"), "f.json:1:10"));
  CHECK(mentions(errors_of("// no\n{}"), "f.json:1:1"));
  CHECK(mentions(errors_of("{\"a\": \"\xff\"}"), "UTF-8"));
  CHECK(mentions(errors_of("{\"a\": \"\\ud800\"}"), "surrogate"));
  CHECK(mentions(errors_of("{'a': 1}"), "found ''a''"));
}

TEST_CASE("Refused beyond malformed: twice the same key, depth, bytes that are no text") {
  const std::string twice = errors_of("{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}, \"a\": 3}");
  CHECK(mentions(twice, "f.json:1:24: key 'c' is written twice"));
  CHECK(mentions(twice, "f.json:1:33: key 'a' is written twice"));
  CHECK(errors_of(std::string(64, '[') + std::string(64, ']')).empty());
  CHECK(mentions(errors_of(std::string(65, '[') + std::string(65, ']')), "deeper than 64"));
  CHECK(mentions(errors_of(std::string(1000000, '[')), "deeper than 64"));
  CHECK(mentions(errors_of(std::string("[1, \0 2]", 8)), "byte 0x00"));
  CHECK(mentions(errors_of("\xFF\xFE{"), "UTF-16"));
  CHECK(mentions(errors_of("\x1f\x8b\x08"), "not a text file"));
  CHECK(mentions(errors_of(" \n "), "empty"));
  CHECK(mentions(errors_of(std::string(json_max_bytes + 1, ' ')), "64 MiB"));
}

TEST_CASE("A byte-order mark and any line ends are tolerated") {
  const auto document = parse_json("\xEF\xBB\xBF{\r\n\"a\": 1\r\n}\r\n", "f.json");
  REQUIRE(document.ok());
  CHECK(document->where("/a") == "f.json:2:6 /a");
}

TEST_CASE("Files that cannot be read") {
  CHECK(read_json_file("/nonexistent/x.json").errors().front().code == ErrorCode::not_found);
  CHECK(mentions(read_json_file(std::filesystem::temp_directory_path()).errors().front().message, "directory"));
  CHECK(!read_text_file("/dev/zero", 1000).ok());
}

TEST_CASE("Large documents keep their positions cheap") {
  std::string text = "[";
  for (int i = 0; i < 200000; ++i) text += "{\"k\": " + std::to_string(i) + "},\n";
  text += "0]";
  const auto document = parse_json(text, "f.json");
  REQUIRE(document.ok());
  CHECK(document->where("/150000/k") == "f.json:150001:7 /150000/k");
}

TEST_CASE("Fields: all errors in one pass, unknown keys with the nearest name") {
  const auto document =
      parse_json(R"({"layers": 2.5, "hiden": 1, "list": 3, "kind": "reed", "big": 1e30, "ok": 4.0})", "f.json");
  REQUIRE(document.ok());
  Errors errors;
  JsonFields fields(*document, document->root, "", errors);
  CHECK(!fields.integer("layers", 1, 9));
  CHECK(!fields.list("list", [](const auto&, const auto&) {}));
  CHECK(!fields.choice("kind", {"red", "green"}));
  CHECK(!fields.integer("big", 0, 9));
  CHECK(fields.integer("ok", 0, 9) == 4);
  CHECK(!fields.required_integer("hidden", 1, 9));
  fields.refuse_unknown();
  REQUIRE(errors.size() == 6);
  CHECK(mentions(errors[2].message, "did you mean 'red'?"));
  CHECK(mentions(errors[5].message, "unknown key 'hiden'; did you mean 'hidden'?"));
  CHECK(errors[5].where == "f.json:1:17 /hiden");
}

TEST_CASE("Values are shown short") {
  using Json = nlohmann::ordered_json;
  CHECK(shown(Json(3)) == "3");
  CHECK(shown(Json(std::string(200, 'x'))).size() <= 64);
  CHECK(shown(Json(std::vector<int>(100, 1))) == "a list of 100");
  CHECK(shown(Json::object()) == "{}");
}

}  // namespace stepcast
