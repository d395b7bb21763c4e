// nccl-tests outputs: both headers, prefixes, cut files, and damage of every kind.
#include <catch2/catch.hpp>

#include <string>

#include "validation/logs/nccl_tests.h"

namespace stepcast::validation {
namespace {

using topology::Collective;

const std::string ranks =
    "#  Rank  0 Group  0 Pid   1000 on     node1 device  0 [0x19] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1001 on     node1 device  1 [0x3a] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid   1000 on     node2 device  0 [0x19] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid   1001 on     node2 device  1 [0x3a] NVIDIA H100 80GB HBM3\n";
const std::string header =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n";
const std::string old_header =
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
const std::string good =
    "   536870912     134217728     float     sum      -1   5368.7  100.00  150.00      0   5368.7  100.00  150.00     "
    " 0\n";
const std::string larger =
    "  1073741824     268435456     float     sum      -1    10737  100.00  150.00      0    10737  100.00  150.00    "
    "N/A\n";

NcclHints all_reduce() { return {Collective::all_reduce, 0}; }

TEST_CASE("nccl-tests outputs are read whatever header and launcher they have") {
  struct Case {
    const char* what;
    std::string text;
    std::size_t rows;
  };
  const Case cases[] = {
      {"usual", ranks + header + good + larger, 2},
      {"old header, no root",
       ranks + old_header +
           "   536870912     134217728   float     sum   5368.7  100.00  150.00    N/A   5368.7  100.00  150.00    "
           "N/A\n",
       1},
      {"old alltoall rows without a redop",
       ranks + old_header +
           "   536870912     134217728   float   5368.7  100.00  150.00    N/A   5368.7  100.00  150.00    N/A\n",
       1},
      {"new header names the collective", "# Collective test starting: all_reduce_perf\n" + ranks + header + good, 1},
      {"srun prefix", "0: " + ranks + "0: " + header + "0: " + good + "1: NCCL version 2.21.5\n", 1},
      {"mpirun prefix", "[1,0]<stdout>:" + ranks + "[1,0]<stdout>: " + header + "[1,0]<stdout>: " + good, 1},
      {"dates before rows", ranks + header + "2025-01-01 10:00:00 " + good, 1},
      {"NCCL INFO among rows",
       ranks + header + good + "node1:77:77 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n" + larger, 2},
      {"header cut", ranks + good + larger, 2},
      {"footer cut inside a row", ranks + header + good + larger + "  2147483648     536870912     float     sum", 2},
      {"comment rows", ranks + header + "# Truncated smaller sizes\n" + good, 1},
      {"size 0",
       ranks + header +
           "           0             0     float     sum      -1     35.20    0.00    0.00    N/A    34.05    0.00    "
           "0.00    N/A\n" +
           good,
       1},
      {"byte-order mark and CRLF", "\xef\xbb\xbf" + ranks + header + good.substr(0, good.size() - 1) + "\r\n", 1},
      {"colour codes", ranks + header + "\x1b[32m" + good.substr(0, good.size() - 1) + "\x1b[0m\n", 1},
      {"a table a rank", ranks + header + good + good, 1},
      {"in place only out of order", ranks + header + larger + good, 2},
      {"in place not run",
       ranks + header +
           "   536870912     134217728     float     sum      -1   5368.7  100.00  150.00      0      N/A     N/A     "
           "N/A    N/A\n",
       1},
      {"one side",
       ranks + "#       size         count      type   redop    root     time   algbw   busbw #wrong\n   536870912     "
               "134217728     float     sum      -1   5368.7  100.00  150.00      0\n",
       1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const auto read = parse_nccl_tests(c.text, "out.txt", all_reduce());
    CAPTURE(read ? std::string() : read.errors().front().message);
    REQUIRE(read.ok());
    CHECK(read->rows.size() == c.rows);
    CHECK(read->ranks == 4);
    CHECK(read->nodes == 2);
    CHECK(read->device == "NVIDIA H100 80GB HBM3");
    CHECK(read->rows.back().out_of_place->algbw == Approx(100e9));
  }
}

TEST_CASE("damaged rows of nccl-tests are named with their line, the rest is read") {
  struct Case {
    const char* row;
    const char* why;
  };
  const Case cases[] = {
      {"  1073741824     268435456     float     sum      -1    -10737  100.00  150.00      0    10737  100.00  150.00 "
       "   0",
       "below 0"},
      {"  1073741824     268435456     float     sum      -1    0.00  100.00  150.00      0    10737  100.00  150.00   "
       " 0",
       "time is 0"},
      {"  1073741824     268435456     float     sum      -1    nan  100.00  150.00      0    10737  100.00  150.00    "
       "0",
       "not a number"},
      {"  1073741824     268435456     float     sum      -1    inf  100.00  150.00      0    10737  100.00  150.00    "
       "0",
       "not a number"},
      {"  1073741824     268435456     float     sum      -1    10,737  100.00  150.00      0    10737  100.00  150.00 "
       "   0",
       "not a number"},
      {"  1073741824     268435456     float     sum      -1    10.737  100.00  150.00      0    10737  100.00  150.00 "
       "   0",
       "algbw says"},
      {"  1073741824     268435456     float     sum      -1    10737  100.00  150.00      3    10737  100.00  150.00  "
       "  0",
       "wrong results"},
      {"  1073741824     268435456     float     sum      -1    10737  100.00  150.00", "columns after the type"},
      {"  1073741824     268435456     float     sum      -1    10737  100.00  150.00      0    10737  100.00  150.00  "
       "  0  7  7  7",
       "columns after the type"},
      {"  1073741824     268435456     float     sum      -1    10737  1OO.00  150.00      0    10737  100.00  150.00  "
       "  0",
       "not a number"},
      {"  1073741824     268435456     flaot     sum      -1    10737  100.00  150.00      0    10737  100.00  150.00  "
       "  0",
       "no data type"},
      {"  99999999999999999999     268435456     float     sum      -1    10737  100.00  150.00      0    10737  "
       "100.00  150.00    0",
       "above 1e15"},
      {"  1073741824     268435456     float     sum      -1    N/A  N/A  N/A      N/A    N/A  N/A  N/A    N/A",
       "neither side"},
      {"  1073741824     268435456     float     sum      -1    10737  100.00  9999.0      0    10737  100.00  150.00  "
       "  0",
       "busbw is 9999.0, more than twice the algbw of 100.00"},
      {"    33554432       8388608     float     sum      -1   335.54  100.00  165.00      0   335.54  100.00  150.00  "
       "  0",
       "busbw is 165.00, but all_reduce over 4 ranks makes 150.00 of an algbw of 100.00"},
      {"    33554432       8388608     float     sum      -1   335.54  100.00  150.00      0   335.54  100.00  199.00  "
       "  0",
       "busbw is 199.00"},
      {"  1073741824     268435456     float     sum      -1    10737us  100.00  150.00      0    10737  100.00  "
       "150.00    0",
       "not a number"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.row);
    const auto read = parse_nccl_tests(ranks + header + good + c.row + "\n", "out.txt", all_reduce());
    REQUIRE(read.ok());
    CHECK(read->rows.size() == 1);
    REQUIRE(read->damaged.size() == 1);
    CHECK(read->damaged.front().line == 7);
    CHECK(read->damaged.front().why.find(c.why) != std::string::npos);
  }
}

TEST_CASE("files that are no nccl-tests output fail with one reason") {
  struct Case {
    std::string text;
    NcclHints hints;
    const char* why;
  };
  const Case cases[] = {
      {"", all_reduce(), "empty"},
      {" \r\n\t\n", all_reduce(), "empty"},
      {"hello world\n", all_reduce(), "no row"},
      {ranks + header, all_reduce(), "no row"},
      {std::string("a\0b", 3), all_reduce(), "binary"},
      {"{\"version\": 1}", all_reduce(), "JSON"},
      {ranks + header + "  1024  256  float  sum  -1  nan 1 1 0 nan 1 1 0\n", all_reduce(), "every row is damaged"},
      {header + "        1024           256     float     sum      -1    20.00    0.05    0.08      0    20.00    0.05 "
                "   0.08      0\n",
       all_reduce(), "--ranks"},
      {ranks + header + good, {Collective::all_reduce, 8}, "--ranks says 8"},
      {ranks + header + good, {Collective::all_gather, 0}, "another collective"},
      {"# Collective test starting: alltoall_perf\n" + ranks + header + good, all_reduce(), "the header says"},
      {"# Collective test starting: alltoall_perf\n" + ranks + header + good, {}, "another collective"},
      {ranks + header +
           "   536870912     134217728     float    none      -1   5368.7  100.00   75.00      0   5368.7  100.00   "
           "75.00      0\n",
       {},
       "give --collective"},
      {"#  Rank  0 Group  0 Pid   1000 on     node1 device  0 [0x19] NVIDIA H100\n" + header + good, all_reduce(),
       "one rank"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text, c.why);
    const auto read = parse_nccl_tests(c.text, "out.txt", c.hints);
    REQUIRE_FALSE(read.ok());
    CHECK(read.errors().front().message.find(c.why) != std::string::npos);
    CHECK(read.errors().front().where == "out.txt");
  }
}

TEST_CASE("what a cut file does not say is told by its name and its rates") {
  CHECK(parse_nccl_tests(ranks + header + good, "all_reduce_16.txt", {})->kind_from == "the file's name");
  const auto bare = parse_nccl_tests(header + good, "out.txt", {});
  REQUIRE(bare.ok());
  CHECK(bare->ranks == 4);
  CHECK(bare->kind == Collective::all_reduce);
  CHECK(bare->kind_from == "the rates");
  const auto scatter = parse_nccl_tests(ranks + header +
                                            "   536870912     134217728     float     sum      -1   5368.7  100.00   "
                                            "75.00      0   5368.7  100.00   75.00      0\n",
                                        "x", {});
  REQUIRE(scatter.ok());
  CHECK(scatter->kind == Collective::reduce_scatter);
}

}  // namespace
}  // namespace stepcast::validation
