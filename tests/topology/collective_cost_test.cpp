#include "topology/collective_cost.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <string>

#include "topology/collective_fits.h"

namespace stepcast::topology {
namespace {

Cluster box(const std::string& device, double nvlink, double nic, int domain) {
  Cluster cluster;
  cluster.device.name = device;
  cluster.device.peak_flops[Precision::bf16] = 1e15;
  cluster.device.nvlink_bandwidth = gb_per_s(nvlink);
  cluster.nvlink_bandwidth = gb_per_s(nvlink);
  cluster.nic_bandwidth = gb_per_s(nic);
  cluster.nvlink_domain = domain;
  cluster.nic_latency = microseconds(4);
  cluster.nic_efficiency = 0.95;
  return cluster;
}

Cluster hopper() { return box("h100", 450, 50, 8); }

GroupSpan group(int ranks, int per_domain) {
  GroupSpan span;
  span.ranks = ranks;
  span.domains = (ranks + per_domain - 1) / per_domain;
  span.nodes = span.domains;
  span.max_per_domain = per_domain < ranks ? per_domain : ranks;
  span.min_per_domain = span.max_per_domain;
  return span;
}

constexpr std::initializer_list<Collective> group_operations{Collective::all_reduce, Collective::all_gather,
                                                             Collective::reduce_scatter, Collective::all_to_all,
                                                             Collective::broadcast};

double busbw(Collective kind, const CollectiveTime& time, double bytes, int ranks) {
  return bytes / time.time.value * busbw_factor(kind, ranks) / 1e9;
}

TEST_CASE("worked case D: 512 MB all-reduce on 8 devices in 1.82 ms") {
  const double algbw = 512e6 / 1.82e-3 / 1e9;
  CHECK(algbw == Approx(281.3).epsilon(2e-4));
  CHECK(algbw * busbw_factor(Collective::all_reduce, 8) == Approx(492.3).epsilon(2e-4));
}

TEST_CASE("busbw factors are those of nccl-tests") {
  CHECK(busbw_factor(Collective::all_reduce, 2) == 1);
  CHECK(busbw_factor(Collective::all_gather, 4) == 0.75);
  CHECK(busbw_factor(Collective::reduce_scatter, 4) == 0.75);
  CHECK(busbw_factor(Collective::all_to_all, 8) == 0.875);
  CHECK(busbw_factor(Collective::send_receive, 2) == 1);
  CHECK(busbw_factor(Collective::broadcast, 8) == 1);
  for (int n = 2; n <= 4096; n *= 2) CHECK(busbw_factor(Collective::all_reduce, n) >= 1);
}

TEST_CASE("one rank or no bytes take no time") {
  for (const Collective kind : group_operations) {
    CHECK(collective_time(hopper(), kind, gigabytes(1), group(1, 8), gb_per_s(50)).time.value == 0);
    CHECK(collective_time(hopper(), kind, Bytes(0), group(16, 8), gb_per_s(50)).time.value == 0);
    CHECK(collective_time(hopper(), kind, Bytes(-1), group(16, 8), gb_per_s(50)).time.value == 0);
  }
  CHECK(send_receive_time(hopper(), Bytes(0), false).time.value == 0);
  CHECK(dispatch_time(hopper(), {}, group(8, 8), gb_per_s(50)).balanced().value == 0);
}

TEST_CASE("an H100 box reaches the published bus bandwidths") {
  const auto reached = [](Collective kind) {
    return busbw(kind, collective_time(hopper(), kind, gigabytes(8), group(8, 8), gb_per_s(50)), 8e9, 8);
  };
  CHECK(reached(Collective::all_reduce) == Approx(478).epsilon(0.05));  // NVLS
  CHECK(reached(Collective::all_gather) == Approx(366).epsilon(0.05));
  CHECK(reached(Collective::all_to_all) == Approx(340).epsilon(0.05));
  CHECK(collective_time(hopper(), Collective::all_reduce, gigabytes(1), group(8, 8), {}).algorithm == "nvls");
  CHECK(collective_time(hopper(), Collective::all_reduce, gigabytes(1), group(4, 8), {}).algorithm == "ring");
}

TEST_CASE("across boxes the NICs set the rate, except for two boxes") {
  const auto reached = [](int nodes) {
    const GroupSpan span = group(8 * nodes, 8);
    return busbw(Collective::all_reduce,
                 collective_time(hopper(), Collective::all_reduce, gigabytes(16), span, gb_per_s(50)), 16e9, 8 * nodes);
  };
  CHECK(reached(8) == Approx(387).epsilon(0.05));  // published, H100 with NDR
  CHECK(reached(2) == Approx(487).epsilon(0.06));  // published, two Hopper nodes
}

TEST_CASE("multi-node all-to-all stays under its bus bandwidth bound") {
  for (int nodes : {2, 4, 8, 32}) {
    const int n = 8 * nodes;
    const CollectiveTime time =
        collective_time(hopper(), Collective::all_to_all, gigabytes(4), group(n, 8), gb_per_s(50));
    const double bound = 50.0 * (n - 1) / ((nodes - 1) * 8);
    CHECK(busbw(Collective::all_to_all, time, 4e9, n) < bound);
    CHECK(busbw(Collective::all_to_all, time, 4e9, n) > 0.75 * bound);
  }
}

TEST_CASE("collective times grow with the size and with the span") {
  for (const Collective kind : group_operations) {
    for (const int per_domain : {1, 4, 8}) {
      for (double bytes = 1; bytes < 1e11; bytes *= 7) {
        const CollectiveTime small = collective_time(hopper(), kind, Bytes(bytes), group(32, per_domain), gb_per_s(50));
        const CollectiveTime large =
            collective_time(hopper(), kind, Bytes(bytes * 1.5), group(32, per_domain), gb_per_s(50));
        const CollectiveTime wide = collective_time(hopper(), kind, Bytes(bytes), group(64, per_domain), gb_per_s(50));
        INFO(name(kind) << " " << bytes << " B, " << per_domain << " a domain");
        CHECK(std::isfinite(small.time.value));
        CHECK(small.time.value > 0);
        CHECK(small.latency <= small.time);
        CHECK(large.time > small.time);
        CHECK(wide.time >= small.time);
      }
    }
  }
}

TEST_CASE("faster links shorten every collective") {
  Cluster fast_nvlink = hopper();
  fast_nvlink.nvlink_bandwidth = gb_per_s(900);
  for (const Collective kind : group_operations) {
    const Bytes bytes(1e9);
    CHECK(collective_time(hopper(), kind, bytes, group(64, 8), gb_per_s(50)).time <
          collective_time(hopper(), kind, bytes, group(64, 8), gb_per_s(25)).time);
    CHECK(collective_time(fast_nvlink, kind, bytes, group(8, 8), gb_per_s(50)).time <
          collective_time(hopper(), kind, bytes, group(8, 8), gb_per_s(50)).time);
    Cluster slow = hopper();
    slow.nic_latency = microseconds(20);
    CHECK(collective_time(slow, kind, bytes, group(64, 8), gb_per_s(50)).time >
          collective_time(hopper(), kind, bytes, group(64, 8), gb_per_s(50)).time);
  }
}

TEST_CASE("send and receive ride NVLink inside a domain and one NIC outside") {
  const CollectiveTime inside = send_receive_time(hopper(), gigabytes(1), true);
  const CollectiveTime outside = send_receive_time(hopper(), gigabytes(1), false);
  CHECK(inside.time < outside.time);
  CHECK(inside.nic_per_rank.value == 0);
  CHECK(outside.nic_per_rank.value == 1e9);
  CHECK((outside.time - outside.latency).value == Approx(1e9 / 47.5e9));
}

TEST_CASE("distinct domains of a token") {
  CHECK(expected_domains(1, 8, 0) == 1);
  CHECK(expected_domains(2, 1, 0) == Approx(1));
  CHECK(expected_domains(8, 8, 0) == Approx(8 * (1 - std::pow(7.0 / 8, 8))));
  CHECK(expected_domains(8, 2, 0, 0, 8) == Approx(2));  // eight experts on eight ranks: two ranks
  CHECK(expected_domains(8, 8, 4) == Approx(4 * (1 - std::pow(0.75, 8))));
  CHECK(expected_domains(8, 8, 8) == expected_domains(8, 8, 0));
  // DeepSeek-V3: 4 of 8 groups on 4 domains; a domain is missed by C(6,4)/C(8,4) = 15/70 of the choices.
  const double many = expected_domains(4, 1000, 4, 8);
  CHECK(many == Approx(4 * (1 - 15.0 / 70)));
  for (int domains = 1; domains <= 64; domains *= 2) {
    for (int k : {1, 2, 8, 22}) {
      const double d = expected_domains(domains, k, 4, 8);
      CHECK(d >= 1 - 1e-9);
      CHECK(d <= std::min(domains, k) + 1e-9);
      CHECK(expected_domains(domains, k, 4, 8, 256) >= d - 1e-9);  // distinct experts spread more
    }
  }
}

DispatchCall deepseek(Dispatcher dispatcher, DispatchPhase phase, double bytes_per_element) {
  DispatchCall call;
  call.dispatcher = dispatcher;
  call.phase = phase;
  call.tokens = 4096;
  call.bytes_per_token = 7168 * bytes_per_element;
  call.top_k = 8;
  call.experts = 256;
  return call;
}

double microseconds_of(const Cluster& cluster, const DispatchCall& call, int ep) {
  return dispatch_time(cluster, call, group(ep, cluster.nvlink_domain), cluster.nic_bandwidth).balanced().value * 1e6;
}

TEST_CASE("NCCL all-to-all dispatch matches arXiv 2603.07685 Table 7") {
  const DispatchCall call = deepseek(Dispatcher::all_to_all, DispatchPhase::dispatch, 2);
  const Cluster rack = box("gb200", 900, 50, 64);
  const double h100[] = {1265, 5774, 8059, 9164};
  const double gb200[] = {735, 743, 769, 930};
  for (int i = 0; i < 4; ++i) {
    CHECK(microseconds_of(hopper(), call, 8 << i) == Approx(h100[i]).epsilon(0.08));
    CHECK(microseconds_of(rack, call, 8 << i) == Approx(gb200[i]).epsilon(0.13));
  }
}

TEST_CASE("HybridEP dispatch and combine match arXiv 2603.07685 Table 7") {
  const Cluster rack = box("gb200", 900, 50, 64);
  const double h100_dispatch[] = {661, 1485, 3064, 4626};
  const double h100_combine[] = {624, 1688, 3088, 4398};
  const double gb200_dispatch[] = {391, 578, 612, 675};
  const double gb200_combine[] = {353, 527, 646, 744};
  for (int i = 0; i < 4; ++i) {
    DispatchCall call = deepseek(Dispatcher::hybridep, DispatchPhase::dispatch, 2);
    call.node_limit = 4;
    call.route_groups = 8;
    CHECK(microseconds_of(hopper(), call, 8 << i) == Approx(h100_dispatch[i]).epsilon(0.12));
    CHECK(microseconds_of(rack, call, 8 << i) == Approx(gb200_dispatch[i]).epsilon(0.12));
    call.phase = DispatchPhase::combine;
    CHECK(microseconds_of(hopper(), call, 8 << i) == Approx(h100_combine[i]).epsilon(0.2));
    CHECK(microseconds_of(rack, call, 8 << i) == Approx(gb200_combine[i]).epsilon(0.12));
  }
}

TEST_CASE("DeepEP on H800 matches its published bandwidths") {
  const Cluster h800 = box("h800", 160, 50, 8);
  struct Published {
    int ep;
    double dispatch, combine;  // GB/s of payload at the bottleneck, the share of the own node counted
  };
  for (const Published& row : {Published{32, 58, 57}, Published{64, 51, 50}}) {
    DispatchCall call = deepseek(Dispatcher::deepep, DispatchPhase::dispatch, 1 + 4.0 / 128);
    call.node_limit = 4;
    const double domains = expected_domains(row.ep / 8, 8, 4, 0, 256);
    const double dispatch = 4096 * call.bytes_per_token * domains / microseconds_of(h800, call, row.ep) / 1e3;
    CHECK(dispatch == Approx(row.dispatch).epsilon(0.1));
    call.phase = DispatchPhase::combine;
    call.bytes_per_token = 7168 * 2;
    const double combine = 4096 * call.bytes_per_token * domains / microseconds_of(h800, call, row.ep) / 1e3;
    CHECK(combine == Approx(row.combine).epsilon(0.1));
  }
}

TEST_CASE("dispatch costs less with de-duplication, a node limit, fp8 and more SMs") {
  const DispatchCall plain = deepseek(Dispatcher::all_to_all, DispatchPhase::dispatch, 2);
  DispatchCall deduplicated = deepseek(Dispatcher::deepep, DispatchPhase::dispatch, 2);
  CHECK(microseconds_of(hopper(), deduplicated, 64) < microseconds_of(hopper(), plain, 64));
  DispatchCall limited = deduplicated;
  limited.node_limit = 4;
  CHECK(microseconds_of(hopper(), limited, 64) < microseconds_of(hopper(), deduplicated, 64));
  DispatchCall narrow = deduplicated;
  narrow.bytes_per_token /= 2;
  CHECK(microseconds_of(hopper(), narrow, 64) < microseconds_of(hopper(), deduplicated, 64));
  DispatchCall few = deduplicated;
  few.sms = 4;
  CHECK(microseconds_of(hopper(), few, 16) > microseconds_of(hopper(), deduplicated, 16));
}

TEST_CASE("a rank with twice the rows takes twice the variable part") {
  for (const Dispatcher dispatcher : {Dispatcher::all_to_all, Dispatcher::deepep, Dispatcher::hybridep}) {
    const DispatchCall call = deepseek(dispatcher, DispatchPhase::combine, 2);
    const DispatchTime time = dispatch_time(hopper(), call, group(32, 8), gb_per_s(50));
    CHECK(time.mean_rows == 4096 * 8);
    CHECK(time.per_row.value > 0);
    CHECK(time.nic_per_rank.value > 0);
  }
  const DispatchCall gather = deepseek(Dispatcher::all_gather, DispatchPhase::dispatch, 2);
  CHECK(dispatch_time(hopper(), gather, group(8, 8), gb_per_s(50)).per_row.value == 0);
}

TEST_CASE("every device class has constants for every operation and size") {
  for (const CollectiveFits& fits : all_collective_fits()) {
    for (const Collective kind : group_operations) {
      if (kind == Collective::broadcast) continue;
      for (int n : {2, 3, 4, 5, 7, 8, 16, 64, 72, 384}) {
        const InDomainFit fit = in_domain_fit(fits, kind, n);
        INFO(fits.device << " " << name(kind) << " " << n);
        CHECK(fit.alpha_us > 0);
        CHECK(fit.busbw_gb_per_s > 0);
        CHECK(fit.gamma_us >= 0);
      }
    }
  }
  Device unknown;
  unknown.name = "new-chip";
  unknown.nvlink_bandwidth = gb_per_s(800);
  CHECK(collective_fits(unknown).nvlink_gb_per_s == 900);
  unknown.name = "a100-40gb";
  CHECK(collective_fits(unknown).device == "a100");
}

}  // namespace
}  // namespace stepcast::topology
