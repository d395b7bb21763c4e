// Cluster, software and the parallel layout of the arguments.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "parallelism/layout.h"
#include "parallelism/pipeline_layout.h"
#include "parallelism/stage_split.h"
#include "scenarios/megatron/import_parts.h"

namespace stepcast::scenarios::megatron {
namespace {

using Json = nlohmann::ordered_json;

constexpr long long largest = parallelism::largest_degree;
constexpr long long most_devices = parallelism::most_devices;
constexpr const char* default_software = "megatron-core-2025";

// Devices that torchrun or the world size name; 0: none.
long long launched(ArgumentSet& arguments) {
  const auto first_number = [&](std::string_view name) -> long long {
    const auto values = arguments.list(name);
    if (values.empty()) return 0;
    const std::string& value = values.front();
    const bool whole = !value.empty() && value.size() < 8 && value.find_first_not_of("0123456789") == std::string::npos;
    return whole ? std::stoll(value) : 0;
  };
  long long per_node = 0, nodes = 0;
  for (const char* name : {"--nproc_per_node", "--nproc-per-node"}) per_node = std::max(per_node, first_number(name));
  for (const char* name : {"--nnodes"}) nodes = std::max(nodes, first_number(name));
  if (const long long world = first_number("--world-size"); world > 0) return world;
  return per_node > 0 ? per_node * std::max(1LL, nodes) : 0;
}

int devices_of(const Json& cluster) {
  if (!cluster.is_object()) return 0;
  if (cluster.contains("devices") && cluster["devices"].is_number_integer()) return cluster["devices"].get<int>();
  return 0;
}

class LayoutReader {
 public:
  explicit LayoutReader(ImportDraft& draft) : draft_(draft), arguments_(draft.arguments) {}

  void read() {
    tp_ = degree("tp", "--tensor-model-parallel-size");
    draft_.set("/parallelism/sequence_parallel", arguments_.flag("--sequence-parallel"), "--sequence-parallel");
    pp_ = degree("pp", "--pipeline-model-parallel-size");
    cp_ = degree("cp", "--context-parallel-size");
    if (const auto kind = arguments_.choice("--cp-comm-type", {"p2p", "allgather", "a2a", "a2a+p2p"})) {
      const char* const names[] = {"ring", "allgather", "a2a", "a2a+ring"};
      draft_.set("/parallelism/cp_kind", names[*kind], "--cp-comm-type");
    }
    degree("ep", "--expert-model-parallel-size");
    read_expert_tensor();
    if (arguments_.flag("--use-tp-pp-dp-mapping"))
      draft_.set("/parallelism/order", "tp-cp-ep-pp-dp", "--use-tp-pp-dp-mapping");
    read_pieces();
    read_schedule();
    read_sharding();
  }

 private:
  long long degree(const char* key, std::string_view name) {
    const long long value = arguments_.integer(name, 1, largest).value_or(1);
    draft_.set(std::string("/parallelism/") + key, value, name);
    return value;
  }

  void read_expert_tensor() {
    const auto given = arguments_.integer("--expert-tensor-parallel-size", 1, largest);
    const bool moe = draft_.model && draft_.model->is_moe();
    if (!given && moe && tp_ > 1) {
      draft_.assume(
          fmt::format("--expert-tensor-parallel-size not given: {}, the tensor-parallel size, as Megatron-LM "
                      "takes it",
                      tp_));
    }
    draft_.set("/parallelism/etp", given.value_or(moe ? tp_ : 1), "--expert-tensor-parallel-size");
  }

  void read_pieces() {
    const int layers = draft_.model ? draft_.model->layer_count() : 0;
    long long vpp = 1;
    const auto stages = arguments_.integer("--num-virtual-stages-per-pipeline-rank", 1, largest);
    const auto per_stage = arguments_.integer("--num-layers-per-virtual-pipeline-stage", 1, largest);
    const auto layout = arguments_.text("--pipeline-model-parallel-layout");
    if (stages) vpp = *stages;
    if (!stages && per_stage && layers > 0) {
      if (layers % (pp_ * *per_stage) != 0) {
        arguments_.fail(
            "--num-layers-per-virtual-pipeline-stage",
            fmt::format("{} layers on each of {} stages do not divide the model's {} layers", *per_stage, pp_, layers));
        return;
      }
      vpp = layers / (pp_ * *per_stage);
    }
    if (layout) {
      read_layout(*layout);
      return;
    }
    vpp_ = vpp;
    draft_.set("/parallelism/vpp", vpp,
               stages ? "--num-virtual-stages-per-pipeline-rank" : "--num-layers-per-virtual-pipeline-stage");
    if (layers > 0) read_uneven(layers);
  }

  void read_layout(const std::string& layout) {
    const auto pieces = parallelism::parse_pipeline_layout(layout);
    if (!pieces) {
      arguments_.fail("--pipeline-model-parallel-layout", pieces.errors().front().message);
      return;
    }
    const auto count = static_cast<long long>(pieces->size());
    if (count % pp_ != 0) {
      arguments_.fail("--pipeline-model-parallel-layout",
                      fmt::format("it has {} stages; {} pipeline ranks must divide them", count, pp_));
      return;
    }
    vpp_ = count / pp_;
    draft_.set("/parallelism/vpp", vpp_, "--pipeline-model-parallel-layout");
    if (derived(layout, static_cast<int>(count))) return;
    draft_.set("/parallelism/pipeline_layout", layout, "--pipeline-model-parallel-layout");
  }

  // The export wrote out a split that the scenario gave otherwise: true if it still is that one.
  bool derived(const std::string& layout, int pieces) {
    const Json::json_pointer mark("/parallelism/pipeline_layout");
    const Json::json_pointer counts("/parallelism/stage_layers");
    if (!draft_.model || !draft_.carried.is_object() || !draft_.carried.contains(mark)) return false;
    parallelism::SplitRequest request{
        .layers = draft_.model->layer_count(), .mtp_layers = draft_.model->mtp_layers, .virtual_stages = pieces};
    parallelism::SplitRequest written = request;
    written.pipeline_layout = layout;
    if (draft_.carried.contains(counts) && draft_.carried[counts].is_array()) {
      for (const Json& n : draft_.carried[counts])
        request.stage_layers.push_back(n.is_number_integer() ? n.get<int>() : -1);
    }
    const auto own = parallelism::split_stages(request);
    const auto given = parallelism::split_stages(written);
    bool same = own.ok() && given.ok();
    for (std::size_t i = 0; same && i < own->pieces.size(); ++i) {
      same =
          own->pieces[i].layers == given->pieces[i].layers && own->pieces[i].mtp_layers == given->pieces[i].mtp_layers;
    }
    if (!same) {
      draft_.warn("the split over stages of the comment is not that of the arguments; the arguments are taken");
      draft_.carried["parallelism"].erase("stage_layers");
    }
    return same;
  }

  // Layers a piece by Megatron's rules for uneven ends; nothing is set where the loader's own rule agrees.
  void read_uneven(int layers) {
    const auto first = arguments_.integer("--decoder-first-pipeline-num-layers", 1, layers);
    const auto last = arguments_.integer("--decoder-last-pipeline-num-layers", 1, layers);
    const bool embedding = arguments_.flag("--account-for-embedding-in-pipeline-split");
    const bool loss = arguments_.flag("--account-for-loss-in-pipeline-split");
    const long long pieces = pp_ * vpp_;
    std::vector<long long> counts;
    if (first || last) {
      counts = by_ends(layers, first, last);
    } else if (embedding || loss) {
      const long long all = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
      if (all % pieces != 0) {
        arguments_.fail(
            embedding ? "--account-for-embedding-in-pipeline-split" : "--account-for-loss-in-pipeline-split",
            fmt::format("{} layers with those counted in do not divide into {} stages", all, pieces));
        return;
      }
      counts.assign(static_cast<std::size_t>(pieces), all / pieces);
      if (embedding) --counts.front();
      if (loss) --counts.back();
    } else if (layers % pieces != 0) {
      draft_.warn(
          fmt::format("{} layers do not divide into {} stages and no argument places them: Megatron-LM refuses "
                      "this; they are spread evenly here",
                      layers, pieces));
    }
    if (counts.empty()) return;
    const auto own = parallelism::split_stages({.layers = layers, .virtual_stages = static_cast<int>(pieces)});
    bool same = own.ok();
    for (std::size_t i = 0; same && i < counts.size(); ++i) same = own->pieces[i].layers == counts[i];
    if (!same)
      draft_.set("/parallelism/stage_layers", counts,
                 first       ? "--decoder-first-pipeline-num-layers"
                 : last      ? "--decoder-last-pipeline-num-layers"
                 : embedding ? "--account-for-embedding-in-pipeline-split"
                             : "--account-for-loss-in-pipeline-split");
  }

  // A pipeline rank's layers are shared out over its chunks; piece i is chunk i / pp of rank i mod pp.
  std::vector<long long> by_ends(long long layers, std::optional<long long> first, std::optional<long long> last) {
    const std::string_view name = first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers";
    const long long middle_ranks = pp_ - (first ? 1 : 0) - (last ? 1 : 0);
    const long long rest = layers - first.value_or(0) - last.value_or(0);
    if (middle_ranks < 0 || rest < 0 || (middle_ranks == 0 && rest != 0) ||
        (middle_ranks > 0 && rest % (middle_ranks * vpp_) != 0) || first.value_or(0) % vpp_ != 0 ||
        last.value_or(0) % vpp_ != 0) {
      arguments_.fail(name, fmt::format("{} layers, {} on the first and {} on the last rank, do not divide over {} "
                                        "ranks of {} chunks",
                                        layers, first ? std::to_string(*first) : "an equal share",
                                        last ? std::to_string(*last) : "an equal share", pp_, vpp_));
      return {};
    }
    std::vector<long long> counts;
    for (long long piece = 0; piece < pp_ * vpp_; ++piece) {
      const long long rank = piece % pp_;
      const bool at_first = first && rank == 0;
      const bool at_last = last && rank == pp_ - 1;
      const long long share = at_first ? *first : at_last ? *last : middle_ranks > 0 ? rest / middle_ranks : 0;
      counts.push_back(share / vpp_);
    }
    return counts;
  }

  void read_schedule() {
    const bool coscheduled = arguments_.flag("--overlap-moe-expert-parallel-comm");
    const char* schedule = coscheduled ? "coscheduled" : vpp_ > 1 ? "interleaved" : "1f1b";
    draft_.set("/parallelism/schedule", schedule, "--overlap-moe-expert-parallel-comm");
    draft_.set("/overlap/ep", coscheduled, "--overlap-moe-expert-parallel-comm");
    if (const auto group = arguments_.integer("--microbatch-group-size-per-virtual-pipeline-stage", 1, 1 << 28))
      draft_.set("/parallelism/schedule_group", *group, "--microbatch-group-size-per-virtual-pipeline-stage");
  }

  void read_sharding() {
    const bool optimizer = arguments_.flag("--use-distributed-optimizer");
    bool fsdp = arguments_.flag("--use-megatron-fsdp");
    fsdp = arguments_.flag("--use-custom-fsdp") || fsdp;
    const bool torch = arguments_.flag("--use-torch-fsdp2");
    std::string sharding = torch ? "zero3" : optimizer ? "zero1" : "none";
    if (fsdp) {
      const auto strategy = arguments_.choice("--data-parallel-sharding-strategy",
                                              {"no_shard", "optim", "optim_grads", "optim_grads_params"});
      const char* const names[] = {"none", "zero1", "zero2", "zero3"};
      sharding = names[strategy.value_or(3)];
      if (sharding == "zero3") read_instances(sharding);
    }
    draft_.set("/parallelism/sharding", sharding, "--use-distributed-optimizer");
  }

  void read_instances(std::string& sharding) {
    constexpr const char* name = "--num-distributed-optimizer-instances";
    const auto instances = arguments_.integer(name, 1, most_devices);
    if (!instances || *instances == 1) return;
    const long long replicas = draft_.devices / std::max(1LL, tp_ * pp_);
    if (draft_.devices == 0 || replicas % *instances != 0) {
      arguments_.fail(
          name, fmt::format("{} instances do not divide the {} ranks that share parameters", *instances, replicas));
      return;
    }
    sharding = "hsdp";
    draft_.set("/parallelism/shard_group", replicas / *instances, name);
  }

  ImportDraft& draft_;
  ArgumentSet& arguments_;
  long long tp_ = 1, pp_ = 1, cp_ = 1, vpp_ = 1;
};

}  // namespace

void import_cluster(ImportDraft& draft) {
  const long long count = launched(draft.arguments);
  std::string cluster = draft.options.cluster;
  const bool carried = draft.carried.is_object() && draft.carried.contains("cluster");
  if (cluster.empty() && carried) {
    draft.made.scenario["cluster"] = draft.carried["cluster"];
  } else if (cluster.empty()) {
    draft.errors.push_back(make_error(ErrorCode::usage,
                                      "Megatron-LM's arguments do not name the hardware: --cluster NAME:N is needed, "
                                      "as in h100:64",
                                      "--cluster"));
  } else {
    if (cluster.find(':') == std::string::npos && count > 0) {
      cluster += fmt::format(":{}", count);
      draft.assume(fmt::format("{} devices, as the launcher's arguments say", count));
    }
    draft.made.scenario["cluster"] = cluster;
    const auto colon = cluster.find(':');
    if (colon != std::string::npos) {
      draft.devices = static_cast<int>(
          std::clamp(std::strtol(cluster.c_str() + colon + 1, nullptr, 10), 0L, static_cast<long>(most_devices)));
    }
  }
  if (draft.devices == 0) draft.devices = devices_of(draft.made.scenario.value("cluster", Json()));
  if (count > 0 && draft.devices > 0 && count != draft.devices) {
    draft.warn(fmt::format("the launcher's arguments say {} devices; the cluster has {}", count, draft.devices));
  }
  if (draft.carried.is_object() && draft.carried.contains("software")) return;
  draft.made.scenario["software"] = default_software;
  draft.assume(
      fmt::format("software: {}, as the arguments do not tell the generation (--set software=NAME)", default_software));
}

void import_layout(ImportDraft& draft) { LayoutReader(draft).read(); }

}  // namespace stepcast::scenarios::megatron
