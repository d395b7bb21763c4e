// What each instruction counts as: its communication account and the categories of its transfer and of its waiting.
//
// A pure function of the program, tabulated once so that recording reads it by index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/program.h"

namespace stepcast::sim {

struct OpLabel {
  Category transfer = Category::other;  // when begin..end falls into a gap of the compute stream
  Category waiting = Category::other;   // when ready..begin does
  std::uint16_t account = none16;       // index into Labels::accounts(), none16: no communication
};

class Labels {
 public:
  // One account a pair (collective, group). Sends and receives share the account ("send_receive", "pp").
  struct Account {
    std::string collective, group;
  };

  explicit Labels(const Program& program);

  [[nodiscard]] const OpLabel& of(int cohort, int call, int pc) const {
    const Table& table = tables_[static_cast<std::size_t>(cohort)];
    return table.labels[table.first_of_call[static_cast<std::size_t>(call)] + static_cast<std::size_t>(pc)];
  }
  [[nodiscard]] const std::vector<Account>& accounts() const { return accounts_; }

 private:
  struct Table {
    std::vector<OpLabel> labels;  // body by body
    std::vector<std::size_t> first_of_call;
  };
  std::uint16_t account(const std::string& collective, const std::string& group);
  OpLabel label(const Program& program, const Cohort& cohort, const Instruction& in);

  std::vector<Table> tables_;  // by cohort
  std::vector<Account> accounts_;
};

}  // namespace stepcast::sim
