#include "cli/layout_axes.h"

#include <array>
#include <string>
#include <vector>

#include <boost/program_options/value_semantic.hpp>

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

constexpr std::array<const char*, 10> axes = {"tp",  "cp",          "pp",       "vpp",      "ep",
                                              "etp", "micro-batch", "schedule", "sharding", "headroom"};

}  // namespace

void add_layout_axes(po::options_description& options) {
  const auto list = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("tp", list("LIST"),
                        "tensor parallelism, as in 1,2,4 (default: divisors of the NVLink domain up to 8)")(
      "cp", list("LIST"), "context parallelism (default: pieces of 2,048 tokens and above)")(
      "pp", list("LIST"), "pipeline ranks (default: divisors of the devices up to 64)")(
      "vpp", list("LIST"), "chunks a pipeline rank (default: 1,2,4 and the scenario's)")(
      "ep", list("LIST"), "expert parallelism (default: divisors of the devices up to the experts)")(
      "etp", list("LIST"), "tensor parallelism of experts (default: as --tp)")(
      "micro-batch", list("LIST"), "sequences a microbatch (default: 1,2,4 and the scenario's)")(
      "schedule", list("LIST"), "as in 1f1b,interleaved (default: all but gpipe, and the scenario's)")(
      "sharding", list("LIST"), "of none, zero1, zero2, zero3, hsdp (default: zero1,zero2,zero3 and the scenario's)")(
      "headroom", list("SHARE"), "of a device's memory that stays free (default 0)");
}

std::vector<std::string> read_names(const Arguments& arguments, const char* option) {
  std::vector<std::string> out;
  if (!arguments.has(option)) return out;
  std::string name;
  for (const char c : arguments.text(option) + ",") {
    if (c != ',') {
      name += c;
      continue;
    }
    out.push_back(name);
    name.clear();
  }
  return out;
}

std::vector<int> read_counts(Arguments& arguments, const char* option, int high) {
  auto values = arguments.integers(option, high);
  if (!values.empty() && values.front() == 0) arguments.fail(option, "found 0; whole numbers above it are allowed");
  return values;
}

scenarios::plan::SpaceRequest read_layout_axes(Arguments& arguments) {
  constexpr int largest = 1 << 14;
  scenarios::plan::SpaceRequest space;
  space.tp = read_counts(arguments, "tp", largest);
  space.cp = read_counts(arguments, "cp", largest);
  space.pp = read_counts(arguments, "pp", largest);
  space.vpp = read_counts(arguments, "vpp", largest);
  space.ep = read_counts(arguments, "ep", largest);
  space.etp = read_counts(arguments, "etp", largest);
  space.micro_batch = read_counts(arguments, "micro-batch", largest);
  space.schedule = read_names(arguments, "schedule");
  space.sharding = read_names(arguments, "sharding");
  return space;
}

double read_headroom(Arguments& arguments) { return arguments.number("headroom", 0, 0.99).value_or(0); }

void refuse_layout_axes(Arguments& arguments, const std::string& message) {
  for (const char* axis : axes) {
    if (arguments.has(axis)) arguments.fail(axis, message);
  }
}

}  // namespace stepcast::cli
