// What moved between two results, part by part: as bars left and right of zero and as a table.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenarios/compare.h"
#include "scenarios/html/page.h"

namespace stepcast::scenarios::html {

struct MovedWords {
  std::string id, title;
  std::string a, b;  // what the results are called: "A", "the second layout"
};

// Parts that moved by `least` or less have no bar.
[[nodiscard]] Chart moved_chart(const MovedWords& words, const std::vector<Moved>& moved, Unit unit, double least);

// `pointer`: of the object in the page's JSON that holds the parts by name, each with a, b and change.
[[nodiscard]] Table moved_table(const Page& page, const std::vector<Moved>& moved, const std::string& pointer,
                                const std::pair<std::string, std::string>& names, Unit unit);

}  // namespace stepcast::scenarios::html
