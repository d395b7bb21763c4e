#include "parallelism/routing.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include <catch2/catch.hpp>

using namespace stepcast;
using namespace stepcast::parallelism;

namespace {

RoutingSpec skew(SkewKind kind, double parameter, double persistence = 0.8) {
  RoutingSpec spec;
  spec.kind = kind;
  spec.parameter = parameter;
  spec.persistence = persistence;
  return spec;
}

RoutingShape shape(int experts, int top_k, int ep, double tokens_per_rank, int etp = 1, int layers = 4) {
  RoutingShape s;
  s.experts = experts;
  s.top_k = top_k;
  s.layers = layers;
  s.ep = ep;
  s.etp = etp;
  s.tokens_per_rank = tokens_per_rank;
  return s;
}

// One cohort of `groups` groups, positions in order, each position etp times.
ExpertLanes lanes(int groups, int ep, int etp = 1) {
  ExpertLanes out;
  for (int g = 0; g < groups; ++g) {
    for (int position = 0; position < ep; ++position) {
      for (int i = 0; i < etp; ++i) {
        out.group.push_back(g);
        out.position.push_back(position);
      }
    }
  }
  return out;
}

Routing make(const RoutingSpec& spec, const RoutingShape& s, int groups = 2, std::uint64_t seed = 1) {
  return Routing(spec, s, seed, {lanes(groups, s.ep, s.etp)}, 8);
}

double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

std::vector<float> rows_of(const Routing& r, std::size_t lane_count, std::uint64_t step, int load, int instance) {
  std::vector<float> out(lane_count);
  r.rows(step, load, 0, instance, out);
  return out;
}

const std::vector<RoutingSpec> all_skews{
    skew(SkewKind::balanced, 0),     skew(SkewKind::zipf, 0),         skew(SkewKind::zipf, 0.3),
    skew(SkewKind::zipf, 1.2, 0),    skew(SkewKind::zipf, 10, 1),     skew(SkewKind::dirichlet, 10),
    skew(SkewKind::dirichlet, 0.01), skew(SkewKind::dirichlet, 1, 0), skew(SkewKind::dirichlet, 1e6, 0.5)};

}  // namespace

TEST_CASE("Rows are whole, at most the tokens, and add up to tokens x top_k") {
  for (const RoutingSpec& spec : all_skews) {
    for (const auto& s : {shape(256, 8, 64, 4096), shape(8, 2, 8, 1024), shape(64, 6, 4, 0.75), shape(7, 3, 1, 5),
                          shape(4, 4, 2, 33), shape(1, 1, 1, 100), shape(128, 8, 8, 1e6)}) {
      const Routing r = make(spec, s);
      const double tokens = static_cast<double>(r.tokens_per_group());
      for (std::uint64_t step = 0; step < 3; ++step) {
        for (int instance = 0; instance < 5; ++instance) {
          const auto rows = r.expert_rows(step, instance % 4, instance % 2, instance);
          REQUIRE(sum(rows) == tokens * s.top_k);
          for (const double x : rows) {
            REQUIRE(x == std::floor(x));
            REQUIRE(x >= 0);
            REQUIRE(x <= tokens);
          }
        }
      }
    }
  }
}

TEST_CASE("Draws depend on coordinates only: not on order, threads, cohorts or lanes") {
  const RoutingShape s = shape(64, 4, 16, 512);
  const Routing r = make(skew(SkewKind::zipf, 0.5), s);
  const auto first = rows_of(r, 32, 3, 2, 5);
  CHECK(rows_of(r, 32, 4, 2, 5) != first);
  CHECK(rows_of(r, 32, 3, 1, 5) != first);
  CHECK(rows_of(r, 32, 3, 2, 6) != first);
  CHECK(rows_of(make(skew(SkewKind::zipf, 0.5), s, 2, 2), 32, 3, 2, 5) != first);
  CHECK(rows_of(r, 32, 3, 2, 5) == first);

  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) wrong += rows_of(r, 32, 3, 2, 5) == first ? 0 : 1;
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);

  // The second group as a cohort of its own, its lanes reversed.
  ExpertLanes reversed;
  for (int position = 15; position >= 0; --position) {
    reversed.group.push_back(1);
    reversed.position.push_back(position);
  }
  const Routing other(skew(SkewKind::zipf, 0.5), s, 1, {reversed, lanes(2, 16)}, 8);
  const auto alone = rows_of(other, 16, 3, 2, 5);
  CHECK(std::equal(alone.rbegin(), alone.rend(), first.begin() + 16));
}

TEST_CASE("A rank's rows are those of its experts; etp ranks share them") {
  const RoutingShape s = shape(64, 4, 8, 512, 2);
  const Routing r = make(skew(SkewKind::dirichlet, 2), s, 3);
  CHECK(r.tokens_per_group() == 512 * 16);
  const auto rows = rows_of(r, 48, 0, 1, 2);
  for (int group = 0; group < 3; ++group) {
    const auto experts = r.expert_rows(0, 1, group, 2);
    for (int position = 0; position < 8; ++position) {
      const double expected =
          std::accumulate(experts.begin() + position * 8, experts.begin() + (position + 1) * 8, 0.0);
      for (int i = 0; i < 2; ++i) {
        CHECK(rows[static_cast<std::size_t>((group * 8 + position) * 2 + i)] == static_cast<float>(expected));
      }
    }
  }
}

TEST_CASE("Layouts whose groups take equally many tokens meet the same routing") {
  // 32 microbatches of a group in a step: 4 groups x 8 or 8 groups x 4; ep 8 x 1024 tokens or ep 16 x 512.
  const RoutingSpec spec = skew(SkewKind::zipf, 0.4);
  const Routing a(spec, shape(64, 4, 8, 1024), 1, {lanes(4, 8)}, 8);
  const Routing b(spec, shape(64, 4, 16, 512), 1, {lanes(8, 16)}, 4);
  for (int ordinal = 0; ordinal < 32; ++ordinal) {
    CHECK(a.expert_rows(5, 1, ordinal % 4, ordinal / 4) == b.expert_rows(5, 1, ordinal % 8, ordinal / 8));
  }
}

TEST_CASE("Balanced is equal to within a row") {
  const Routing r = make(skew(SkewKind::balanced, 0), shape(60, 4, 4, 1001));
  const auto rows = r.expert_rows(0, 0, 0, 0);
  const auto [low, high] = std::minmax_element(rows.begin(), rows.end());
  CHECK(*high - *low <= 1);
  CHECK(r.load_of_step(0, 4).imbalance < 1.001);
}

TEST_CASE("zipf:0 has the spread of independent choices") {
  // One expert's rows are binomial: mean tokens k/E, variance tokens k/E (1 - k/E).
  const RoutingShape s = shape(64, 8, 8, 512);
  const Routing r = make(skew(SkewKind::zipf, 0), s);
  const double mean = 4096 * 8 / 64.0;
  double squares = 0;
  double total = 0;
  int n = 0;
  for (int i = 0; i < 400; ++i) {
    for (const double x : r.expert_rows(0, 0, 0, i)) {
      squares += (x - mean) * (x - mean);
      total += x - mean;
      ++n;
    }
  }
  CHECK(total == Approx(0).margin(1e-6));
  CHECK(squares / n == Approx(mean * (1 - 8.0 / 64)).epsilon(0.05));
}

TEST_CASE("Zipf shares match the law in every microbatch, whatever persists") {
  const RoutingShape s = shape(64, 2, 8, 20000);
  double scale = 0;
  for (int rank = 1; rank <= 64; ++rank) scale += std::pow(rank, -0.7);
  for (const double persistence : {0.0, 0.5, 1.0}) {
    const Routing r = make(skew(SkewKind::zipf, 0.7, persistence), s);
    for (int i = 0; i < 4; ++i) {
      auto rows = r.expert_rows(0, 0, 0, i);
      std::sort(rows.rbegin(), rows.rend());
      for (const int rank : {1, 2, 8, 32, 64}) {
        const double share = rows[static_cast<std::size_t>(rank - 1)] / sum(rows);
        CHECK(share == Approx(std::pow(rank, -0.7) / scale).epsilon(0.05));
      }
    }
  }
}

TEST_CASE("Hot experts differ between layers and steps, and persist over microbatches as told") {
  const RoutingShape s = shape(256, 1, 8, 200000);
  const auto hottest = [](const std::vector<double>& rows) {
    return std::max_element(rows.begin(), rows.end()) - rows.begin();
  };
  const Routing whole = make(skew(SkewKind::zipf, 1, 1.0), s);
  CHECK(hottest(whole.expert_rows(0, 0, 0, 0)) == hottest(whole.expert_rows(0, 0, 1, 7)));
  CHECK(hottest(whole.expert_rows(0, 0, 0, 0)) != hottest(whole.expert_rows(0, 1, 0, 0)));
  CHECK(hottest(whole.expert_rows(0, 0, 0, 0)) != hottest(whole.expert_rows(1, 0, 0, 0)));

  // Share of experts that keep their persistent rows.
  const Routing most = make(skew(SkewKind::zipf, 1, 0.75), s);
  int kept = 0;
  for (int i = 0; i < 20; ++i) {
    const auto base = whole.expert_rows(0, 0, 0, 100 + i);
    const auto rows = most.expert_rows(0, 0, 0, i);
    for (std::size_t e = 0; e < 256; ++e) kept += std::abs(rows[e] / base[e] - 1) < 0.05 ? 1 : 0;
  }
  CHECK(kept / (20 * 256.0) == Approx(0.75).margin(0.1));
}

TEST_CASE("Every expert is hot equally often") {
  const Routing r = make(skew(SkewKind::zipf, 1, 0.5), shape(16, 1, 4, 5000));
  std::vector<double> total(16, 0);
  for (std::uint64_t step = 0; step < 2000; ++step) {
    const auto rows = r.expert_rows(step, 0, 0, 0);
    for (std::size_t e = 0; e < 16; ++e) total[e] += rows[e];
  }
  for (const double t : total) CHECK(t / sum(total) == Approx(1 / 16.0).epsilon(0.07));
}

TEST_CASE("Dirichlet: variance of shares falls with the concentration") {
  // Var(share) = (1/E)(1 - 1/E) / (E A + 1).
  for (const double a : {0.5, 2.0, 20.0}) {
    const int experts = 32;
    const Routing r = make(skew(SkewKind::dirichlet, a, 0), shape(experts, 1, 4, 250000));
    double squares = 0;
    for (int i = 0; i < 600; ++i) {
      for (const double x : r.expert_rows(0, 0, 0, i)) squares += std::pow(x / 1e6 - 1.0 / experts, 2);
    }
    const double expected = (1.0 / experts) * (1 - 1.0 / experts) / (experts * a + 1);
    CHECK(squares / (600 * experts) == Approx(expected).epsilon(0.06));
  }
}

TEST_CASE("A histogram is met as it stands, rows of it cycled over layers") {
  RoutingSpec spec;
  spec.kind = SkewKind::histogram;
  spec.histogram = {1, 2, 3, 4, 0, 0, 5, 5};
  const Routing r = make(spec, shape(4, 1, 2, 50000));
  const auto even = r.expert_rows(0, 2, 0, 0);
  const auto odd = r.expert_rows(0, 3, 0, 0);
  for (std::size_t e = 0; e < 4; ++e) CHECK(even[e] / 1e5 == Approx(0.1 * (static_cast<double>(e) + 1)).epsilon(0.05));
  CHECK(odd[0] == 0);
  CHECK(odd[2] / 1e5 == Approx(0.5).epsilon(0.05));
}

TEST_CASE("Popular beyond the tokens: the expert is full, the rest is shared by the others") {
  RoutingSpec spec;
  spec.kind = SkewKind::histogram;
  spec.histogram = {1000, 1, 1, 0};
  const auto rows = make(spec, shape(4, 2, 2, 500)).expert_rows(0, 0, 0, 0);
  CHECK(rows[0] == 1000);
  CHECK(rows[1] + rows[2] == 1000);
  CHECK(rows[3] == 0);
}

TEST_CASE("Capacity: slots, drops and padding") {
  // 128 rows a source and expert on average; 1.25 x 128 = 160 slots a source.
  const RoutingShape s = shape(32, 4, 8, 1024);
  RoutingSpec spec = skew(SkewKind::zipf, 0.6);
  spec.capacity_factor = 1.25;
  CHECK(make(spec, s).slots_per_expert() == 0);  // no policy: dropless
  spec.drop = DropPolicy::drop;
  const Routing drop = make(spec, s);
  CHECK(drop.slots_per_expert() == 160 * 8);
  const auto kept = drop.expert_rows(0, 0, 0, 0);
  RoutingSpec free_spec = spec;
  free_spec.drop = DropPolicy::none;
  const auto routed = make(free_spec, s).expert_rows(0, 0, 0, 0);
  double dropped = 0;
  for (std::size_t e = 0; e < 32; ++e) {
    CHECK(kept[e] <= routed[e]);
    CHECK(kept[e] <= 1280);
    if (routed[e] < 0.6 * 1280) CHECK(kept[e] == routed[e]);
    if (routed[e] > 1.5 * 1280) CHECK(kept[e] == 1280);
    dropped += routed[e] - kept[e];
  }
  CHECK(dropped > 0);
  const ExpertLoad load = drop.load_of_step(0, 8);
  CHECK(load.routed == 4.0 * 8192 * 4 * 2 * 8);
  CHECK(load.dropped > 0);
  CHECK(load.padded == 0);
  CHECK(load.max <= 1280);
  CHECK(load.capacity_use == Approx((load.routed - load.dropped) / (1280.0 * 32 * 4 * 2 * 8)));

  spec.drop = DropPolicy::pad;
  const Routing pad = make(spec, s);
  for (const float rows : rows_of(pad, 16, 0, 0, 0)) CHECK(rows == 1280.0F * 4);
  const ExpertLoad padded = pad.load_of_step(0, 8);
  CHECK(padded.dropped == load.dropped);
  CHECK(padded.padded == Approx(1280.0 * 32 * 4 * 2 * 8 - (load.routed - load.dropped)));
  CHECK(padded.imbalance == 1);
}

TEST_CASE("Rows dropped at the sources agree with dropping token by token") {
  // Uniform popularity at capacity factor 1: the slow way draws every token's choice on each of 8 sources.
  const int experts = 16;
  const int sources = 8;
  const int tokens = 512;
  RoutingSpec spec = skew(SkewKind::zipf, 0);
  spec.capacity_factor = 1;
  spec.drop = DropPolicy::drop;
  const ExpertLoad fast = make(spec, shape(experts, 1, sources, tokens)).load_of_step(0, 8);
  double dropped = 0;
  const int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    for (int source = 0; source < sources; ++source) {
      std::vector<int> rows(experts, 0);
      const RngKey key =
          RngKey(1, static_cast<std::uint64_t>(round), Purpose::program_test).with(static_cast<std::uint64_t>(source));
      for (int t = 0; t < tokens; ++t) {
        ++rows[static_cast<std::size_t>(uniform(key.with(static_cast<std::uint64_t>(t))) * experts)];
      }
      for (const int r : rows) dropped += std::max(0, r - tokens / experts);
    }
  }
  const double slow_share = dropped / (rounds * sources * tokens);
  CHECK(fast.dropped / fast.routed == Approx(slow_share).epsilon(0.03));
}

TEST_CASE("load_of_step is the mean over the draws") {
  const RoutingShape s = shape(32, 4, 8, 1024, 1, 3);
  const Routing r = make(skew(SkewKind::zipf, 0.5), s);
  double imbalance = 0;
  double low = 1e9;
  double high = 0;
  for (int layer = 0; layer < 3; ++layer) {
    for (int i = 0; i < 4; ++i) {
      const auto rows = rows_of(r, 16, 7, layer, i);
      for (const std::size_t first : {0U, 8U}) {
        imbalance +=
            *std::max_element(rows.begin() + static_cast<int>(first), rows.begin() + static_cast<int>(first) + 8) /
            (8192 * 4 / 8.0);
      }
      for (const int group : {0, 1}) {
        for (const double x : r.expert_rows(7, layer, group, i)) {
          low = std::min(low, x);
          high = std::max(high, x);
        }
      }
    }
  }
  const ExpertLoad load = r.load_of_step(7, 4);
  CHECK(load.imbalance == Approx(imbalance / 24));
  CHECK(load.min == low);
  CHECK(load.max == high);
  CHECK(load.median > low);
  CHECK(load.median < high);
  CHECK(load.dropped == 0);
  CHECK(load.capacity_use == 1);
  // More draws than are looked at: still the whole step's rows.
  const Routing large(skew(SkewKind::zipf, 0.5), shape(8, 2, 8, 64, 1, 60), 1, {lanes(100, 8)}, 16);
  CHECK(large.load_of_step(0, 16).routed == 60.0 * 100 * 16 * 512 * 2);
}

namespace {

// A file of the test's own, removed at the end.
class File {
 public:
  explicit File(const std::string& text) : path_(std::filesystem::temp_directory_path() / name()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  static std::string name() {
    static int count = 0;
    return "stepcast_routing_" + std::to_string(getpid()) + "_" + std::to_string(++count);
  }
  std::filesystem::path path_;
};

std::string messages(const Result<RoutingSpec>& parsed) {
  if (parsed.ok()) return "";
  std::string text;
  for (const Error& e : parsed.errors()) text += e.where + ": " + e.message + "\n";
  return text;
}

std::string file_messages(const std::string& text, int experts = 4) {
  const File file(text);
  return messages(parse_skew(file.path(), experts));
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Skews by name") {
  CHECK(parse_skew("balanced", 8)->kind == SkewKind::balanced);
  CHECK(parse_skew("zipf:0.3", 8)->kind == SkewKind::zipf);
  CHECK(parse_skew("zipf:0.3", 8)->parameter == 0.3);
  CHECK(parse_skew("dirichlet:10", 8)->parameter == 10);
  for (const int experts : {8, 128, 256}) {
    const auto mild = parse_skew("aux-loss-free", experts);
    REQUIRE(mild.ok());
    CHECK(mild->kind == SkewKind::zipf);
    double sum = 0;
    for (int r = 1; r <= experts; ++r) sum += std::pow(r, -mild->parameter);
    CHECK(experts / sum == Approx(1.04).epsilon(1e-6));
  }
  for (const char* bad : {"zipf", "zipf:", "zipf:x", "zipf:-1", "zipf:nan", "zipf:inf", "zipf:1e9", "zipf:0.3 ",
                          "dirichlet:0", "dirichlet:-3", "dirichlet:1e300"}) {
    CHECK(has(messages(parse_skew(bad, 8)), "must be"));
  }
  CHECK(has(messages(parse_skew("balance", 8)), "did you mean 'balanced'?"));
  CHECK(has(messages(parse_skew("", 8)), "neither balanced"));
  CHECK(has(messages(parse_skew("/no/such/file", 8)), "no such file"));
  CHECK(has(messages(parse_skew("/", 8)), "is a directory"));
  CHECK(has(messages(parse_skew(std::string(100000, 'x'), 8)), "neither balanced"));
}

TEST_CASE("Histogram files, text and JSON") {
  const std::vector<double> four{1, 2.5, 0, 3e-2};
  CHECK(parse_skew(File("1\n2.5\n0\n3e-2\n").path(), 4)->histogram == four);
  CHECK(parse_skew(File("# experts\r\n1, 2.5 0\r\n3e-2").path(), 4)->histogram == four);
  CHECK(parse_skew(File("[1, 2.5, 0, 0.03]").path(), 4)->histogram == four);
  CHECK(parse_skew(File("[[1, 2.5], [0, 0.03]]").path(), 2)->histogram == four);
  CHECK(parse_skew(File("\xef\xbb\xbf[1, 2.5, 0, 0.03]").path(), 4)->histogram == four);
}

TEST_CASE("Hostile histogram files") {
  CHECK(has(file_messages(""), "the histogram is empty"));
  CHECK(has(file_messages(" \n\n"), "the histogram is empty"));
  CHECK(has(file_messages("1\n2\nthree\n4\n"), ":3: 'three' is no number"));
  CHECK(has(file_messages("1\n-2\n3\nnan\n"), ":2: share -2"));
  CHECK(has(file_messages("1\n2\n3\nnan\n"), ":4: 'nan' is no number"));
  CHECK(has(file_messages("1 2 3 1e400"), "'1e400' is no number"));
  CHECK(has(file_messages("1 2 3 1e300"), "share 1e+300"));
  CHECK(has(file_messages("1 2 3"), "3 shares; it must be the 4 experts"));
  CHECK(has(file_messages("1 2 3 4 0 0 0 0"), "the shares of row 1 are all 0"));
  CHECK(has(file_messages("# nothing"), "0 shares"));
  CHECK(has(file_messages("[1, 2, \"x\", 4]"), ":1:8"));
  CHECK(has(file_messages("[1, 2, [3, [4]]]"), "no number"));
  CHECK(has(file_messages("[1, 2, 3,"), ":1:"));
  CHECK(has(file_messages("{\"a\": 1}"), "a JSON list"));
  CHECK(has(file_messages("[1, -2, 3, 4]"), "share -2"));
  CHECK(has(file_messages(std::string("1\0 2", 4)), "is no number"));
  CHECK(has(file_messages(std::string(17 << 20, '1')), "larger than"));
  CHECK(has(file_messages("1 2 3 4", 0), "without experts"));
}
