// A plan as table, JSON and CSV.
#include <algorithm>

#include <fmt/format.h>

#include "scenarios/plan/plan.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t moved_parts = 6;
constexpr double gigabyte = 1e9;

double per_cpu_second(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

Json layout_json(const PlannedLayout& l, std::size_t rank) {
  const Point& p = l.point;
  Json parallelism = {{"tp", p.tp},
                      {"cp", p.cp},
                      {"pp", p.pp},
                      {"vpp", p.vpp},
                      {"ep", p.ep},
                      {"etp", p.etp},
                      {"dp", p.devices / (p.tp * p.cp * p.pp)},
                      {"schedule", parallelism::info(p.schedule).name},
                      {"sharding", sharding_names()[static_cast<std::size_t>(p.sharding)]}};
  Json j = {{"rank", rank},
            {"devices", p.devices},
            {"parallelism", parallelism},
            {"global_batch", p.global_batch},
            {"micro_batch", p.micro_batch},
            {"dispatcher", parallelism::name(p.dispatcher)},
            {"recompute", l.recompute},
            {"overlap", l.overlap},
            {"layout", l.words},
            {"step_time_s", l.step_time_s},
            {"bound_s", l.bound_s},
            {"tokens_per_s", l.tokens_per_s},
            {"tokens_per_s_per_device", l.tokens_per_s / p.devices},
            {"mfu", l.mfu},
            {"peak_bytes", l.peak_bytes},
            {"free_memory_share", l.free_share}};
  if (l.cost_per_million_tokens > 0) j["cost_per_million_tokens"] = l.cost_per_million_tokens;
  j["settings"] = l.settings;
  return j;
}

Json layouts_json(const std::vector<PlannedLayout>& layouts) {
  Json out = Json::array();
  for (std::size_t i = 0; i < layouts.size(); ++i) out.push_back(layout_json(layouts[i], i + 1));
  return out;
}

Json counts_json(const Counts& c) {
  Json refused = Json::object();
  for (std::size_t i = 0; i < refusal_count; ++i) refused[name(static_cast<Refusal>(i))] = c.refused[i];
  return {{"enumerated", c.enumerated},
          {"indivisible",
           c.refused[static_cast<std::size_t>(Refusal::degrees)] + c.refused[static_cast<std::size_t>(Refusal::batch)]},
          {"refused", refused},
          {"valid", c.valid},
          {"closely_bound", c.closely_bound},
          {"simulated", c.simulated},
          {"out_of_memory", c.out_of_memory + c.refused[static_cast<std::size_t>(Refusal::memory)]},
          {"failed", c.failed},
          {"pruned", c.pruned}};
}

std::string rows(const std::vector<PlannedLayout>& layouts, bool devices, bool price) {
  std::string out =
      fmt::format("  {:>4} {:>10} {:>11} {:>7} {:>9} {:>6}{}{}  layout\n", "rank", "step time", "tokens/s", "MFU",
                  "peak", "free", price ? "   cost/Mtok" : "", devices ? "  devices" : "");
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const PlannedLayout& l = layouts[i];
    out += fmt::format("  {:>4} {:>8.4g} s {:>11.4g} {:>5.1f} % {:>6.1f} GB {:>4.0f} %{}{}  {}\n", i + 1, l.step_time_s,
                       l.tokens_per_s, 100 * l.mfu, l.peak_bytes / gigabyte, 100 * l.free_share,
                       price ? fmt::format("{:>12.4g}", l.cost_per_million_tokens) : "",
                       devices ? fmt::format("{:>9}", l.point.devices) : "", l.words);
  }
  return out;
}

std::string counts_text(const PlanResult& r) {
  const Counts& c = r.counts;
  std::string out = fmt::format("\nSearched\n  {:>12} points enumerated\n", c.enumerated);
  for (std::size_t i = 0; i < refusal_count; ++i) {
    if (c.refused[i] > 0) out += fmt::format("  {:>12} refused: {}\n", c.refused[i], words(static_cast<Refusal>(i)));
  }
  out +=
      fmt::format("  {:>12} valid, each with a lower bound; {} of them with the close one\n", c.valid, c.closely_bound);
  out += fmt::format("  {:>12} {}\n", c.pruned,
                     r.interrupted ? "not simulated: the search was interrupted"
                                   : "could not win: their bound is above what was found");
  if (c.out_of_memory > 0) out += fmt::format("  {:>12} survivors out of memory\n", c.out_of_memory);
  if (c.failed > 0) out += fmt::format("  {:>12} survivors refused by the lowering\n", c.failed);
  out += fmt::format("  {:>12} simulated exactly, one sampled step (ranks that are alike by one lane)\n", c.simulated);
  out += fmt::format("  {:.0f} layouts judged a CPU-second, {:.2f} simulated a CPU-second; {:.1f} s on {} thread{}\n",
                     per_cpu_second(static_cast<double>(c.valid), r.cost.judging_cpu_s),
                     per_cpu_second(static_cast<double>(c.simulated), r.cost.simulating_cpu_s), r.cost.wall_s,
                     r.threads, r.threads == 1 ? "" : "s");
  return out;
}

std::string versus(const PlanResult& r) {
  if (r.against_runner_up.empty()) return "";
  const Comparison& c = r.against_runner_up.front();
  std::string out =
      fmt::format("\nWhy the first beats the second ({:.4g} s against {:.4g} s)\n", c.b.step_time_s, c.a.step_time_s);
  std::size_t shown = 0;
  for (const Moved& m : c.parts) {
    if (shown++ == moved_parts) break;
    out += fmt::format("  {:<14} {:>9.4g} s -> {:>9.4g} s  {:+.4g} s\n", m.name, m.a, m.b, m.b - m.a);
  }
  for (const std::string& d : c.other_differences) out += "  " + d + "\n";
  return out;
}

}  // namespace

Json to_json(const PlanResult& r) {
  Json j = {{"schema", plan_schema},
            {"scenario", r.scenario},
            {"model", r.model},
            {"cluster", r.cluster},
            {"memory_limit_bytes", r.memory_limit},
            {"samples", r.samples},
            {"layouts", layouts_json(r.layouts)},
            {"counts", counts_json(r.counts)},
            {"layouts_per_s", per_cpu_second(static_cast<double>(r.counts.valid), r.cost.judging_cpu_s)},
            {"search",
             {{"judging_cpu_s", r.cost.judging_cpu_s},
              {"simulating_cpu_s", r.cost.simulating_cpu_s},
              {"simulated_per_cpu_s", per_cpu_second(static_cast<double>(r.counts.simulated), r.cost.simulating_cpu_s)},
              {"wall_s", r.cost.wall_s},
              {"threads", r.threads}}}};
  if (r.price > 0) j["price_per_device_hour"] = r.price;
  j["memory_front"] = layouts_json(r.memory_front);
  j["headroom_levels"] = r.headroom_levels;
  if (!r.devices_front.empty()) j["devices_front"] = layouts_json(r.devices_front);
  if (!r.against_runner_up.empty()) j["against_runner_up"] = scenarios::to_json(r.against_runner_up.front());
  j["winner"] = r.winner;
  j["winner_megatron"] = megatron::to_json(r.winner_arguments);
  j["assumptions"] = r.assumptions;
  j["warnings"] = r.warnings;
  j["interrupted"] = r.interrupted;
  return j;
}

std::string to_table(const PlanResult& r, bool /*colour*/) {
  const bool devices = !r.devices_front.empty();
  const bool price = r.price > 0;
  std::string out = fmt::format("Layouts of {} on {}: the {} fastest that leave {:.1f} GB or less in use\n\n", r.model,
                                r.cluster, r.layouts.size(), r.memory_limit / gigabyte);
  out += rows(r.layouts, devices, price);
  out += versus(r);
  if (r.memory_front.size() > 1)
    out += "\nThroughput against free memory (none is beaten in both)\n" + rows(r.memory_front, devices, price);
  if (devices) out += "\nThroughput against devices\n" + rows(r.devices_front, devices, price);
  out += counts_text(r);
  if (r.interrupted && r.layouts.empty()) {
    out += "\ninterrupted before a layout was simulated\n";
  } else if (r.interrupted) {
    out += "\ninterrupted: the best of what was simulated so far, not the optimum\n";
  }
  for (const std::string& w : r.warnings) out += fmt::format("\nwarning: {}\n", w);
  return out;
}

std::string to_csv(const PlanResult& r) {
  std::string out = csv_line({"rank",
                              "devices",
                              "global_batch",
                              "micro_batch",
                              "tp",
                              "cp",
                              "pp",
                              "vpp",
                              "ep",
                              "etp",
                              "schedule",
                              "sharding",
                              "recompute",
                              "dispatcher",
                              "overlap",
                              "step_time_s",
                              "tokens_per_s",
                              "mfu",
                              "peak_bytes",
                              "free_memory_share",
                              "cost_per_million_tokens"});
  for (std::size_t i = 0; i < r.layouts.size(); ++i) {
    const PlannedLayout& l = r.layouts[i];
    const Point& p = l.point;
    std::vector<std::string> cells = {std::to_string(i + 1)};
    for (const int n : {p.devices, p.global_batch, int{p.micro_batch}, int{p.tp}, int{p.cp}, int{p.pp}, int{p.vpp},
                        int{p.ep}, int{p.etp}})
      cells.push_back(std::to_string(n));
    for (const std::string_view name :
         {std::string_view(parallelism::info(p.schedule).name),
          std::string_view(sharding_names()[static_cast<std::size_t>(p.sharding)]), std::string_view(l.recompute),
          std::string_view(parallelism::name(p.dispatcher)), std::string_view(l.overlap)})
      cells.emplace_back(name);
    for (const double x : {l.step_time_s, l.tokens_per_s, l.mfu, l.peak_bytes, l.free_share})
      cells.push_back(csv_number(x));
    cells.push_back(l.cost_per_million_tokens > 0 ? csv_number(l.cost_per_million_tokens) : std::string());
    out += csv_line(cells);
  }
  return out;
}

}  // namespace stepcast::scenarios::plan
