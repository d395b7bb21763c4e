// Lengths of documents: a list, a file of numbers, or a distribution by name.
#pragma once

#include <string>
#include <vector>

#include "scenarios/draft.h"

namespace stepcast::scenarios {

// workload.document_lengths: [n, ...], "lognormal:MEAN,SIGMA" or a file. Lengths are cut at the sequence length.
void read_documents(Draft& draft, JsonFields& workload);

// 512 lengths at the quantiles (i + 1/2) / 512 of a log-normal distribution with this mean and this standard
// deviation of the logarithm, scaled so that their mean is exact; each from 1 to `longest`.
[[nodiscard]] std::vector<double> lognormal_lengths(double mean, double sigma, double longest);

// The x with P(N(0,1) < x) = p, for 0 < p < 1.
[[nodiscard]] double normal_quantile(double p);

// Numbers of a text: one or more a line, or a JSON list (of lists). Errors name line and column.
[[nodiscard]] Result<std::vector<double>> parse_numbers(const std::string& text, const std::string& file);

}  // namespace stepcast::scenarios
