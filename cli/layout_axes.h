// The axes of a layout as options: --tp, --pp, ..., --sharding, and --headroom. Of `plan`, and of `scale` where it
// plans.
#pragma once

#include <boost/program_options/options_description.hpp>

#include "cli/arguments.h"
#include "scenarios/plan/space.h"

namespace stepcast::cli {

void add_layout_axes(boost::program_options::options_description& options);

// Values that the options restrict the axes to; errors collect in `arguments`.
[[nodiscard]] scenarios::plan::SpaceRequest read_layout_axes(Arguments& arguments);
// Share of a device's memory that stays free; 0 when not given.
[[nodiscard]] double read_headroom(Arguments& arguments);
// Each of the options that is given is an error that says `message`.
void refuse_layout_axes(Arguments& arguments, const std::string& message);

// Items between commas.
[[nodiscard]] std::vector<std::string> read_names(const Arguments& arguments, const char* option);
// As Arguments::integers, without 0.
[[nodiscard]] std::vector<int> read_counts(Arguments& arguments, const char* option, int high);

}  // namespace stepcast::cli
