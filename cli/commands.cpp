#include "cli/commands.h"

namespace stepcast::cli {

std::span<const Command* const> commands() {
  static constexpr std::array all = {
      &simulate_command, &account_command, &compare_command,  &explain_command,  &headroom_command,   &scale_command,
      &plan_command,     &run_command,     &baseline_command, &validate_command, &calibrate_command,  &sweep_command,
      &merge_command,    &import_command,  &export_command,   &list_command,     &completion_command, &man_command};
  return all;
}

}  // namespace stepcast::cli
