#include "scenarios/chakra/chakra.h"

#include <utility>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "scenarios/chakra/graph.h"
#include "scenarios/report/text_table.h"
#include "sim/record/output_file.h"

namespace stepcast::scenarios::chakra {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* schema_version = "0.0.4";
constexpr const char* export_schema = "stepcast.export.chakra/1";

ChakraProtoMsg::GlobalMetadata metadata(const Graph& graph, std::size_t index, const std::string& title) {
  ChakraProtoMsg::GlobalMetadata data;
  data.set_version(schema_version);
  const auto attribute = [&](const char* name) -> ChakraProtoMsg::AttributeProto& {
    ChakraProtoMsg::AttributeProto& added = *data.add_attr();
    added.set_name(name);
    return added;
  };
  const sim::Timeline& timeline = graph.timeline();
  attribute("producer").set_string_val("stepcast");
  attribute("scenario").set_string_val(title);
  attribute("rank").set_int64_val(timeline.ranks[index].value);
  attribute("world_size").set_int64_val(graph.program().ranks);
  attribute("step").set_uint64_val(timeline.step);
  attribute("step_begin_ps").set_int64_val(timeline.step_begin - graph.origin());
  attribute("step_duration_ps").set_int64_val(timeline.step_end - timeline.step_begin);
  return data;
}

std::size_t delimited_size(const google::protobuf::MessageLite& message) {
  const std::size_t size = message.ByteSizeLong();
  return size + google::protobuf::io::CodedOutputStream::VarintSize32(static_cast<std::uint32_t>(size));
}

void write_delimited(const google::protobuf::MessageLite& message, google::protobuf::io::CodedOutputStream& out) {
  out.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
  message.SerializeWithCachedSizes(&out);
}

Status write_file(const std::filesystem::path& file, const std::string& text) {
  sim::OutputFile out(file);
  out.write(text);
  return out.close();
}

}  // namespace

Traces::Traces(const sim::Program& program, const sim::Timeline& timeline, std::string title)
    : graph_(std::make_unique<Graph>(program, timeline)), title_(std::move(title)) {
  for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
    TraceFile& trace = sizes_.emplace_back();
    trace.rank = timeline.ranks[r].value;
    std::size_t bytes = delimited_size(metadata(*graph_, r, title_));
    const std::vector<ChakraProtoMsg::Node> nodes = graph_->nodes(r);
    for (const ChakraProtoMsg::Node& node : nodes) bytes += delimited_size(node);
    trace.nodes = static_cast<std::int64_t>(nodes.size());
    trace.bytes = static_cast<std::int64_t>(bytes);
  }
}

Traces::~Traces() = default;

std::int64_t Traces::bytes() const {
  std::int64_t all = 0;
  for (const TraceFile& trace : sizes_) all += trace.bytes;
  return all;
}

std::string Traces::text(std::size_t index) const {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    write_delimited(metadata(*graph_, index, title_), out);
    for (const ChakraProtoMsg::Node& node : graph_->nodes(index)) write_delimited(node, out);
  }
  return bytes;
}

Json Traces::groups() const {
  Json json = Json::object();
  int number = 0;
  for (const Graph::Group& group : graph_->groups()) {
    Json& ranks = json[std::to_string(++number)] = Json::array();
    for (const RankId rank : group.ranks) ranks.push_back(rank.value);
  }
  return json;
}

Result<ChakraExport> Traces::write(const std::filesystem::path& prefix) const {
  ChakraExport exported;
  const sim::Timeline& timeline = graph_->timeline();
  exported.title = title_;
  exported.step = timeline.step;
  exported.step_time_s = to_seconds(timeline.step_end - timeline.step_begin).value;
  exported.traces = sizes_;
  exported.groups = static_cast<int>(graph_->groups().size());
  for (std::size_t r = 0; r < sizes_.size(); ++r) {
    std::filesystem::path& file = exported.traces[r].file = prefix;
    file += fmt::format(".{}.et", sizes_[r].rank);
    if (const Status written = write_file(file, text(r)); !written) return written.errors();
  }
  exported.groups_file = prefix;
  exported.groups_file += ".groups.json";
  if (const Status written = write_file(exported.groups_file, groups().dump() + "\n"); !written) {
    return written.errors();
  }
  const int ranks = graph_->program().ranks;
  if (static_cast<int>(sizes_.size()) < ranks) {
    exported.notes.push_back(
        fmt::format("{} of {} ranks: ASTRA-sim needs the files of all ranks of a job (--ranks 0-{})", sizes_.size(),
                    ranks, ranks - 1));
  }
  if (graph_->unequal_sizes()) {
    exported.notes.emplace_back(
        "members of some collectives move unequal bytes (expert exchange): comm_size is the mean of the exported "
        "members, which ASTRA-sim needs to be equal; payload_bytes is each rank's own");
  }
  exported.notes.emplace_back(
      "dependencies on the step before are not in the files; start_time_micros and duration_micros are rounded to "
      "whole microseconds, begin_ps and end_ps are exact");
  return exported;
}

Json to_json(const ChakraExport& exported) {
  Json json = {{"schema", export_schema},
               {"scenario", exported.title},
               {"step", exported.step},
               {"step_time_s", exported.step_time_s}};
  json["traces"] = Json::array();
  for (const TraceFile& trace : exported.traces) {
    json["traces"].push_back(
        {{"rank", trace.rank}, {"file", trace.file.string()}, {"nodes", trace.nodes}, {"bytes", trace.bytes}});
  }
  json["groups_file"] = exported.groups_file.string();
  json["groups"] = exported.groups;
  json["notes"] = exported.notes;
  return json;
}

std::string to_table(const ChakraExport& exported, bool colour) {
  std::string text = bold(exported.title, colour) + "\n";
  text += fmt::format("  step {} of {}, {} rank{}, {} communicator groups in {}\n\n", exported.step,
                      time_text(exported.step_time_s), exported.traces.size(), exported.traces.size() == 1 ? "" : "s",
                      exported.groups, exported.groups_file.string());
  TextTable table({"rank", "nodes", "size", "<file"});
  for (const TraceFile& trace : exported.traces) {
    table.row({std::to_string(trace.rank), std::to_string(trace.nodes), bytes_text(static_cast<double>(trace.bytes)),
               trace.file.string()});
  }
  text += table.text() + "\n";
  for (const std::string& note : exported.notes) text += "  - " + wrapped(note, 4) + "\n";
  return text;
}

std::string to_csv(const ChakraExport& exported) {
  std::string text = csv_line({"rank", "file", "nodes", "bytes"});
  for (const TraceFile& trace : exported.traces) {
    text += csv_line(
        {std::to_string(trace.rank), trace.file.string(), std::to_string(trace.nodes), std::to_string(trace.bytes)});
  }
  return text;
}

}  // namespace stepcast::scenarios::chakra
