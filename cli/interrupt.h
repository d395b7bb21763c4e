// SIGINT and SIGTERM as a flag that long computations poll.
//
// The first signal asks for a valid partial result; the second one ends the
// process as if there were no handler.
#pragma once

namespace stepcast::cli {

void watch_for_interrupts();
[[nodiscard]] bool interrupted();

}  // namespace stepcast::cli
