#include "parallelism/tails.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/rng.h"

namespace stepcast::parallelism {
namespace {

// Coordinates below one purpose.
enum : std::uint64_t { spread = 0, slow_device = 1, checkpoint = 1, garbage_collection = 2, data = 3 };

bool struck(RngKey key, double share) { return share > 0 && uniform(key) < share; }

double exponential(RngKey key, double mean) { return -mean * std::log(uniform(key)); }

double device_factor(const StepSpec& spec, std::uint64_t drawn, std::uint64_t sample, int device) {
  const Noise& noise = spec.noise;
  const RngKey key = RngKey(spec.seed, drawn, Purpose::device_speed).with(static_cast<std::uint64_t>(device));
  double factor = 1;
  if (noise.device_sigma > 0) factor = std::max(0.5, 1.0 + noise.device_sigma * normal(key));
  if (struck(key.with(slow_device + 100), noise.slow_devices.share)) factor *= noise.slow_devices.factor;
  const RngKey epoch = RngKey(spec.seed, sample, Purpose::node_epoch)
                           .with(static_cast<std::uint64_t>(device / spec.cluster.devices_per_node));
  if (struck(epoch, noise.node_epochs.share)) factor *= noise.node_epochs.factor;
  return factor;
}

double stall_seconds(const StepSpec& spec, std::uint64_t sample, int device) {
  const Noise& noise = spec.noise;
  const RngKey key(spec.seed, sample, Purpose::stall);
  double seconds = 0;
  if (struck(key.with(checkpoint), noise.checkpoint_stalls.probability)) seconds += noise.checkpoint_stalls.mean_s;
  const RngKey gc = key.with(garbage_collection).with(static_cast<std::uint64_t>(device));
  if (struck(gc, noise.gc_stalls.probability)) seconds += exponential(gc.with(1), noise.gc_stalls.mean_s);
  const RngKey loader = key.with(data).with(static_cast<std::uint64_t>(device / spec.cluster.devices_per_node));
  if (struck(loader, noise.data_stalls.probability)) seconds += exponential(loader.with(1), noise.data_stalls.mean_s);
  return seconds;
}

}  // namespace

StepTails draw_tails(const StepSpec& spec, std::span<const DeviceId> placement, std::uint64_t sample) {
  const Noise& noise = spec.noise;
  const std::uint64_t drawn = noise.redraw ? sample : 0;
  StepTails tails;
  if (noise.device_sigma > 0 || noise.slow_devices.share > 0 || noise.node_epochs.share > 0) {
    for (const DeviceId d : placement) {
      tails.slow.push_back(static_cast<float>(device_factor(spec, drawn, sample, d.value)));
    }
  }
  if (noise.degraded_links.share > 0) {
    const int per_nic = spec.cluster.devices_per_node / spec.cluster.rails;
    for (const DeviceId d : placement) {
      const RngKey nic =
          RngKey(spec.seed, drawn, Purpose::link_quality).with(static_cast<std::uint64_t>(d.value / per_nic));
      tails.link_slow.push_back(
          static_cast<float>(struck(nic, noise.degraded_links.share) ? noise.degraded_links.factor : 1));
    }
  }
  const bool stalls =
      noise.checkpoint_stalls.probability > 0 || noise.gc_stalls.probability > 0 || noise.data_stalls.probability > 0;
  for (std::size_t r = 0; stalls && r < placement.size(); ++r) {
    tails.stalls.push_back(to_ticks(Seconds(stall_seconds(spec, sample, placement[r].value))));
  }
  return tails;
}

sim::Conditions conditions_of(const StepSpec& spec, const StepTails& tails, const sim::LoadSource* routing,
                              std::uint64_t reported) {
  sim::Conditions conditions;
  conditions.seed = spec.seed;
  conditions.slow_by_rank = tails.slow;
  conditions.kernel_sigma = spec.noise.kernel_sigma;
  conditions.loads = routing;
  conditions.link_slow_by_rank = tails.link_slow;
  conditions.stall_by_rank = tails.stalls;
  conditions.stall_step = reported;
  return conditions;
}

std::vector<std::string> describe_tails(const Noise& noise) {
  std::vector<std::string> lines;
  const char* drawn = noise.redraw ? "drawn anew for each sampled step" : "the same devices in every sampled step";
  if (noise.device_sigma > 0) {
    lines.push_back(fmt::format("device speeds: normal, sigma {:.3g}, {}", noise.device_sigma, drawn));
  }
  const auto strike = [&](const char* what, const Strike& s, const char* when) {
    if (s.share > 0) {
      lines.push_back(
          fmt::format("{}: a share of {:.3g} takes {:.3g} times the time, {}", what, s.share, s.factor, when));
    }
  };
  strike("slow devices", noise.slow_devices, drawn);
  strike("node epochs (thermal, power)", noise.node_epochs, "drawn anew for each sampled step");
  strike("degraded links", noise.degraded_links, drawn);
  const auto stall = [&](const char* what, const Stall& s, const char* law) {
    if (s.probability > 0) {
      lines.push_back(
          fmt::format("{} stalls: probability {:.3g} a step, {} {:.3g} s, on the host before its first launch", what,
                      s.probability, law, s.mean_s));
    }
  };
  stall("data", noise.data_stalls, "by node, exponential of mean");
  stall("garbage collection", noise.gc_stalls, "by rank, exponential of mean");
  stall("checkpoint", noise.checkpoint_stalls, "all ranks,");
  return lines;
}

}  // namespace stepcast::parallelism
