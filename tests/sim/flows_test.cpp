// Max-min sharing: closed forms of two and three flows, the certificate on random ones.
#include <catch2/catch.hpp>

#include "random_program.h"
#include "sim/engine/flows.h"

namespace stepcast::sim {
namespace {

using Links = std::vector<LinkShare>;

// Runs to the end; by id, when each flow ended.
struct Run {
  explicit Run(std::vector<double> links) : capacity(std::move(links)), flows(capacity) {}
  void start(Ticks at, Ticks work, std::uint32_t id, const Links& links, double nic = 1) {
    until(at);
    FlowDemand demand;
    demand.links = &links;
    demand.nic = nic;
    flows.start(at, work, id, id, demand);
  }
  void until(Ticks time) {
    while (true) {
      const Ticks next = flows.next();
      if (next == FlowSet::never || next > time) return;
      CHECK(flows.certificate_error() <= 1e-9);
      for (std::uint32_t id = 0; flows.take(next, id);) {
        if (ends.size() <= id) ends.resize(id + std::size_t{1});
        ends[id] = next;
      }
    }
  }
  std::vector<double> capacity;
  FlowSet flows;
  std::vector<Ticks> ends;
};

TEST_CASE("flows that share a link divide it, and speed up when one ends") {
  const Links both = {{0, 1, 0}};
  Run run({1});
  run.start(0, 100, 0, both);
  run.start(50, 100, 1, both);
  run.until(1000);
  CHECK(run.ends == std::vector<Ticks>{150, 200});
  CHECK(run.flows.stats().slowed == 2);
  CHECK(run.flows.empty());
}

TEST_CASE("flows on links of their own, or on a link wide enough, take their time alone") {
  const Links a = {{0, 1, 0}}, b = {{1, 1, 0}}, half = {{2, 0.5F, 0}};
  Run run({1, 1, 1});
  run.start(0, 100, 0, a);
  run.start(0, 70, 1, b);
  run.start(10, 50, 2, half);
  run.start(10, 60, 3, half);
  run.until(1000);
  CHECK(run.ends == std::vector<Ticks>{100, 70, 60, 70});
  CHECK(run.flows.stats().slowed == 0);
}

TEST_CASE("ports share evenly: a flow that uses a quarter of its port is not slowed by one that uses all") {
  const Links link = {{0, 1, 0}};
  Run run({1});
  run.start(0, 300, 0, link, 0.25);
  run.start(0, 300, 1, link, 1);
  run.until(1000);
  CHECK(run.ends[0] == 300);
  CHECK(run.ends[1] == 300 + 75);  // three quarters until 300, then alone
}

TEST_CASE("a link four times oversubscribed makes four full flows take four times as long") {
  const Links up = {{0, 4, 0}};  // each alone would load it four times over and is priced for that
  const Links quarter = {{0, 1, 0}};
  Run alone({1});
  alone.start(0, 100, 0, up, 0.25);
  alone.until(1000);
  CHECK(alone.ends[0] == 100);
  Run run({1});
  for (std::uint32_t id = 0; id < 4; ++id) run.start(0, 100, id, quarter);
  run.until(1000);
  CHECK(run.ends == std::vector<Ticks>{400, 400, 400, 400});
}

TEST_CASE("the certificate holds on random flows, and work is conserved") {
  testing::Draws draws(5);
  std::vector<Links> kinds;
  for (int i = 0; i < 40; ++i) {
    Links links;
    for (int l = draws.below(4); l < 30; l += 1 + draws.below(9)) {
      links.push_back({l, 0.1F * static_cast<float>(1 + draws.below(10)), 0});
    }
    kinds.push_back(links);
  }
  Run run(std::vector<double>(30, 1.0));
  Ticks now = 0;
  for (std::uint32_t id = 0; id < 600; ++id) {
    now += draws.below(300);
    run.start(now, 1000 + draws.below(5000), id, kinds[static_cast<std::size_t>(draws.below(40))],
              0.05 * (1 + draws.below(20)));
  }
  run.until(FlowSet::never - 1);
  CHECK(run.flows.empty());
  CHECK(run.ends.size() == 600);
  CHECK(run.flows.stats().slowed > 100);
  CHECK(run.flows.stats().late == 0);
}

}  // namespace
}  // namespace stepcast::sim
