// Reading measured runs: damaged rows are refused one by one, the rest is kept.
#include <catch2/catch.hpp>

#include "validation/runs.h"

using namespace stepcast;
using namespace stepcast::validation;

namespace {

const std::string header =
    "id,model,device,devices,sequence_length,global_batch,step_time_s,mfu_percent,tokens_per_s_per_device,notes\n";

RunsFile parse(const std::string& rows) {
  const auto file = parse_runs(header + rows, "runs.csv");
  REQUIRE(file.ok());
  return *file;
}

std::string refusal(const std::string& row) {
  const RunsFile file = parse(row + "\ngood,m,h100,8,4096,8,1.0,,,\n");
  CHECK(file.runs.size() == 1);
  REQUIRE(file.refused.size() == 1);
  CHECK(file.refused.front().line == 2);
  return file.refused.front().why;
}

}  // namespace

TEST_CASE("a switch is on or off") {
  const auto file = parse_runs(
      "id,model,device,devices,step_time_s,ep_overlap\na,m,h100,8,1.0,on\nb,m,h100,8,1.0,true\nc,m,h100,8,1.0,\n",
      "runs.csv");
  REQUIRE(file.ok());
  CHECK(file->runs.size() == 2);
  REQUIRE(file->refused.size() == 1);
  CHECK(file->refused.front().why == "ep_overlap is 'true', allowed: on, off (or an empty cell)");
}

TEST_CASE("a good row keeps its cells, an empty cell is unknown") {
  const RunsFile file = parse("a,m,h100,8,4096,8,1.5,,,\"two, \"\"quoted\"\"\"\n");
  REQUIRE(file.runs.size() == 1);
  CHECK(file.runs.front().step_time_s() == 1.5);
  CHECK(file.runs.front().text("notes") == "two, \"quoted\"");
  CHECK_FALSE(file.runs.front().has("mfu_percent"));
  CHECK(file.runs.front().integer("devices", 0) == 8);
}

TEST_CASE("a byte-order mark, CRLF and quoted line breaks are accepted") {
  const auto file = parse_runs(
      "\xef\xbb\xbf"
      "id,model,device,devices,step_time_s,notes\r\na,m,h100,8,2,\"x\r\ny\"\r\nb,m,h100,8,3,\r\n",
      "runs.csv");
  REQUIRE(file.ok());
  REQUIRE(file->runs.size() == 2);
  CHECK(file->runs[1].line == 4);
  CHECK(file->runs[1].step_time_s() == 3);
}

TEST_CASE("damaged rows are refused with line and reason, the rest is kept") {
  CHECK(refusal("a,m,h100,8,4096,8,-1,,,") == "step_time_s is -1, allowed: 0 and above");
  CHECK(refusal("a,m,h100,8,4096,8,1e-300,,,").find("no step is that short") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,5e-324,,,").find("no step is that short") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,0,,,").find("expected seconds above 0") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,,,,").find("no step_time_s") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,nan,,,").find("not a number") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,1e999,,,").find("not a number") != std::string::npos);
  CHECK(refusal("a,m,h100,8,\"4,096\",8,1,,,").find("thousands separators") != std::string::npos);
  CHECK(refusal("a,m,h100,8.5,4096,8,1,,,").find("whole number") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,1,140,,").find("above 100 %") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,1,,999999,").find("tokens/s a device") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,1").find("fields where the header has") != std::string::npos);
  CHECK(refusal(",m,h100,8,4096,8,1,,,") == "no id");
  CHECK(refusal("a,m,h100,8,4096,8,1,100,,").find("a full 100 %") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,1,0,,") == "mfu_percent is 0, expected a number above 0 (or an empty cell)");
  CHECK(refusal("a,m,h100,8,4096,8,1,,0,").find("tokens_per_s_per_device is 0") != std::string::npos);
  CHECK(refusal("a,m,h100,8,4096,8,1000,,4096,").find("a factor near 1,000, so units are mixed") != std::string::npos);
}

TEST_CASE("every kind of damage is refused by itself") {
  // In the columns of `wide`; the rows around it are scored.
  const std::string wide =
      "id,model,device,devices,sequence_length,global_batch,tp,pp,cp,dp,nic_gb_per_s_per_device,peak_memory_gb,mfu_"
      "percent,"
      "hfu_percent,tokens_per_s_per_device,step_time_s\n";
  const std::string good = "g1,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,1.0\n";
  const std::pair<const char*, const char*> cases[] = {
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,1000", "tokens/s a device"},  // milliseconds
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,,5444.9", "milliseconds?"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,,1.0s", "no units"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,,1000 ms", "no units"},
      {"a,m,h100,16,4096,32,2,2,1,4,400,70,40,41,8192,1.0", "400 Gb/s is 50"},
      {"a,m,h100,16,4096,32,2,2,1,4,400Gb/s,70,40,41,8192,1.0", "no units"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,71680,40,41,8192,1.0", "megabytes?"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70GiB,40,41,8192,1.0", "no units"},
      {"a,m,h100,16,4k,32,2,2,1,4,50,70,40,41,8192,1.0", "no units"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,140,41,8192,1.0", "above 100 %"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,101,8192,1.0", "above 100 %"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40 %,41,8192,1.0", "no units"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,-40,41,8192,1.0", "allowed: 0 and above"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,-1.0", "allowed: 0 and above"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,131072,1.0", "tokens/s a device"},  // of the job
      {"a,m,h100,16,4096,3200,2,2,1,4,50,70,40,41,8192,1.0", "tokens/s a device"},
      {"a,m,h100,16,4096,32,2,2,1,8,50,70,40,41,8192,1.0", "devices says 16"},
      {"a,m,h100,16,4096,32,0,2,1,4,50,70,40,41,8192,1.0", "allowed: 1 and above"},
      {"a,m,h100,\"1,024\",4096,32,2,2,1,4,50,70,40,41,8192,1.0", "thousands separators"},
      {"a,m,h100,1'024,4096,32,2,2,1,4,50,70,40,41,8192,1.0", "thousands separators"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,\"1,0\"", "point for decimals"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,0x1", "not a number"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,inf", "not a number"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192", "15 fields where the header has 16"},
      {"a,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,1.0,7", "17 fields where the header has 16"},
      {"g1,m,h100,16,4096,32,2,2,1,4,50,70,40,41,8192,1.0", "stands twice"},
  };
  for (const auto& [row, why] : cases) {
    CAPTURE(row);
    const auto file = parse_runs("\xef\xbb\xbf" + wide + good + row + "\r\ng2" + good.substr(2), "runs.csv");
    REQUIRE(file.ok());
    CHECK(file->runs.size() == 2);
    REQUIRE(file->refused.size() == 1);
    CHECK(file->refused.front().line == 3);
    CHECK(file->refused.front().why.find(why) != std::string::npos);
  }
}

TEST_CASE("a column that nobody reads is named with the nearest one") {
  const auto file = parse_runs(
      "id,model,device,devices,step_time_s,vocabulary,sequence_lenght,colour,kind\n"
      "a,m,h100,8,1,51200,4096,red,MoE\nb,m,h100,8,1,51200,4096,red,foo\n",
      "x.csv");
  REQUIRE(file.ok());
  REQUIRE(file->warnings.size() == 3);
  CHECK(file->warnings[0] == "column 'vocabulary' is not known and not read; did you mean 'vocab'?");
  CHECK(file->warnings[1] == "column 'sequence_lenght' is not known and not read; did you mean 'sequence_length'?");
  CHECK(file->warnings[2] == "column 'colour' is not known and not read");
  REQUIRE(file->refused.size() == 1);
  CHECK(file->refused.front().why.starts_with("kind is 'foo', allowed: moe, dense"));
}

TEST_CASE("line ends of carriage returns alone are named") {
  const auto file = parse_runs("id,model,device,devices,step_time_s\ra,m,h100,8,2\rb,m,h100,8,2\r", "x.csv");
  REQUIRE_FALSE(file.ok());
  REQUIRE(file.errors().size() == 1);
  CHECK(file.errors().front().message.find("carriage return alone") != std::string::npos);
}

TEST_CASE("other separators than commas are named") {
  const auto file = parse_runs("id;model;device;devices;step_time_s\na;m;h100;8;1\n", "x.csv");
  REQUIRE_FALSE(file.ok());
  REQUIRE(file.errors().size() == 1);
  CHECK(file.errors().front().message.find("semicolons") != std::string::npos);
}

TEST_CASE("an id that stands twice is refused the second time") {
  const RunsFile file = parse("a,m,h100,8,4096,8,1,,,\na,m,h100,8,4096,8,2,,,\n");
  REQUIRE(file.runs.size() == 1);
  REQUIRE(file.refused.size() == 1);
  CHECK(file.refused.front().line == 3);
}

TEST_CASE("a file that is no table of runs is an error") {
  CHECK_FALSE(parse_runs("", "x").ok());
  CHECK_FALSE(parse_runs(std::string("id\0", 3), "x").ok());
  const auto missing = parse_runs("id,model\na,b\n", "x");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.errors().size() == 3);  // device, devices, step_time_s
  CHECK_FALSE(read_runs("/no/such/file.csv").ok());
}

TEST_CASE("a column that stands twice is refused: which of the two is meant is not known") {
  const auto file = parse_runs("id,model,device,devices,step_time_s,step_time_s\na,m,h100,8,2,999\n", "runs.csv");
  REQUIRE_FALSE(file.ok());
  CHECK(file.errors().front().message == "the header has column 'step_time_s' twice");
  CHECK(file.errors().front().where == "runs.csv:1");
}
