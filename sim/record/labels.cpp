#include "sim/record/labels.h"

#include <algorithm>

namespace stepcast::sim {
namespace {

struct StreamCategories {
  Category transfer, waiting;
};

// Waiting for a pipeline neighbour is the schedule's bubble, not a peer's slowness.
StreamCategories of_stream(Stream stream) {
  switch (stream) {
    case Stream::tp:
      return {Category::exposed_tp, Category::wait_tp};
    case Stream::cp:
      return {Category::exposed_cp, Category::wait_cp};
    case Stream::ep:
      return {Category::exposed_ep, Category::wait_ep};
    case Stream::pp_send:
    case Stream::pp_receive:
      return {Category::exposed_pp, Category::bubble};
    case Stream::dp:
      return {Category::exposed_dp, Category::wait_dp};
    case Stream::compute:
    case Stream::copy:
      break;
  }
  return {Category::other, Category::other};
}

// The communicator's stream behind a group's name, for collectives that run on the compute stream.
Stream stream_of_group(const std::string& group) {
  if (group == "tp" || group == "etp") return Stream::tp;
  if (group == "cp") return Stream::cp;
  if (group == "ep") return Stream::ep;
  if (group == "pp") return Stream::pp_send;
  return Stream::dp;
}

}  // namespace

Labels::Labels(const Program& program) {
  tables_.resize(program.cohorts.size());
  for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
    const Cohort& cohort = program.cohorts[c];
    Table& table = tables_[c];
    std::vector<std::size_t> first_of_body;
    for (const Body& body : cohort.bodies) {
      first_of_body.push_back(table.labels.size());
      for (const Instruction& in : body.instructions) table.labels.push_back(label(program, cohort, in));
    }
    for (const Call& call : cohort.calls) table.first_of_call.push_back(first_of_body[call.body]);
  }
}

std::uint16_t Labels::account(const std::string& collective, const std::string& group) {
  const auto same = [&](const Account& a) { return a.collective == collective && a.group == group; };
  const auto found = std::find_if(accounts_.begin(), accounts_.end(), same);
  if (found != accounts_.end()) return static_cast<std::uint16_t>(found - accounts_.begin());
  accounts_.push_back({collective, group});
  return static_cast<std::uint16_t>(accounts_.size() - 1);
}

OpLabel Labels::label(const Program& program, const Cohort& cohort, const Instruction& in) {
  if (in.op == Opcode::host_sync) return {};
  const Work& work = cohort.works[in.work];
  const std::string collective = work.collective.empty() ? work.name : work.collective;
  StreamCategories categories = of_stream(in.stream);
  if (in.stream == Stream::compute && in.op == Opcode::compute) return {work.category, Category::other, none16};
  // A copy to or from the host has no stream category of its own: the work says what it is for.
  if (in.stream == Stream::copy && in.op == Opcode::compute) return {work.category, Category::other, none16};
  switch (in.op) {
    case Opcode::collective: {
      const std::string& group = cohort.groups[in.target].name;
      if (in.stream == Stream::compute) categories = of_stream(stream_of_group(group));
      return {categories.transfer, categories.waiting, account(collective, group)};
    }
    case Opcode::join:
      if (in.stream == Stream::compute) categories = of_stream(Stream::dp);
      // Between stages one waits for the schedule, within one for slower peers.
      if (program.joins[in.target].cohorts.size() > 1) categories.waiting = Category::bubble;
      return {categories.transfer, categories.waiting, account(collective, program.joins[in.target].name)};
    case Opcode::send:
    case Opcode::receive:
      return {Category::exposed_pp, Category::bubble, account("send_receive", "pp")};
    case Opcode::compute:
      if (!work.collective.empty()) return {categories.transfer, Category::other, account(collective, name(in.stream))};
      return {categories.transfer, Category::other, none16};
    case Opcode::host_sync:
      break;
  }
  return {};
}

}  // namespace stepcast::sim
