// The nodes of each rank's trace: what the engine recorded, in the messages of et_def.proto.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <et_def.pb.h>

#include "sim/program/program.h"
#include "sim/record/dependencies.h"
#include "sim/record/meetings.h"
#include "sim/record/recorder.h"

namespace stepcast::scenarios::chakra {

class Graph {
 public:
  // Borrows both.
  Graph(const sim::Program& program, const sim::Timeline& timeline);

  [[nodiscard]] const sim::Program& program() const { return program_; }
  [[nodiscard]] const sim::Timeline& timeline() const { return timeline_; }
  [[nodiscard]] Ticks origin() const { return origin_; }  // zero of the files' clock: their earliest begin

  // Of the rank with this index in Timeline::ranks, in issue order; ids count from 1.
  [[nodiscard]] std::vector<ChakraProtoMsg::Node> nodes(std::size_t index) const;

  // Communicators: name and members, numbered from 1 (ASTRA-sim takes no 0).
  struct Group {
    std::string name;
    std::vector<RankId> ranks;
  };
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  // Some collective's members move unequal bytes, so that comm_size is their mean.
  [[nodiscard]] bool unequal_sizes() const { return unequal_sizes_; }

 private:
  class Builder;
  void find_groups();
  void find_sizes();
  [[nodiscard]] double payload(const sim::TimelineOp& op) const;

  const sim::Program& program_;
  const sim::Timeline& timeline_;
  std::vector<sim::Dependency> dependencies_;
  std::vector<sim::Meeting> meetings_;  // by op
  std::vector<std::size_t> first_op_;   // by rank of the timeline, and one more
  std::vector<Group> groups_;
  std::vector<int> group_of_op_;         // index into groups_ + 1; 0: no collective
  std::vector<std::int64_t> comm_size_;  // by op
  bool unequal_sizes_ = false;
  Ticks origin_ = 0;
};

}  // namespace stepcast::scenarios::chakra
