// What moved between two results, part by part: as bars left and right of zero and as a table.
#pragma once

#include <string>
#include <vector>

#include "scenarios/compare.h"
#include "scenarios/html/page.h"

namespace stepcast::scenarios::html {

struct MovedWords {
  std::string id, title;  // of the chart
  std::string a, b;       // what the results are called: "A", "the second layout"
  std::string pointer;    // of the object in the page's JSON that holds the parts by name, each with a, b and change
};

// Parts that moved by `least` or less have no bar.
void add_moved(Page& page, const MovedWords& words, const std::vector<Moved>& moved, Unit unit, double least);

}  // namespace stepcast::scenarios::html
