#include "parallelism/stage_split.h"

#include <algorithm>

#include <catch2/catch.hpp>

using namespace stepcast;
using namespace stepcast::parallelism;

namespace {

StageSplit split(const SplitRequest& request) {
  const auto made = split_stages(request);
  if (!made.ok()) FAIL(made.errors().front().message);
  // Whatever the way: every layer once, in order; embedding first, loss last.
  int layer = 0;
  int mtp = 0;
  for (const StageContent& piece : made->pieces) {
    CHECK(piece.first_layer == layer);
    layer += piece.layers;
    mtp += piece.mtp_layers;
  }
  CHECK(layer == request.layers);
  CHECK(mtp == request.mtp_layers);
  CHECK(static_cast<int>(made->pieces.size()) == request.virtual_stages);
  CHECK(made->pieces.front().embedding);
  CHECK(made->pieces.back().loss);
  return *made;
}

std::vector<int> counts(const StageSplit& s) {
  std::vector<int> out;
  for (const StageContent& piece : s.pieces) out.push_back(piece.layers);
  return out;
}

std::string messages(const SplitRequest& request) {
  const auto made = split_stages(request);
  if (made.ok()) return "";
  std::string text;
  for (const Error& e : made.errors()) text += e.message + "\n";
  return text;
}

std::string layout_messages(const std::string& layout, int layers = 4, int stages = 2, int mtp = 0) {
  return messages({.layers = layers, .mtp_layers = mtp, .virtual_stages = stages, .pipeline_layout = layout});
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Layers that divide are spread evenly") {
  const StageSplit s = split({.layers = 48, .virtual_stages = 8});
  CHECK(counts(s) == std::vector<int>(8, 6));
  // An MTP module counts as two layers and the loss as one.
  const StageSplit mtp = split({.layers = 48, .mtp_layers = 1, .virtual_stages = 8});
  CHECK(counts(mtp) == std::vector<int>{6, 7, 7, 6, 6, 6, 6, 4});
  CHECK(mtp.pieces.back().mtp_layers == 1);
  CHECK(counts(split({.layers = 61, .mtp_layers = 1, .virtual_stages = 16})).back() == 1);
  CHECK(s.how == "48 layers over 8 stages: 8x6 (even)");
  CHECK(counts(split({.layers = 1})) == std::vector<int>{1});
}

TEST_CASE("Embedding and loss count as layers when that divides") {
  // Llama-3.1-405B: 126 layers, 16 stages of 8.
  const StageSplit s = split({.layers = 126, .virtual_stages = 16});
  CHECK(s.pieces.front().layers == 7);
  CHECK(s.pieces[1].layers == 8);
  CHECK(s.pieces.back().layers == 7);
}

TEST_CASE("61 layers over 16 stages: the remainder goes to the middle") {
  const StageSplit s = split({.layers = 61, .virtual_stages = 16});
  CHECK(s.how == "61 layers over 16 stages: 3 + 13x4 + 2x3 (remainder on middle stages)");
}

TEST_CASE("Every number of layers over every number of stages") {
  for (int layers = 1; layers <= 40; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      const std::vector<int> c = counts(split({.layers = layers, .virtual_stages = stages}));
      const auto [low, high] = std::minmax_element(c.begin(), c.end());
      CHECK(*high - *low <= 1);
    }
  }
}

TEST_CASE("Explicit stage_layers") {
  const StageSplit s = split({.layers = 10, .virtual_stages = 4, .stage_layers = {1, 4, 4, 1}});
  CHECK(counts(s) == std::vector<int>{1, 4, 4, 1});
  CHECK(has(messages({.layers = 10, .virtual_stages = 4, .stage_layers = {5, 5}}), "2 entries; the layout has 4"));
  CHECK(has(messages({.layers = 10, .virtual_stages = 2, .stage_layers = {5, 4}}),
            "add up to 9 layers; the model has 10"));
  CHECK(has(messages({.layers = 10, .virtual_stages = 2, .stage_layers = {11, -1}}), "stage 1 has -1 layers"));
  CHECK(has(messages({.layers = 10, .virtual_stages = 2, .stage_layers = {2147483647, 2147483647}}), "stage 0 has"));
  CHECK(
      has(messages({.layers = 4, .virtual_stages = 1, .stage_layers = {4}, .pipeline_layout = "EttttL"}), "give one"));
}

TEST_CASE("Megatron's layout strings as published") {
  const StageSplit s =
      split({.layers = 61, .mtp_layers = 1, .virtual_stages = 32, .pipeline_layout = "Et*3|(tt|)*29,m|L"});
  CHECK(s.pieces[0].layers == 3);
  CHECK(s.pieces[29].layers == 2);
  CHECK(s.pieces[30].layers == 0);
  CHECK(s.pieces[30].mtp_layers == 1);
  CHECK(s.pieces[31].mtp_layers == 0);
  const StageSplit card =
      split({.layers = 61, .mtp_layers = 1, .virtual_stages = 32, .pipeline_layout = "Et|(tt|)*30mL"});
  CHECK(card.pieces[31].layers == 0);
  CHECK(card.pieces[31].mtp_layers == 1);
  const StageSplit four =
      split({.layers = 61, .mtp_layers = 1, .virtual_stages = 16, .pipeline_layout = "Et*4|(t*4|)*14tmL"});
  CHECK(four.pieces[15].layers == 1);
  CHECK(counts(split({.layers = 61, .virtual_stages = 32, .pipeline_layout = "Et|(tt|)*30L"}))[31] == 0);
}

TEST_CASE("Without m, MTP layers stand with the loss") {
  CHECK(split({.layers = 4, .mtp_layers = 2, .virtual_stages = 2, .pipeline_layout = "Ett|ttL"}).pieces[1].mtp_layers ==
        2);
}

TEST_CASE("Nested repeats, blanks and commas") {
  CHECK(counts(split({.layers = 8, .virtual_stages = 5, .pipeline_layout = " E,((t)*2 | )*4 , L "})) ==
        std::vector<int>{2, 2, 2, 2, 0});
  CHECK(counts(split({.layers = 12, .virtual_stages = 10, .pipeline_layout = "E((t|)*2tt|)*3L"})) ==
        std::vector<int>{1, 1, 2, 1, 1, 2, 1, 1, 2, 0});
}

TEST_CASE("Faults of layout strings name the character or the count") {
  CHECK(has(layout_messages("Ett|txL"), "character 6: 'x' is no layer"));
  CHECK(has(layout_messages("Ett|(ttL"), "character 5: '(' is never closed"));
  CHECK(has(layout_messages("Ett)|ttL"), "character 4: ')' closes nothing"));
  CHECK(has(layout_messages("E(tt)|ttL"), "character 2: '(...)' needs a repeat"));
  CHECK(has(layout_messages("Et*|ttL"), "character 3: '*' needs a whole number"));
  CHECK(has(layout_messages("Et*0|ttL"), "a repeat of 0"));
  CHECK(has(layout_messages("Et*-2|ttL"), "'*' needs a whole number"));
  CHECK(has(layout_messages("*3"), "character 1: '*' is no layer"));
  CHECK(has(layout_messages("Et*99999999999999999999|L"), "more than 1048576"));
  CHECK(has(layout_messages("E((((t*1000)*1000)*1000)*1000)*1000|L"), "more than 1048576"));
  CHECK(has(layout_messages("E((((t|)*900)*900)*2)*2"), "more than 1048576"));
  CHECK(has(layout_messages(std::string(30, '(')), "nest deeper than 16"));
  CHECK(has(layout_messages(std::string(100000, 't')), "100000 characters"));
  CHECK(has(layout_messages("Ett\xff|ttL"), "byte 0xff"));
  CHECK(has(layout_messages("EttttL"), "it has 1 stages; pp x vpp is 2"));
  CHECK(has(layout_messages("Ett|ttL|"), "opens an empty stage"));
  CHECK(has(layout_messages("Ett|tL"), "it places 3 layers 't'; the model has 4"));
  CHECK(has(layout_messages("Ett|ttmL"), "it places 1 MTP layers 'm'; the model has 0"));
  CHECK(has(layout_messages("EEtt|ttL"), "'E' 2 times"));
  CHECK(has(layout_messages("Ett|LttL"), "'L' 2 times"));
  CHECK(has(layout_messages("ttE|ttL"), "the order must be"));
  CHECK(has(layout_messages("ttttL|E"), "the order must be"));
  CHECK(has(layout_messages("|EttttL"), "'E' must stand in the first stage"));
  CHECK(has(layout_messages("EttttL|"), "'L' must stand in the last stage"));
}

TEST_CASE("Sizes out of range") {
  CHECK(has(messages({.layers = 0}), "0 layers"));
  CHECK(has(messages({.layers = 4, .mtp_layers = -1}), "-1 MTP layers"));
  CHECK(has(messages({.layers = 4, .virtual_stages = 0}), "0 pipeline stages"));
  CHECK(has(messages({.layers = 4, .virtual_stages = 8}), "8 stages are more than the 4 layers"));
  CHECK(has(messages({.layers = 2147483647}), "2147483647 layers"));
}
