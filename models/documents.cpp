#include <algorithm>
#include <cmath>

#include "models/ledger.h"

namespace stepcast::models {

Documents make_documents(std::span<const double> lengths, int window, int sequence_length) {
  Documents documents;
  documents.sequence_length = sequence_length;
  for (const double s : lengths) {
    const double w = window > 0 ? std::min<double>(window, s) : s;
    documents.tokens += s;
    documents.sum_of_squares += s * s;
    documents.sum_windowed += w * w / 2 + (s - w) * w;
    const double chunks = w > 0 ? std::floor(s / w) : 0;
    const double rest = s - chunks * w;
    documents.sum_chunked += (chunks * w * w + rest * rest) / 2;
  }
  return documents;
}

Documents one_sequence(int sequence_length, int window) {
  const double length = sequence_length;
  return make_documents({&length, 1}, window, sequence_length);
}

double causal_pairs(const Documents& documents, AttentionKind kind) {
  switch (kind) {
    case AttentionKind::full:
      return documents.sum_of_squares / 2;
    case AttentionKind::sliding:
      return documents.sum_windowed;
    case AttentionKind::chunked:
      return documents.sum_chunked;
    default:
      return 0;
  }
}

}  // namespace stepcast::models
