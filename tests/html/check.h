// What every page of --report promises, checked without a browser.
#pragma once

#include <string>
#include <vector>

namespace stepcast::html_tests {

// Empty when all of this holds:
//   tags are balanced, ids unique, references to them lead somewhere; the file is under 1 MB;
//   nothing is loaded: no address outside of the file in any attribute or style;
//   every mark and word of a drawing lies inside its view box;
//   every drawing has a title, a description, a table and a button for its CSV;
//   every number that names its place in the embedded JSON equals it.
[[nodiscard]] std::vector<std::string> faults_of(const std::string& html);

// The script element with the data, as text.
[[nodiscard]] std::string data_of(const std::string& html);
// How many numbers the page takes from its data.
[[nodiscard]] std::size_t numbers_in(const std::string& html);

}  // namespace stepcast::html_tests
