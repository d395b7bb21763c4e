#include "scenarios/scenario.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "models/catalog.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using parallelism::ScheduleKind;
using parallelism::Sharding;

const char* const small = R"({"model": "mixtral-8x7b", "cluster": "h100:8",
  "parallelism": {"ep": 8}, "workload": {"sequence_length": 4096, "global_batch": 64, "micro_batch": 2}})";

bool mentions(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& l) { return l.find(part) != std::string::npos; });
}

std::string origin(const Scenario& s, const std::string& pointer) {
  for (const auto& [key, where] : s.origins) {
    if (key == pointer) return where;
  }
  return "";
}

}  // namespace

TEST_CASE("the scenario of the design reads into its specification") {
  const Scenario s = loaded(R"({"model": "deepseek-v3", "cluster": "h800:2048",
 "parallelism": {"tp": 1, "cp": 1, "pp": 16, "vpp": 1, "ep": 64, "etp": 1, "schedule": "1f1b", "sharding": "zero1",
                 "sequence_parallel": false, "order": "tp-cp-ep-dp-pp"},
 "workload": {"sequence_length": 4096, "global_batch": 15360, "micro_batch": 1, "packing": "packed", "steps": 16},
 "precision": "fp8", "recompute": {"mode": "selective", "modules": ["mla_up_proj", "layernorm", "moe_act"]},
 "routing": {"skew": "zipf:0.3", "persistence": 0.8, "capacity_factor": null, "drop": "none", "node_limit": 4},
 "software": "megatron-core-2025", "overlap": {"ep": false, "gradients": true, "parameters": true, "tp": false, "p2p": true},
 "runtime": {"cuda_graphs": "none", "dispatcher": "deepep", "host_binding": false},
 "noise": {"device_sigma": 0.01}, "seed": 7})");
  const parallelism::StepSpec& spec = s.spec;
  CHECK(spec.model.name == "deepseek-v3");
  CHECK(spec.cluster.devices == 2048);
  CHECK(spec.degrees.pp == 16);
  CHECK(spec.degrees.ep == 64);
  CHECK(spec.schedule == ScheduleKind::one_f_one_b);
  CHECK(spec.sharding == Sharding::zero1);
  CHECK(spec.workload.global_batch == 15360);
  CHECK(spec.workload.steps == 16);
  CHECK(spec.recipe.name == "fp8-blockwise");
  CHECK(spec.recipe.gemm == topology::Precision::fp8_blockwise);
  CHECK(spec.recompute.modules == std::vector<std::string>{"mla_up_proj", "layernorm", "moe_act"});
  CHECK(spec.routing.kind == parallelism::SkewKind::zipf);
  CHECK(spec.routing.parameter == Approx(0.3));
  CHECK(spec.node_limit == 4);
  CHECK(spec.software.name == "megatron-core-2025");
  CHECK_FALSE(spec.overlap.ep);
  CHECK(spec.runtime.dispatcher == topology::Dispatcher::deepep);
  CHECK(spec.noise.device_sigma == Approx(0.01));
  CHECK(spec.seed == 7);
}

TEST_CASE("what a scenario does not give comes from the software profile and is listed") {
  const Scenario s = loaded(small);
  CHECK(s.spec.software.name == "generic");
  CHECK(mentions(s.assumptions, "software not named"));
  CHECK(mentions(s.assumptions, "precision not given: bf16"));
  CHECK(mentions(s.assumptions, "routing.skew not given"));
  CHECK(mentions(s.assumptions, "overlap as the software profile generic has it"));
  CHECK(mentions(s.assumptions, "recompute not given"));

  const Scenario old = loaded(small, {"software=megatron-lm-2021"});
  CHECK_FALSE(old.spec.overlap.gradients);
  CHECK(old.spec.sharding == Sharding::none);
  CHECK(origin(old, "/overlap/gradients") == "software megatron-lm-2021");

  const Scenario explicit_wins = loaded(small, {"software=megatron-lm-2021", "overlap.gradients=true"});
  CHECK(explicit_wins.spec.overlap.gradients);
  CHECK(origin(explicit_wins, "/overlap/gradients") == "--set overlap.gradients=true");
}

TEST_CASE("origins name the line of the scenario file") {
  const Scenario s = loaded("{\"model\": \"mixtral-8x7b\",\n \"cluster\": \"h100:8\",\n \"parallelism\": {\"ep\": 4}}");
  CHECK(origin(s, "/parallelism/ep").find("scenario.json:3:24") != std::string::npos);
  CHECK(origin(s, "/parallelism/tp") == "default");
}

TEST_CASE("a model and a cluster make a scenario") {
  auto pair = load_pair("mixtral-8x7b", "h100:64", {"parallelism.ep=8", "workload.sequence_length=8192"});
  INFO((pair ? std::string() : shown(pair.errors())));
  REQUIRE(pair.ok());
  CHECK(pair->spec.degrees.ep == 8);
  CHECK(pair->spec.workload.sequence_length == 8192);
  CHECK(pair->spec.workload.global_batch == 64);
  CHECK(mentions(pair->assumptions, "workload.global_batch not given: 64"));
  CHECK(origin(*pair, "/cluster/preset") == "--cluster h100:64");

  const auto alone = load_pair("mixtral-8x7b", "");
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.errors().front().message.find("--cluster") != std::string::npos);
}

TEST_CASE("short forms expand") {
  const Scenario s =
      loaded(small, {"recompute=selective:moe_act,layernorm", "cluster.nic_gb_per_s=25", "model.mtp_layers=1",
                     "precision.gradients=bf16", "runtime.cuda_graphs=partial:attn,moe_router"});
  CHECK(s.spec.recompute.mode == parallelism::RecomputeMode::selective);
  CHECK(s.spec.recompute.modules == std::vector<std::string>{"moe_act", "layernorm"});
  CHECK(s.spec.cluster.nic_bandwidth.value == Approx(25e9));
  CHECK(s.spec.cluster.devices == 8);
  CHECK(s.spec.model.mtp_layers == 1);
  CHECK(s.spec.recipe.gradient_bytes == 2);
  CHECK(s.spec.runtime.cuda_graphs == parallelism::CudaGraphs::partial);
  CHECK(s.spec.runtime.graph_modules == std::vector<std::string>{"attn", "moe_router"});
}

TEST_CASE("defaults of overlap, offload and the router are named where they change the answer") {
  const Scenario s = loaded(small);
  CHECK(mentions(s.assumptions, "precision.router_dtype not given: mixed"));
  CHECK_FALSE(mentions(s.assumptions, "overlap.p2p_warmup_flush"));  // no pipeline
  CHECK_FALSE(mentions(s.assumptions, "overlap.delay_wgrad"));
  CHECK(s.spec.overlap.shared_expert == s.spec.software.overlap_shared_expert);

  const Scenario piped = loaded(small, {"parallelism.pp=2", "parallelism.vpp=2", "parallelism.ep=4"});
  CHECK(mentions(piped.assumptions, "overlap.p2p_warmup_flush not given: on"));
  CHECK(mentions(piped.assumptions, "overlap.parameters_with_optimizer not given: off"));
  CHECK(piped.spec.overlap.p2p_warmup_flush);
  const Scenario blocking = loaded(small, {"parallelism.pp=2", "parallelism.ep=4", "overlap.p2p=false"});
  CHECK(mentions(blocking.assumptions, "overlap.p2p_batched not given: off"));
  CHECK_FALSE(blocking.spec.overlap.p2p_warmup_flush);
  CHECK(mentions(loaded(small, {"overlap.ep=true"}).assumptions, "overlap.delay_wgrad not given: off"));

  CHECK(mentions(loaded(small, {"offload.optimizer=true"}).assumptions, "offload.optimizer_fraction not given: all"));
  CHECK(loaded(small, {"offload.optimizer_fraction=0.5"}).spec.offload.optimizer);

  const Scenario some = loaded(small, {"offload.activation_layers=5", "precision.router_dtype=fp32"});
  CHECK(some.spec.offload.activations);
  CHECK(some.spec.offload.activation_layers == 5);
  CHECK(some.spec.recipe.router_dtype == parallelism::RouterDtype::fp32);
  CHECK_FALSE(mentions(some.assumptions, "router_dtype"));
  CHECK(mentions(loaded(small, {"offload.activations=true"}).assumptions, "offload.activation_layers not given"));
}

TEST_CASE("overlap of the expert exchange brings its schedule") {
  const Scenario s = loaded(small, {"overlap.ep=true"});
  CHECK(s.spec.schedule == ScheduleKind::coscheduled);
  const Scenario named = loaded(small, {"parallelism.schedule=coscheduled"});
  CHECK(named.spec.overlap.ep);
}

TEST_CASE("models come by name with overrides, by description, or from a config.json") {
  const Scenario cut = loaded(small, {"model.layers=8"});
  CHECK(cut.spec.model.layer_count() == 8);
  CHECK(cut.spec.model.moe.experts == 8);

  const Scenario inline_model = loaded(R"({"model": {"name": "toy", "hidden": 1024, "vocab": 32000, "layers": 4,
    "dense_ffn": 4096, "attention": {"heads": 16, "kv_heads": 4}}, "cluster": {"device": "a100-80gb", "devices": 4}})");
  CHECK(inline_model.spec.model.name == "toy");
  CHECK(inline_model.spec.cluster.device.name == "a100-80gb");

  write_file("config.json", R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 1024,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 2048,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "tie_word_embeddings": false})");
  const Scenario config = loaded(R"({"model": "config.json", "cluster": "h100:8"})");
  CHECK(config.spec.model.moe.expert_ffn == 2048);
  const Scenario overridden =
      loaded(R"({"model": {"config": "config.json", "moe": {"top_k": 4}}, "cluster": "h100:8"})");
  CHECK(overridden.spec.model.moe.top_k == 4);
}

TEST_CASE("an explicit split says how many chunks there are") {
  const Scenario s = loaded(R"({"model": "deepseek-v3", "cluster": "h100:1024",
    "parallelism": {"pp": 16, "ep": 64, "pipeline_layout": "Et*3|(tt|)*29,m|L"},
    "workload": {"global_batch": 8192}})");
  CHECK(s.spec.degrees.vpp == 2);
  CHECK(s.spec.schedule == ScheduleKind::interleaved);
}

TEST_CASE("document lengths come from a list, a file or a distribution") {
  write_file("lengths.txt", "100 200\n300, 9000\n");
  const Scenario file = loaded(small, {"workload.document_lengths=lengths.txt"});
  CHECK(file.spec.workload.document_lengths == std::vector<double>{100, 200, 300, 4096});
  CHECK(mentions(file.assumptions, "1 of 4 document lengths"));
  write_file("marked.txt",
             "\xef\xbb\xbf"
             "100\r\n200\r\n");
  CHECK(loaded(small, {"workload.document_lengths=marked.txt"}).spec.workload.document_lengths ==
        std::vector<double>{100, 200});
  write_file("marked.json",
             "\xef\xbb\xbf"
             "[100, 300]");
  CHECK(loaded(small, {"workload.document_lengths=marked.json"}).spec.workload.document_lengths ==
        std::vector<double>{100, 300});
  for (const char* broken : {"workload.document_lengths=[1.5]", "workload.document_lengths=[100, 0.5]"})
    CHECK(shown(load_text(small, {broken}).errors()).find("whole tokens from 1 to 1e9 are expected") !=
          std::string::npos);
  const Scenario list = loaded(small, {"workload.document_lengths=[512, 1024]"});
  CHECK(list.spec.workload.document_lengths == std::vector<double>{512, 1024});
  const Scenario drawn = loaded(small, {"workload.document_lengths=lognormal:1000,0.5"});
  const auto& lengths = drawn.spec.workload.document_lengths;
  double sum = 0;
  for (const double l : lengths) sum += l;
  CHECK(sum / static_cast<double>(lengths.size()) == Approx(1000).epsilon(0.01));
}

TEST_CASE("a calibration replaces what the scenario leaves open") {
  write_file("site.json", R"({"name": "site", "cluster": {"sustained_gemm": 0.8, "nic_gb_per_s": 40},
                              "software": {"host_launch_us": 77}})");
  const Scenario s = loaded(small, {"calibration=site.json", "cluster.nic_gb_per_s=25"});
  CHECK(s.spec.cluster.device.sustained_gemm == Approx(0.8));
  CHECK(s.spec.cluster.nic_bandwidth.value == Approx(25e9));
  CHECK(s.spec.runtime.host_launch_us == Approx(77));
  CHECK(origin(s, "/cluster/sustained_gemm") == "calibration site.json");
}

TEST_CASE("a layout search may load a scenario whose own layout is not sound") {
  ScenarioRequest request;
  request.file = write_file("search.json", R"({"model": "mixtral-8x7b", "cluster": "h100:24",
    "workload": {"global_batch": 100}})");
  request.catalog_root = source_dir;
  CHECK_FALSE(load_scenario(request).ok());
  request.check_layout = false;
  CHECK(load_scenario(request).ok());
}

}  // namespace stepcast::scenarios
