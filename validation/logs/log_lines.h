// Lines of a log as tools and launchers leave them: without escape codes, carriage returns and byte-order mark.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::validation {

// The lines of a text; a line rewritten by carriage returns keeps its last state.
[[nodiscard]] std::vector<std::string> clean_lines(std::string_view text);
[[nodiscard]] std::vector<std::string> words_of(std::string_view line);
// The whole text as a finite decimal number ("1e-3", "12.5"); no thousands separators, no units.
[[nodiscard]] std::optional<double> whole_number(std::string_view text);
[[nodiscard]] std::string trimmed_text(std::string_view text);

}  // namespace stepcast::validation
