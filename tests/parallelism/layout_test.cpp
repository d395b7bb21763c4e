#include "parallelism/layout.h"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

using namespace stepcast;
using namespace stepcast::parallelism;

namespace {

Layout make(const Degrees& degrees, int devices) {
  const auto layout = make_layout(degrees, {.devices = devices});
  if (!layout.ok()) FAIL(layout.errors().front().message);
  return *layout;
}

std::vector<int> values(const std::vector<RankId>& ranks) {
  std::vector<int> out;
  for (const RankId r : ranks) out.push_back(r.value);
  return out;
}

// All messages in one text, to look into.
std::string messages(const Degrees& degrees, const Divisibility& limits) {
  const auto layout = make_layout(degrees, limits);
  if (layout.ok()) return "";
  std::string text;
  for (const Error& e : layout.errors()) text += e.where + ": " + e.message + "\n";
  return text;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

const std::vector<Axis> axes{Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::etp, Axis::ep, Axis::edp};

}  // namespace

TEST_CASE("Megatron-Core's example: 16 ranks, tp 2, pp 4") {
  // megatron/core/parallel_state.py, initialize_model_parallel.
  const Layout l = make({.tp = 2, .pp = 4}, 16);
  CHECK(l.dp == 2);
  CHECK(values(l.group(RankId(0), Axis::tp)) == std::vector<int>{0, 1});
  CHECK(values(l.group(RankId(6), Axis::tp)) == std::vector<int>{6, 7});
  CHECK(values(l.group(RankId(0), Axis::pp)) == std::vector<int>{0, 4, 8, 12});
  CHECK(values(l.group(RankId(3), Axis::pp)) == std::vector<int>{3, 7, 11, 15});
  CHECK(values(l.group(RankId(0), Axis::dp)) == std::vector<int>{0, 2});
  CHECK(values(l.group(RankId(13), Axis::dp)) == std::vector<int>{13, 15});
}

TEST_CASE("Folding: expert groups cross the tp groups of a stage") {
  // Megatron-Core MoE parallel folding (arXiv 2504.14960): tp 4, cp 2, dp 8 for attention, ep 64 over the same ranks.
  const Layout l = make({.tp = 4, .cp = 2, .pp = 2, .ep = 64}, 128);
  CHECK(l.dp == 8);
  CHECK(l.edp == 1);
  CHECK(values(l.group(RankId(64), Axis::ep)).front() == 64);
  CHECK(values(l.group(RankId(64), Axis::ep)).back() == 127);
  const Layout etp = make({.tp = 4, .ep = 4, .etp = 2}, 16);
  CHECK(etp.edp == 2);
  CHECK(values(etp.group(RankId(3), Axis::etp)) == std::vector<int>{2, 3});
  CHECK(values(etp.group(RankId(3), Axis::ep)) == std::vector<int>{1, 3, 5, 7});
  CHECK(values(etp.group(RankId(3), Axis::edp)) == std::vector<int>{3, 11});
  CHECK(values(etp.expert_group(RankId(3))) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("Megatron's tp-cp-ep-pp-dp order (--use-tp-pp-dp-mapping)") {
  const Layout l = make({.tp = 2, .pp = 2, .order = "tp-cp-ep-pp-dp"}, 8);
  CHECK(values(l.group(RankId(0), Axis::pp)) == std::vector<int>{0, 2});
  CHECK(values(l.group(RankId(0), Axis::dp)) == std::vector<int>{0, 4});
  CHECK(values(l.stage_ranks(StageId(1))) == std::vector<int>{2, 3, 6, 7});
  // Experts of another width before pp would sit in other stages than their attention.
  CHECK(has(messages({.tp = 2, .pp = 2, .ep = 4, .order = "tp-cp-ep-pp-dp"}, {.devices = 16}), "put pp last"));
}

TEST_CASE("Along every axis the groups partition the ranks, whatever the order") {
  std::vector<std::string> names{"cp", "dp", "ep", "pp", "tp"};
  int orders = 0;
  do {
    Degrees d{.tp = 2, .cp = 3, .pp = 2, .ep = 6};
    d.order = names[0] + "-" + names[1] + "-" + names[2] + "-" + names[3] + "-" + names[4];
    const auto made = make_layout(d, {.devices = 48});
    if (!made.ok()) continue;  // stages that the two numberings would place differently
    ++orders;
    const Layout& l = *made;
    for (const Axis axis : axes) {
      for (int r = 0; r < l.ranks(); ++r) {
        const auto group = l.group(RankId(r), axis);
        REQUIRE(static_cast<int>(group.size()) == l.degree(axis));
        REQUIRE(std::is_sorted(group.begin(), group.end()));
        REQUIRE(group[static_cast<std::size_t>(l.coordinate(RankId(r), axis))] == RankId(r));
        for (const RankId member : group) REQUIRE(l.group(member, axis) == group);
      }
    }
    for (int r = 0; r < l.ranks(); ++r) {
      const auto shards = l.dp_cp_group(RankId(r));
      REQUIRE(static_cast<int>(shards.size()) == l.dp * l.cp);
      REQUIRE(std::binary_search(shards.begin(), shards.end(), RankId(r)));
      for (const RankId member : shards) {
        REQUIRE(l.coordinate(member, Axis::tp) == l.coordinate(RankId(r), Axis::tp));
        REQUIRE(l.coordinate(member, Axis::pp) == l.coordinate(RankId(r), Axis::pp));
      }
      // Attention and expert groups of a rank lie in its stage.
      for (const RankId member : l.expert_group(RankId(r))) {
        REQUIRE(l.coordinate(member, Axis::pp) == l.coordinate(RankId(r), Axis::pp));
      }
    }
    std::set<RankId> all;
    for (int stage = 0; stage < l.pp; ++stage) {
      const auto ranks = l.stage_ranks(StageId(stage));
      REQUIRE(static_cast<int>(ranks.size()) == l.ranks_per_stage());
      all.insert(ranks.begin(), ranks.end());
    }
    REQUIRE(static_cast<int>(all.size()) == l.ranks());
  } while (std::next_permutation(names.begin(), names.end()));
  CHECK(orders >= 48);
}

TEST_CASE("Faults name the numbers, all at once") {
  const std::string text =
      messages({.tp = 3, .cp = 2, .pp = 4, .vpp = 8, .ep = 48, .etp = 5, .dp = 7}, {.devices = 128,
                                                                                    .heads = 64,
                                                                                    .kv_heads = 8,
                                                                                    .hidden = 4096,
                                                                                    .ffn = 16384,
                                                                                    .experts = 256,
                                                                                    .expert_ffn = 2048,
                                                                                    .sequence_length = 4098,
                                                                                    .layers = 24});
  CHECK(has(text, "/parallelism/dp: tp 3 x cp 2 x pp 4 = 24 must divide the 128 devices"));
  CHECK(has(text, "etp 5 x ep 48 x pp 4 = 960 must divide the 128 devices"));
  CHECK(has(text, "/parallelism/ep: ep 48 must divide the 256 experts"));
  CHECK(has(text, "tp 3 must divide the 64 attention heads"));
  CHECK(has(text, "tp 3 must divide the 8 key-value heads"));
  CHECK(has(text, "tp 3 must divide the hidden size 4096"));
  CHECK(has(text, "tp 3 must divide the feed-forward width 16384"));
  CHECK(has(text, "etp 5 must divide the expert width 2048"));
  CHECK(has(text, "2 x cp = 4 must divide the sequence length 4098"));
  CHECK(has(text, "pp 4 x vpp 8 = 32 is above the 24 layers"));
}

TEST_CASE("dp is derived, and checked when given") {
  CHECK(messages({.tp = 2, .dp = 8}, {.devices = 16}).empty());
  CHECK(has(messages({.tp = 2, .dp = 4}, {.devices = 16}), "dp is 4, but 16 devices / (tp 2 x cp 1 x pp 1) = 8"));
}

TEST_CASE("Key-value heads below tp are replicated when they divide it") {
  CHECK(messages({.tp = 8}, {.devices = 8, .heads = 64, .kv_heads = 4}).empty());
  CHECK(has(messages({.tp = 8}, {.devices = 8, .heads = 24, .kv_heads = 3}), "the 3 key-value heads must divide tp 8"));
}

TEST_CASE("More ranks than experts, sequences that tp cannot split") {
  CHECK(has(messages({.ep = 512}, {.devices = 512, .experts = 256}), "ep 512 is above the 256 experts"));
  CHECK(has(messages({.tp = 8}, {.devices = 8, .sequence_length = 1001}), "tp 8 must divide the sequence length 1001"));
  CHECK(messages({.tp = 8}, {.devices = 8, .sequence_length = 1001, .sequence_parallel = false}).empty());
}

TEST_CASE("Hostile degrees are refused without overflow") {
  CHECK(has(messages({.tp = 0}, {.devices = 8}), "tp is 0; it must be 1 to"));
  CHECK(has(messages({.cp = -4}, {.devices = 8}), "cp is -4"));
  CHECK(has(messages({.pp = 2147483647}, {.devices = 8}), "pp is 2147483647"));
  CHECK(has(messages({.tp = 32768, .cp = 32768, .pp = 32768}, {.devices = 8}), "35184372088832 must divide the 8"));
  CHECK(has(messages({}, {.devices = 0}), "0 devices"));
  CHECK(has(messages({}, {.devices = 2000000000}), "2000000000 devices"));
  CHECK(has(messages({.dp = 0}, {.devices = 8}), "dp is 0"));
}

TEST_CASE("Order strings") {
  CHECK(has(messages({.order = "tp-cp-eq-dp-pp"}, {.devices = 8}), "names 'eq'"));
  CHECK(has(messages({.order = "tp-tp-cp-ep-dp-pp"}, {.devices = 8}), "names tp 2 times"));
  CHECK(has(messages({.order = ""}, {.devices = 8}), "names ''"));
  CHECK(has(messages({.order = std::string(1000, '-')}, {.devices = 8}), "1000 characters"));
  CHECK(has(messages({.cp = 2, .order = "tp-ep-dp-pp"}, {.devices = 8}), "leaves out cp"));
  CHECK(make({.tp = 2, .order = "tp-dp"}, 8).order == "tp-dp-cp-ep-pp");
}
