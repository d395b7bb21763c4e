#include "validation/mapping.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "parallelism/software.h"
#include "parallelism/software_generation.h"
#include "sim/base/text.h"
#include "validation/published_names.h"
#include "validation/software_tags.h"

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;

class Mapper {
 public:
  Mapper(const MeasuredRun& run, const std::filesystem::path& root) : run_(run), root_(root) {}

  Result<MappedRun> map() {
    software();
    model();
    cluster();
    parallelism();
    workload();
    precision();
    recompute();
    routing();
    overlap();
    notes();
    if (!errors_.empty()) return errors_;
    out_.scenario["seed"] = 1;
    return std::move(out_);
  }

 private:
  void refuse(std::string why) { errors_.push_back(make_error(ErrorCode::unsupported, std::move(why), run_.id)); }
  void assume(std::string what) { out_.assumed.push_back(std::move(what)); }
  void replace_software(const char* key, const Json& value) {
    Json& software = out_.scenario["software"];
    if (software.is_string()) software = {{"name", software}};
    software[key] = value;
  }

  void software() {
    std::string name = run_.text("software");
    if (name == "megatron-lm-2021" && run_.text("sharding") == "zero3") {
      assume("Megatron-LM of 2021 has no ZeRO-3: profile deepspeed-zero3-2021");
      name = "deepspeed-zero3-2021";
    }
    if (name == "megatron-deepspeed-2022" && lower_case(run_.text("precision")) == "fp16") {
      assume("megatron-deepspeed-2022 is the profile of its BF16 optimizer: FP16 takes megatron-deepspeed-2021");
      name = "megatron-deepspeed-2021";
    }
    if (!name.empty() && parallelism::load_software(root_, name).ok()) {
      out_.scenario["software"] = name;
      return;
    }
    std::string stand_in = "generic";
    if (const auto known = parallelism::software_names(root_); known.ok()) {
      stand_in = parallelism::nearest_generation(*known, name).value_or(stand_in);
    }
    out_.scenario["software"] = stand_in;
    assume(name.empty() ? "software not given: profile generic"
                        : fmt::format("software '{}' has no profile: {}", name, stand_in));
  }

  void model() {
    const std::string name = run_.text("model");
    const std::string small = lower_case(name);
    if (run_.has("layers") && run_.has("hidden") && run_.has("ffn") && lower_case(run_.text("kind")) != "moe") {
      inline_model(name, small);
      return;
    }
    if (const auto known = catalogue_model(model_names(root_), name)) {
      Json model = {{"name", *known}};
      const int layers = run_.integer("layers", layers_in_name(small));
      if (layers > 0) model["layers"] = layers;
      if (run_.text("mtp") == "off") model["mtp_layers"] = 0;
      if (run_.text("mtp") == "on") model["mtp_layers"] = 1;
      if (letters(name.substr(0, name.find_first_of("(["))) != letters(*known)) {
        assume(fmt::format("model '{}': the catalogue's {}", name, *known));
      }
      out_.scenario["model"] = model;
      return;
    }
    refuse(fmt::format("the shape of model '{}' is not given and not known", name));
  }

  void inline_model(const std::string& name, const std::string& small) {
    const int hidden = run_.integer("hidden", 0);
    const int ffn = run_.integer("ffn", 0);
    int heads = run_.integer("heads", 0);
    if (heads == 0) {
      heads = std::max(1, hidden / 128);
      const int tp = run_.integer("tp", 1);  // which split them
      while (heads > 1 && (hidden % heads != 0 || heads % tp != 0)) --heads;
      assume(fmt::format("heads not given: {} of {}", heads, hidden / heads));
    }
    const int kv_heads = run_.integer("kv_heads", heads);
    int vocab = run_.integer("vocab", 0);
    if (vocab == 0 && small.find("llama-3") != std::string::npos) {
      vocab = 128256;
      assume("vocabulary not given: 128256, Llama 3's tokenizer");
    }
    if (vocab == 0) {
      vocab = 51200;
      assume("vocabulary not given: 51200");
    }
    if (hidden % heads != 0) {
      refuse(fmt::format("hidden {} is no multiple of heads {}", hidden, heads));
      return;
    }
    const bool gated = small.find("llama") != std::string::npos || small.find("mistral") != std::string::npos ||
                       ffn % (4 * hidden) != 0;
    Json model = {{"name", lower_case(name)},
                  {"hidden", hidden},
                  {"vocab", vocab},
                  {"dense_ffn", ffn},
                  {"layers", run_.integer("layers", 0)},
                  {"attention", {{"heads", heads}, {"kv_heads", kv_heads}, {"head_dim", hidden / heads}}},
                  {"gated_ffn", gated}};
    if (!gated) {
      model["tied_embeddings"] = true;
      model["learned_positions"] = true;
      model["max_positions"] = std::max(2048, run_.integer("sequence_length", 2048));
      model["layer_norm_bias"] = true;
      model["attention_dropout"] = true;
      assume("attention dropout not given: on, the default of Megatron's GPT");
      model["ffn_bias"] = true;
    }
    out_.scenario["model"] = model;
  }

  void cluster() {
    Json cluster = {{"device", run_.text("device")}, {"devices", run_.integer("devices", 0)}};
    const int devices = run_.integer("devices", 0);
    if (run_.has("devices_per_node")) cluster["devices_per_node"] = run_.integer("devices_per_node", 8);
    if (run_.has("nvlink_domain")) cluster["nvlink_domain"] = run_.integer("nvlink_domain", 8);
    if (run_.has("nic_gb_per_s_per_device")) {
      cluster["nic_gb_per_s"] = *run_.number("nic_gb_per_s_per_device");
    } else if (devices > run_.integer("nvlink_domain", 8)) {
      assume("network rate not given: the device's usual NIC");
    }
    if (run_.has("sustained_gemm")) cluster["sustained_gemm"] = *run_.number("sustained_gemm");
    out_.scenario["cluster"] = cluster;
  }

  void parallelism() {
    for (const char* key : {"tp", "pp"}) {
      if (!run_.has(key)) refuse(fmt::format("{} is not given: too little layout", key));
    }
    Json p;
    for (const char* key : {"tp", "cp", "pp", "vpp", "ep", "etp"}) {
      if (run_.has(key)) p[key] = run_.integer(key, 1);
    }
    const int pp = run_.integer("pp", 1);
    const bool moe = lower_case(run_.text("kind")) == "moe";
    if (moe && !run_.has("ep")) assume("ep not given: 1");
    if (moe && !run_.has("etp") && run_.integer("tp", 1) > 1) open_expert_tensor_parallel(p);
    std::string schedule = run_.text("schedule");
    if (run_.text("ep_overlap") == "on") schedule = "coscheduled";
    if (schedule.empty()) {
      schedule = run_.integer("vpp", 1) > 1 ? "interleaved" : "1f1b";
    } else if (schedule == "1f1b" && run_.integer("vpp", 1) > 1) {
      schedule = "interleaved";
    }
    if (schedule == "interleaved" && run_.integer("vpp", 1) == 1) schedule = "1f1b";
    p["schedule"] = schedule;
    if (pp > 1 && !run_.has("vpp")) open_chunks(p, pp);
    if (run_.has("sharding")) {
      p["sharding"] = run_.text("sharding");
      if (run_.text("sharding") == "hsdp") shard_group(p);
    } else {
      assume("sharding not given: the profile's");
    }
    if (run_.has("sequence_parallel"))
      p["sequence_parallel"] = run_.text("sequence_parallel") == "on" && run_.integer("tp", 1) > 1;
    if (run_.has("pipeline_layout")) p["pipeline_layout"] = run_.text("pipeline_layout");
    out_.scenario["parallelism"] = p;
  }

  // Megatron-Core splits experts as the rest unless told otherwise (expert_tensor_parallel_size); recipes of NeMo 25
  // and Megatron-Bridge say 1, wherever they say.
  void open_expert_tensor_parallel(Json& p) {
    const std::string software = run_.text("software");
    const bool early_nemo = software.starts_with("nemo-1") || software.starts_with("nemo-23") ||
                            software.starts_with("nemo-24") || software == "nemo-2023" || software == "nemo-2024";
    const int tp = run_.integer("tp", 1);
    const bool follows = early_nemo || software.starts_with("megatron-core") || software.starts_with("megatron-lm");
    assume(follows ? fmt::format("etp not given: tp, {}, Megatron-Core's default", tp) : "etp not given: 1");
    if (follows) p["etp"] = tp;
    out_.alternatives.push_back({"etp", {fmt::format("parallelism.etp={}", follows ? 1 : tp)}});
  }

  // Dense recipes of Megatron-Core and NeMo interleave with at most two layers a chunk (all published ones that say);
  // no other software is taken to.
  int usual_chunks(int pp) const {
    const std::string software = run_.text("software");
    const int layers = run_.integer("layers", 0);
    const int dp = std::max(1, run_.integer("dp", 1));
    const int microbatches = run_.integer("global_batch", 0) / dp / std::max(1, run_.integer("micro_batch", 1));
    const bool interleaves = software.starts_with("megatron-core") || software.starts_with("nemo");
    if (lower_case(run_.text("kind")) == "moe" || !interleaves || microbatches % pp != 0) return 1;
    constexpr int layers_a_chunk = 2;
    for (const int whole : {layers, layers + 2}) {  // or embedding and loss count as layers
      for (int v = 2; whole > 0 && v * pp <= whole; ++v) {
        if (whole % (pp * v) == 0 && whole / (pp * v) <= layers_a_chunk) return v;
      }
    }
    return 1;
  }

  void open_chunks(Json& p, int pp) {
    const int usual = run_.text("schedule").empty() ? usual_chunks(pp) : 1;
    assume(fmt::format("vpp not given: {}{}", usual, usual > 1 ? ", the fewest chunks of at most two layers" : ""));
    if (usual > 1) {
      p["vpp"] = usual;
      p["schedule"] = "interleaved";
      out_.alternatives.push_back({"vpp", {"parallelism.vpp=1", "parallelism.schedule=1f1b"}});
    }
    for (const int v : {2, 4}) {
      if (v == usual) continue;
      out_.alternatives.push_back({"vpp", {fmt::format("parallelism.vpp={}", v), "parallelism.schedule=interleaved"}});
    }
  }

  // The fewest whole nodes whose devices hold weights, gradients and optimizer state in 60 % of their memory.
  void shard_group(Json& p) {
    const double hidden = run_.number("hidden").value_or(0);
    const double ffn = run_.number("ffn").value_or(4 * hidden);
    const double parameters = run_.number("layers").value_or(0) * hidden * (4 * hidden + 3 * ffn);
    const double memory = lower_case(run_.text("device")).find("40gb") != std::string::npos ? 40e9 : 80e9;
    constexpr double state_bytes = 16, usable = 0.6;
    const int devices = run_.integer("devices", 0);
    int group = run_.integer("devices_per_node", 8);
    while (group * 2 <= devices && devices % (group * 2) == 0 && parameters * state_bytes / group > usable * memory)
      group *= 2;
    p["shard_group"] = group;
    assume(fmt::format("hsdp: shards over {} devices, the fewest whole nodes that hold the state", group));
  }

  void workload() {
    for (const char* key : {"sequence_length", "global_batch"}) {
      if (!run_.has(key)) refuse(fmt::format("{} is not given", key));
    }
    int micro = run_.integer("micro_batch", 1);
    const int pp = run_.integer("pp", 1);
    const int local = run_.integer("global_batch", 0) / std::max(1, run_.integer("dp", 1));
    if (!run_.has("micro_batch") && run_.text("software").starts_with("torchtitan") && pp > 1 && local % pp == 0) {
      micro = std::max(1, local / pp);
      assume(fmt::format("micro_batch not given: {}, torchtitan's one microbatch a stage", micro));
    } else if (!run_.has("micro_batch")) {
      assume("micro_batch not given: 1");
      for (const int b : {2, 4})
        out_.alternatives.push_back({"micro_batch", {fmt::format("workload.micro_batch={}", b)}});
    }
    out_.scenario["workload"] = {{"sequence_length", run_.integer("sequence_length", 0)},
                                 {"global_batch", run_.integer("global_batch", 0)},
                                 {"micro_batch", micro}};
  }

  void precision() {
    const std::string p = lower_case(run_.text("precision"));
    if (p.empty()) {
      assume("precision not given: bf16");
      out_.scenario["precision"] = "bf16";
      return;
    }
    // Rows say fp8 for per-tensor scaling; blockwise recipes say so by name.
    out_.scenario["precision"] = p == "fp8" ? "fp8-tensorwise" : p;
  }

  void recompute() {
    const std::string r = lower_case(run_.text("recompute"));
    if (r.empty()) {
      assume("recompute not given: none");
      out_.scenario["recompute"] = "none";
      out_.alternatives.push_back({"recompute", {"recompute=selective:core_attn"}});
      if (lower_case(run_.text("kind")) == "moe") {
        out_.alternatives.push_back({"recompute", {"recompute=selective:core_attn,layernorm,moe_act,mla_up_proj"}});
      }
      out_.alternatives.push_back({"recompute", {"recompute=full"}});
      return;
    }
    if (r == "other") {
      assume("recompute 'other': selective, core_attn");
      out_.scenario["recompute"] = "selective:core_attn";
      out_.alternatives.push_back({"recompute", {"recompute=none"}});
      out_.alternatives.push_back({"recompute", {"recompute=full"}});
      return;
    }
    if (r == "selective:op") {
      out_.scenario["recompute"] = "selective:op";
      return;
    }
    if (r == "selective:every-other-layer") {
      assume("recompute of every other layer: full recompute of half of the layers");
      const int layers = run_.integer("layers", 0);
      Json block = {{"mode", "full"}, {"method", "block"}};
      if (layers > 0) block["layers"] = std::max(1, layers / run_.integer("pp", 1) / 2);
      out_.scenario["recompute"] = block;
      return;
    }
    out_.scenario["recompute"] = r;
  }

  void routing() {
    if (lower_case(run_.text("kind")) != "moe") return;
    Json routing;
    const std::string r = lower_case(run_.text("routing"));
    routing["skew"] = "balanced";
    if (r.starts_with("capacity:")) {
      const std::string factor = r.substr(9);
      double value = 1;
      const auto [end, code] = std::from_chars(factor.data(), factor.data() + factor.size(), value);
      if (!factor.empty() && (code != std::errc{} || *end != '\0' || !std::isfinite(value)))
        refuse(fmt::format("routing is '{}', a number is expected behind 'capacity:'", r.substr(0, 40)));
      routing["capacity_factor"] = value;
      routing["drop"] = "pad";
    } else if (r.starts_with("zipf:")) {
      routing["skew"] = r;
    } else if (r.empty()) {
      assume("routing not given: balanced (benchmarks usually force it)");
      out_.alternatives.push_back({"routing", {"routing.skew=zipf:0.3"}});
    } else if (r == "natural") {
      assume("natural routing: mild skew, zipf:0.2");
      routing["skew"] = "zipf:0.2";
    } else if (r != "balanced" && r != "forced-balanced") {
      refuse(fmt::format("routing is '{}', allowed: balanced, forced-balanced, natural, capacity:FACTOR, zipf:EXPONENT",
                         r.substr(0, 40)));
    }
    out_.scenario["routing"] = routing;
  }

  bool grace_recipe() const {
    const std::string device = lower_case(run_.text("device"));
    return run_.text("software").starts_with("megatron-bridge") && (device == "gb200" || device == "gb300");
  }

  void overlap() {
    Json runtime;
    Json overlap;
    const bool moe = lower_case(run_.text("kind")) == "moe";
    if (run_.has("dispatcher")) {
      runtime["dispatcher"] = run_.text("dispatcher");
    } else if (moe && grace_recipe() && run_.integer("ep", 1) > 1) {
      // DeepEP reaches a tray by CUDA IPC and the rest by RDMA.
      assume("dispatcher not given: hybridep, which spans NVL72, as most recipes of Megatron-Bridge on it that say");
      runtime["dispatcher"] = "hybridep";
      out_.alternatives.push_back({"dispatcher", {"runtime.dispatcher=alltoall"}});
    } else if (moe && run_.integer("ep", 1) > 1) {
      assume("dispatcher not given: the profile's");
      for (const char* d : {"alltoall", "hybridep"})
        out_.alternatives.push_back({"dispatcher", {fmt::format("runtime.dispatcher={}", d)}});
    }
    const std::string graphs = run_.text("cuda_graphs");
    if (graphs.starts_with("partial")) {
      runtime["cuda_graphs"] = "partial";
      Json modules = Json::array();
      std::string list = graphs.size() > 8 ? graphs.substr(8) : "";
      for (std::size_t at = 0; at < list.size();) {
        const auto end = std::min(list.find(',', at), list.size());
        modules.push_back(list.substr(at, end - at));
        at = end + 1;
      }
      runtime["graph_modules"] = modules;
    } else if (!graphs.empty()) {
      runtime["cuda_graphs"] = graphs;
    } else if (moe && grace_recipe()) {
      assume(
          "cuda_graphs not given: of router and preprocessing, as recipes of Megatron-Bridge on Grace hosts that say");
      runtime["cuda_graphs"] = "partial";
      runtime["graph_modules"] = {"moe_router", "moe_preprocess"};
      out_.alternatives.push_back({"cuda_graphs", {"runtime.cuda_graphs=none"}});
      out_.alternatives.push_back({"cuda_graphs", {"runtime.cuda_graphs=full_iteration"}});
    } else if (moe) {
      assume("cuda_graphs not given: the profile's");
      out_.alternatives.push_back({"cuda_graphs", {"runtime.cuda_graphs=full_iteration"}});
    }
    const TaggedSoftware tagged = tagged_software(run_, root_);
    if (!tagged.fault.empty()) refuse(tagged.fault);
    for (const std::string& what : tagged.assumed) assume(what);
    if (tagged.host_binding) runtime["host_binding"] = true;
    for (const auto& [key, value] : tagged.software.items()) replace_software(key.c_str(), value);
    if (tagged.permute_fusion_open) {
      assume("permute_fusion not given: off, as Megatron-Core's flag is unless it is set");
      out_.alternatives.push_back({"permute_fusion", {"software.permute_fusion=true"}});
    }
    if (run_.has("tp_overlap")) overlap["tp"] = run_.text("tp_overlap") == "on";
    if (run_.text("ep_overlap") == "on") overlap["ep"] = true;
    if (run_.text("ep_overlap") == "off") overlap["ep"] = false;
    if (run_.text("delay_wgrad") == "on" && moe && run_.text("ep_overlap") == "on") {
      overlap["delay_wgrad"] = true;
    } else if (run_.text("delay_wgrad") == "on") {
      assume("delay_wgrad without ep_overlap: no co-scheduled pair whose exchange it could fill, left out");
    }
    if (run_.has("dp_overlap")) overlap["gradients"] = overlap["parameters"] = run_.text("dp_overlap") == "on";
    if (!runtime.empty()) out_.scenario["runtime"] = runtime;
    if (!overlap.empty()) out_.scenario["overlap"] = overlap;
  }

  // BigScience's chronicle of the 176B layouts: from the section "Rebalancing layers" on the embedding counts as a
  // layer and the BF16 optimizer adds gradients in fp32 on every rank; before, they were added in 16 bits.
  void notes() {
    if (run_.text("software") != "megatron-deepspeed-2022") return;
    const int layers = run_.integer("layers", 0);
    const int pp = run_.integer("pp", 1);
    if (run_.text("notes").find("embedding counted as pipeline layer") == std::string::npos) {
      out_.scenario["precision"] = {{"recipe", out_.scenario["precision"]}, {"gradients", "bf16"}};
      assume("gradients added in 16 bits: the fp32 accumulation of BLOOM's training came later");
    } else if (pp > 1 && (layers + 2) % pp == 0) {
      Json split = Json::array();
      for (int stage = 0; stage < pp; ++stage) {
        split.push_back((layers + 2) / pp - (stage == 0 || stage == pp - 1 ? 1 : 0));
      }
      out_.scenario["parallelism"]["stage_layers"] = split;
    }
  }

  const MeasuredRun& run_;
  const std::filesystem::path& root_;
  MappedRun out_;
  Errors errors_;
};

}  // namespace

Result<MappedRun> map_run(const MeasuredRun& run, const std::filesystem::path& catalog_root) {
  return Mapper(run, catalog_root).map();
}

}  // namespace stepcast::validation
