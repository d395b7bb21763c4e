#include "parallelism/software.h"

#include <algorithm>
#include <optional>
#include <set>
#include <variant>

#include <fmt/format.h>

#include "sim/base/file_cache.h"
#include "sim/base/json_reader.h"

namespace stepcast::parallelism {
namespace {

using Json = nlohmann::ordered_json;

// Profiles carry this mark before the source of a value that nobody measured.
constexpr std::string_view assumption_mark = "assumption: ";

struct Number {
  double SoftwareProfile::*member;
  double low, high;
};
struct Count {
  int SoftwareProfile::*member;
  int low, high;
};
struct Flag {
  bool SoftwareProfile::*member;
};
struct Choice {
  std::string SoftwareProfile::*member;
  std::vector<std::string> allowed;
};
struct Names {
  std::map<std::string, std::string> SoftwareProfile::*member;
};
struct Factors {
  std::map<std::string, double> SoftwareProfile::*member;
  double high;
};
struct Modules {
  std::vector<std::string> SoftwareProfile::*member;
};
struct Dispatch {};
struct Graphs {};

struct Field {
  const char* key;
  std::variant<Number, Count, Flag, Choice, Names, Factors, Modules, Dispatch, Graphs> kind;
};

// Every value of a profile, in the order in which `explain` shows them.
const std::vector<Field>& fields_of_profile() {
  using P = SoftwareProfile;
  static const std::vector<Field> fields = {
      {"norm_passes_forward", Number{&P::norm_passes_forward, 0, 100}},
      {"norm_passes_backward", Number{&P::norm_passes_backward, 0, 100}},
      {"activation_passes_forward", Number{&P::activation_passes_forward, 0, 100}},
      {"activation_passes_backward", Number{&P::activation_passes_backward, 0, 100}},
      {"rope_passes_forward", Number{&P::rope_passes_forward, 0, 100}},
      {"rope_passes_backward", Number{&P::rope_passes_backward, 0, 100}},
      {"mla_passes_forward", Number{&P::mla_passes_forward, 0, 100}},
      {"mla_passes_backward", Number{&P::mla_passes_backward, 0, 100}},
      {"unfused_factor", Number{&P::unfused_factor, 0.1, 20}},
      {"moe_unfused_factor", Number{&P::moe_unfused_factor, 0.1, 20}},
      {"full_graph_expert_traffic", Number{&P::full_graph_expert_traffic, 0, 1}},
      {"permute_passes", Number{&P::permute_passes, 0, 100}},
      {"permute_fusion", Flag{&P::permute_fusion}},
      {"permute_chunk_us", Number{&P::permute_chunk_us, 0, 1000}},
      {"router_passes", Number{&P::router_passes, 0, 200}},
      {"loss_bytes_per_logit", Number{&P::loss_bytes_per_logit, 0, 200}},
      {"accumulate_bytes_per_weight", Number{&P::accumulate_bytes_per_weight, 0, 200}},
      {"fused_swizzle", Flag{&P::fused_swizzle}},
      {"fused_accumulation", Flag{&P::fused_accumulation}},
      {"attention", Names{&P::attention}},
      {"attention_scale", Number{&P::attention_scale, 0.05, 5}},
      {"dispatcher", Dispatch{}},
      {"dispatcher_sms", Count{&P::dispatcher_sms, 0, 1024}},
      {"deepep_sms", Count{&P::deepep_sms, 0, 1024}},
      {"fp8_dispatch", Flag{&P::fp8_dispatch}},
      {"overlap_shared_expert", Flag{&P::overlap_shared_expert}},
      {"cuda_graphs", Graphs{}},
      {"graph_modules", Modules{&P::graph_modules}},
      {"graphs_shared_expert", Flag{&P::graphs_shared_expert}},
      {"host_launch_us", Number{&P::host_launch_us, 0, 1e5}},
      {"host_sync_us", Number{&P::host_sync_us, 0, 1e6}},
      {"host_sync_per_expert_us", Number{&P::host_sync_per_expert_us, 0, 1e5}},
      {"tp_gap_us", Number{&P::tp_gap_us, 0, 1e4}},
      {"kernel_gap_us", Number{&P::kernel_gap_us, 0, 1e4}},
      {"host_step_us", Number{&P::host_step_us, 0, 1e9}},
      {"host_binding", Flag{&P::host_binding}},
      {"host_binding_factor", Factors{&P::host_binding_factor, 10}},
      {"host_factor", Factors{&P::host_factor, 100}},
      {"expert_fp8_level", Factors{&P::expert_fp8_level, 10}},
      {"overlap_gradients", Flag{&P::overlap_gradients}},
      {"overlap_parameters", Flag{&P::overlap_parameters}},
      {"overlap_tp", Flag{&P::overlap_tp}},
      {"overlap_ep", Flag{&P::overlap_ep}},
      {"overlap_p2p", Flag{&P::overlap_p2p}},
      {"p2p_host_sync", Flag{&P::p2p_host_sync}},
      {"tp_overlap_share", Number{&P::tp_overlap_share, 0, 1}},
      {"tp_gradients_beside_wgrad", Flag{&P::tp_gradients_beside_wgrad}},
      {"gradient_bucket_bytes", Number{&P::gradient_bucket_bytes, 0, 1e15}},
      {"prefetch", Number{&P::prefetch, 0, 1000}},
      {"kernel_slowdown_ep", Number{&P::kernel_slowdown_ep, 1, 10}},
      {"kernel_slowdown_dp", Number{&P::kernel_slowdown_dp, 1, 10}},
      {"dp_network_share", Number{&P::dp_network_share, 0.001, 1}},
      {"fsdp_overlap", Number{&P::fsdp_overlap, 0, 1}},
      {"optimizer_bytes_per_parameter", Number{&P::optimizer_bytes_per_parameter, 0, 1000}},
      {"padded_vocab_multiple", Number{&P::padded_vocab_multiple, 1, 1e6}},
      {"pads_vocab_alone", Flag{&P::pads_vocab_alone}},
      {"sharding", Choice{&P::sharding, {"none", "zero1", "zero2", "zero3", "hsdp"}}},
      {"sequence_parallel", Flag{&P::sequence_parallel}},
      {"gradients", Choice{&P::gradients, {"fp32", "bf16"}}},
      {"optimizer_state", Choice{&P::optimizer_state, {"fp32", "bf16", "fp8"}}},
      {"context_bytes", Number{&P::context_bytes, 0, 1e12}},
      {"fragmentation", Number{&P::fragmentation, 0, 1}},
      {"bucket_bytes", Number{&P::bucket_bytes, 0, 1e12}},
      {"loss_peak_bytes_per_logit", Number{&P::loss_peak_bytes_per_logit, 6, 100}},
      {"placeholder_gradients", Flag{&P::placeholder_gradients}},
      {"bf16_gradients_stay", Flag{&P::bf16_gradients_stay}},
      {"fp32_gradient_copy", Flag{&P::fp32_gradient_copy}},
      {"keeps_stage_outputs", Flag{&P::keeps_stage_outputs}},
      {"fp32_parameters", Flag{&P::fp32_parameters}},
      {"mla_values_stay", Flag{&P::mla_values_stay}},
      {"memory_report", Choice{&P::memory_report, {"allocated", "reserved", "device"}}},
  };
  return fields;
}

void fail_at(JsonFields& fields, const std::string& pointer, std::string message) {
  fields.errors().push_back(make_error(ErrorCode::invalid, std::move(message), fields.document().where(pointer)));
}

void read_names(JsonFields& fields, const char* key, std::map<std::string, std::string>& target) {
  const Json* member = fields.find(key);
  if (member == nullptr) return;
  if (!member->is_object()) {
    fields.fail(key, fmt::format("{} is {}; an object of device names and texts is expected", key, shown(*member)));
    return;
  }
  for (const auto& [device, value] : member->items()) {
    if (value.is_string()) {
      target[device] = value.get<std::string>();
    } else {
      fail_at(fields, fields.pointer_of(key) + pointer_step(device),
              fmt::format("found {}; a text in quotes is expected", shown(value)));
    }
  }
}

void read_factors(JsonFields& fields, const char* key, double high, std::map<std::string, double>& target) {
  const Json* member = fields.find(key);
  if (member == nullptr) return;
  const auto number = [&](const Json& value, const std::string& pointer) -> std::optional<double> {
    const double v = value.is_number() ? value.get<double>() : -1;
    if (v > 0 && v <= high) return v;
    fail_at(fields, pointer, fmt::format("found {}; a number above 0, at most {}, is expected", shown(value), high));
    return {};
  };
  if (member->is_number()) {  // for every device
    if (const auto v = number(*member, fields.pointer_of(key))) target = {{"default", *v}};
    return;
  }
  if (!member->is_object()) {
    fields.fail(key, fmt::format("{} is {}; a number or an object of device names and numbers is expected", key,
                                 shown(*member)));
    return;
  }
  for (const auto& [device, value] : member->items()) {
    if (const auto v = number(value, fields.pointer_of(key) + pointer_step(device))) target[device] = *v;
  }
}

void read_modules(JsonFields& fields, const char* key, std::vector<std::string>& target) {
  std::vector<std::string> modules;
  const bool there = fields.list(key, [&](const Json& element, const std::string& pointer) {
    if (element.is_string()) {
      modules.push_back(element.get<std::string>());
    } else {
      fail_at(fields, pointer, fmt::format("found {}; a text in quotes is expected", shown(element)));
    }
  });
  if (there) target = std::move(modules);
}

// Reads one value; true if the key is there.
struct Reader {
  JsonFields& fields;
  const char* key;
  SoftwareProfile& profile;

  void operator()(const Number& f) const { fields.read(key, profile.*f.member, f.low, f.high); }
  void operator()(const Count& f) const { fields.read(key, profile.*f.member, f.low, f.high); }
  void operator()(const Flag& f) const { fields.read(key, profile.*f.member); }
  void operator()(const Choice& f) const {
    if (const auto index = fields.choice(key, f.allowed)) profile.*f.member = f.allowed[*index];
  }
  void operator()(const Names& f) const { read_names(fields, key, profile.*f.member); }
  void operator()(const Factors& f) const { read_factors(fields, key, f.high, profile.*f.member); }
  void operator()(const Modules& f) const { read_modules(fields, key, profile.*f.member); }
  void operator()(const Dispatch&) const {
    if (const auto i = fields.choice(key, dispatcher_names())) {
      profile.dispatcher = static_cast<topology::Dispatcher>(*i);
    }
  }
  void operator()(const Graphs&) const {
    if (const auto i = fields.choice(key, cuda_graphs_names())) profile.cuda_graphs = static_cast<CudaGraphs>(*i);
  }
};

struct Writer {
  const SoftwareProfile& profile;

  Json operator()(const Number& f) const { return profile.*f.member; }
  Json operator()(const Count& f) const { return profile.*f.member; }
  Json operator()(const Flag& f) const { return profile.*f.member; }
  Json operator()(const Choice& f) const { return profile.*f.member; }
  Json operator()(const Names& f) const { return profile.*f.member; }
  Json operator()(const Factors& f) const { return profile.*f.member; }
  Json operator()(const Modules& f) const { return profile.*f.member; }
  Json operator()(const Dispatch&) const { return name(profile.dispatcher); }
  Json operator()(const Graphs&) const { return name(profile.cuda_graphs); }
};

// One profile as it stands in the file, before inheritance.
struct Entry {
  std::string name, summary, base;
  std::vector<std::string> aliases;
  std::size_t index = 0;

  [[nodiscard]] std::string pointer() const { return fmt::format("/profiles/{}", index); }
};

struct Catalog {
  JsonDocument document;
  std::vector<Entry> entries;

  [[nodiscard]] const Entry* find(const std::string& name) const {
    for (const Entry& e : entries) {
      if (e.name == name || std::find(e.aliases.begin(), e.aliases.end(), name) != e.aliases.end()) return &e;
    }
    return nullptr;
  }
  [[nodiscard]] std::vector<std::string> all_names() const {
    std::vector<std::string> names;
    for (const Entry& e : entries) {
      names.push_back(e.name);
      names.insert(names.end(), e.aliases.begin(), e.aliases.end());
    }
    return names;
  }
};

Entry read_entry(const JsonDocument& document, const Json& value, const std::string& pointer, Errors& errors) {
  Entry entry;
  JsonFields fields(document, value, pointer, errors);
  if (auto text = fields.required_text("name")) entry.name = std::move(*text);
  if (auto text = fields.required_text("summary")) entry.summary = std::move(*text);
  fields.read("base", entry.base);
  read_modules(fields, "aliases", entry.aliases);
  fields.find("values");
  fields.refuse_unknown();
  return entry;
}

std::filesystem::path catalog_path(const std::filesystem::path& catalog_root) {
  return catalog_root / "parallelism" / "catalog" / "software.json";
}

Result<Catalog> read_catalog(const std::filesystem::path& catalog_root) {
  auto document = read_json_file(catalog_path(catalog_root));
  if (!document) return document.errors();
  Catalog catalog{std::move(*document), {}};
  Errors errors;
  JsonFields root(catalog.document, catalog.document.root, "", errors);
  root.require("profiles");
  root.list("profiles", [&](const Json& value, const std::string& pointer) {
    catalog.entries.push_back(read_entry(catalog.document, value, pointer, errors));
    catalog.entries.back().index = catalog.entries.size() - 1;
  });
  root.refuse_unknown();
  std::set<std::string> seen;
  for (const std::string& n : catalog.all_names()) {
    if (!seen.insert(n).second) {
      errors.push_back(make_error(ErrorCode::invalid, fmt::format("the name '{}' stands twice", n),
                                  catalog.document.where("/profiles")));
    }
  }
  if (!errors.empty()) return errors;
  return catalog;
}

// "values": {"key": {"value": v, "source": "...", "assumption": true}, ...}
void read_entry_values(const Catalog& catalog, const Entry& entry, SoftwareProfile& profile, Errors& errors) {
  JsonFields fields(catalog.document, catalog.document.root["profiles"][entry.index], entry.pointer(), errors);
  auto values = fields.object("values");
  if (!values) return;
  for (const Field& field : fields_of_profile()) {
    auto value = values->object(field.key);
    if (!value) continue;
    // The reader of the key works on {"value": ...}: give it the member under the field's own name.
    const Json* member = value->find("value");
    value->require("value");
    const auto source = value->required_text("source");
    bool assumption = false;
    value->read("assumption", assumption);
    value->refuse_unknown();
    if (member == nullptr || !source) continue;
    const Json renamed = Json::object({{field.key, *member}});
    JsonFields one(catalog.document, renamed, values->pointer_of(field.key), errors);
    std::visit(Reader{one, field.key, profile}, field.kind);
    profile.sources[field.key] = (assumption ? std::string(assumption_mark) : std::string{}) + *source;
  }
  values->refuse_unknown();
}

Status inherit(const Catalog& catalog, const Entry& entry, SoftwareProfile& profile, int depth) {
  constexpr int deepest = 16;
  Errors errors;
  if (!entry.base.empty()) {
    const Entry* base = catalog.find(entry.base);
    if (base == nullptr || depth >= deepest) {
      return make_error(ErrorCode::invalid,
                        base == nullptr ? fmt::format("base '{}' is no profile{}", entry.base,
                                                      suggestion(entry.base, catalog.all_names()))
                                        : "profiles are based on each other in a circle",
                        catalog.document.where(entry.pointer() + "/base"));
    }
    if (auto status = inherit(catalog, *base, profile, depth + 1); !status) return status.errors();
  }
  read_entry_values(catalog, entry, profile, errors);
  if (!errors.empty()) return errors;
  return Unit{};
}

}  // namespace

const std::vector<std::string>& cuda_graphs_names() {
  static const std::vector<std::string> names = {"none", "partial", "full_iteration"};
  return names;
}

const std::vector<std::string>& dispatcher_names() {
  static const std::vector<std::string> names = {"allgather", "alltoall", "deepep", "hybridep"};
  return names;
}

std::string_view name(CudaGraphs graphs) { return cuda_graphs_names()[static_cast<std::size_t>(graphs)]; }
std::string_view name(topology::Dispatcher dispatcher) {
  return dispatcher_names()[static_cast<std::size_t>(dispatcher)];
}

Result<std::vector<std::string>> software_names(const std::filesystem::path& catalog_root) {
  const auto catalog = read_catalog(catalog_root);
  if (!catalog) return catalog.errors();
  return catalog->all_names();
}

Result<std::vector<std::string>> list_software(const std::filesystem::path& catalog_root) {
  const auto catalog = read_catalog(catalog_root);
  if (!catalog) return catalog.errors();
  std::vector<std::string> names;
  for (const Entry& e : catalog->entries) names.push_back(e.name);
  return names;
}

namespace {

Result<SoftwareProfile> read_profile(const std::filesystem::path& catalog_root, const std::string& name) {
  const auto catalog = read_catalog(catalog_root);
  if (!catalog) return catalog.errors();
  const Entry* entry = catalog->find(name);
  if (entry == nullptr) {
    return make_error(ErrorCode::not_found,
                      fmt::format("no software profile '{}' in the catalogue of {}{}; `stepcast list software` shows "
                                  "them all",
                                  name, catalog->entries.size(), suggestion(name, catalog->all_names())));
  }
  SoftwareProfile profile;
  profile.name = entry->name;
  profile.summary = entry->summary;
  if (auto status = inherit(*catalog, *entry, profile, 0); !status) return status.errors();
  return profile;
}

}  // namespace

Result<SoftwareProfile> load_software(const std::filesystem::path& catalog_root, const std::string& name) {
  static FileCache<SoftwareProfile> cache;
  return cache.get(catalog_path(catalog_root), name, [&] { return read_profile(catalog_root, name); });
}

void read_software_values(JsonFields& fields, const std::string& source, SoftwareProfile& profile) {
  for (const Field& field : fields_of_profile()) {
    if (!fields.has(field.key)) continue;
    std::visit(Reader{fields, field.key, profile}, field.kind);
    profile.sources[field.key] = source;
  }
}

std::vector<SoftwareFact> describe(const SoftwareProfile& profile) {
  std::vector<SoftwareFact> facts;
  for (const Field& field : fields_of_profile()) {
    SoftwareFact fact{field.key, std::visit(Writer{profile}, field.kind).dump(), {}, false};
    if (const auto source = profile.sources.find(field.key); source != profile.sources.end()) {
      fact.source = source->second;
      fact.assumption = fact.source.starts_with(assumption_mark);
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

std::vector<std::string> software_keys_by_device() {
  std::vector<std::string> keys;
  for (const Field& field : fields_of_profile()) {
    if (std::holds_alternative<Names>(field.kind) || std::holds_alternative<Factors>(field.kind))
      keys.emplace_back(field.key);
  }
  return keys;
}

double factor_of(const std::map<std::string, double>& factors, const std::string& device) {
  for (const std::string& key : {device, std::string("default")}) {
    if (const auto found = factors.find(key); found != factors.end()) return found->second;
  }
  return 1;
}

double padded_vocabulary(const SoftwareProfile& software, double vocabulary, int tp) {
  if (tp == 1 && !software.pads_vocab_alone) return vocabulary;
  const double block = std::max(1.0, software.padded_vocab_multiple * tp);
  return std::ceil(vocabulary / block) * block;
}

}  // namespace stepcast::parallelism
