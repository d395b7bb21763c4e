// The commands, each defined in the file of its name.
#pragma once

#include "cli/command.h"

namespace stepcast::cli {

extern const Command simulate_command;
extern const Command account_command;
extern const Command compare_command;
extern const Command explain_command;
extern const Command headroom_command;
extern const Command scale_command;
extern const Command plan_command;
extern const Command validate_command;
extern const Command calibrate_command;
extern const Command sweep_command;
extern const Command merge_command;
extern const Command import_command;
extern const Command export_command;
extern const Command run_command;
extern const Command baseline_command;
extern const Command list_command;
extern const Command completion_command;
extern const Command man_command;

}  // namespace stepcast::cli
