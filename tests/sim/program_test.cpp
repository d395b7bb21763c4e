#include "sim/program/program.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <string>

namespace stepcast::sim {
namespace {

// Two cohorts of two lanes that pass one message and meet once.
Program sound() {
  Program p;
  p.ranks = 4;
  p.loads = 1;
  for (int c = 0; c < 2; ++c) {
    Cohort cohort;
    cohort.name = c == 0 ? "first" : "second";
    cohort.ranks = {RankId(2 * c), RankId(2 * c + 1)};
    cohort.slots = 1;
    cohort.costs.resize(1);
    cohort.works.resize(1);
    cohort.groups = {{"ep", 2, {0, 1}}};
    Instruction message;
    message.op = c == 0 ? Opcode::send : Opcode::receive;
    message.target = 0;
    Instruction kernel;
    kernel.load = 0;
    Instruction meet;
    meet.op = Opcode::join;
    meet.target = 0;
    Instruction together;
    together.op = Opcode::collective;
    together.target = 0;
    cohort.bodies = {{"pass", {message, kernel, meet, together}}};
    cohort.calls = {{0, 0, -1}};
    p.cohorts.push_back(cohort);
  }
  p.channels = {{"activations", 0, 1, {}}};
  p.joins = {{"norm", {0, 1}, {}}};
  return p;
}

// The one complaint after a change.
std::string complaint(const std::function<void(Program&)>& change) {
  Program p = sound();
  change(p);
  const auto faults = check(p);
  return faults.size() == 1 ? faults[0] : std::to_string(faults.size()) + " faults";
}

TEST_CASE("a sound program passes") { CHECK(check(sound()).empty()); }

TEST_CASE("rank operations are instructions times lanes") {
  Program p = sound();
  CHECK(p.rank_ops() == 16);
  p.cohorts[0].calls.push_back({0, 1, -1});
  CHECK(p.rank_ops() == 24);
}

TEST_CASE("every broken reference is named with its place") {
  const auto body = [](Program& p) -> std::vector<Instruction>& { return p.cohorts[0].bodies[0].instructions; };
  CHECK(complaint([&](Program& p) { body(p)[1].cost = 7; }) == "cohort 'first', body 'pass', instruction 1: cost 7");
  CHECK(complaint([&](Program& p) { body(p)[1].work = 7; }) == "cohort 'first', body 'pass', instruction 1: work 7");
  CHECK(complaint([&](Program& p) { body(p)[1].wait_slot = 1; }) ==
        "cohort 'first', body 'pass', instruction 1: waits for slot 1");
  CHECK(complaint([&](Program& p) { body(p)[1].record_slot = 3; }) ==
        "cohort 'first', body 'pass', instruction 1: records slot 3");
  CHECK(complaint([&](Program& p) { body(p)[1].load = 2; }) ==
        "cohort 'first', body 'pass', instruction 1: load 2 of 1");
  CHECK(complaint([&](Program& p) { body(p)[0].target = 5; }) ==
        "cohort 'first', body 'pass', instruction 0: channel 5");
  CHECK(complaint([&](Program& p) { body(p)[2].target = 5; }) ==
        "cohort 'first', body 'pass', instruction 2: join class 5");
  CHECK(complaint([&](Program& p) { body(p)[3].target = 5; }) ==
        "cohort 'first', body 'pass', instruction 3: group class 5");
  CHECK(complaint([&](Program& p) { body(p)[0].op = Opcode::receive; }) ==
        "cohort 'first', body 'pass', instruction 0: receive on channel 'activations', which belongs to cohort 1");
  CHECK(complaint([](Program& p) { p.cohorts[0].calls[0].body = 4; }) == "cohort 'first': call 0 of body 4");
  CHECK(complaint([](Program& p) { p.cohorts[0].calls[0].instance = -1; }) ==
        "cohort 'first': call 0 of body 'pass' has no instance, which load 0 needs");
}

TEST_CASE("ranks, groups and lanes must be partitions") {
  CHECK(complaint([](Program& p) { p.cohorts[1].ranks[0] = RankId(9); }).find("faults") != std::string::npos);
  CHECK(complaint([](Program& p) { p.ranks = 5; }) == "rank 4 is in no cohort");
  CHECK(complaint([](Program& p) {
          p.cohorts[0].groups[0].lanes = {0, 0};
        }) == "cohort 'first': groups 'ep' of 2 are no partition of its 2 lanes");
  CHECK(complaint([](Program& p) { p.cohorts[0].groups[0].group_size = 0; }) ==
        "cohort 'first': groups 'ep' of 0 are no partition of its 2 lanes");
  CHECK(complaint([](Program& p) { p.channels[0].from_lane = {0}; }) ==
        "channel 'activations': lanes do not map 2 receivers to 2 senders");
  CHECK(complaint([](Program& p) {
          p.joins[0].cohorts = {0, 1, 1};
        }) == "join 'norm': cohort 1 is unknown or named twice");
  CHECK(complaint([](Program& p) {
          p.joins[0].group_of_lane = {{0, 0}};
        }) == "join 'norm': group_of_lane does not match its cohorts' lanes");
}

TEST_CASE("messages and joins must meet") {
  CHECK(complaint([](Program& p) {
          p.cohorts[0].bodies[0].instructions.erase(p.cohorts[0].bodies[0].instructions.begin());
        }) == "channel 'activations': 0 sends and 1 receives a step");
  CHECK(complaint([](Program& p) {
          auto& code = p.cohorts[1].bodies[0].instructions;
          code.erase(code.begin() + 2);
        }) == "join 'norm': cohort 'second' runs it 0 times a step, cohort 'first' 1 times");
}

TEST_CASE("costs must be finite times") {
  CHECK(complaint([](Program& p) { p.cohorts[0].costs[0].base_ticks = -1; }).find("cost 0 is negative") !=
        std::string::npos);
  CHECK(complaint([](Program& p) { p.cohorts[0].costs[0].per_row_ticks = std::nan(""); }).find("not a number") !=
        std::string::npos);
  CHECK(complaint([](Program& p) { p.cohorts[0].launch_ticks = -5; }) == "cohort 'first': negative host time");
}

TEST_CASE("categories, streams and opcodes have names") {
  for (int c = 0; c < category_count; ++c) CHECK(std::string(name(static_cast<Category>(c))).size() > 2);
  CHECK(std::string(name(Category::gemm)) == "gemm");
  CHECK(std::string(name(Category::exposed_ep)) == "exposed_ep");
  CHECK(std::string(name(Category::other)) == "other");
  CHECK(std::string(name(Stream::pp_receive)) == "pp_receive");
  CHECK(std::string(name(Opcode::host_sync)) == "host_sync");
}

}  // namespace
}  // namespace stepcast::sim
