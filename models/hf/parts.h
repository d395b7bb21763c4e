// The parts of a model that the importer reads, in this order; each appends its errors and assumptions to `config`.
#pragma once

#include "models/hf/config.h"
#include "models/transformer.h"

namespace stepcast::models::hf {

// layers, hidden, vocabulary, norms, ties, positions, dropout; `model.layers` gets its length.
void read_body(Config& config, Model& model);
// Heads, MLA, biases, linear attention and Mamba shapes.
void read_attention(Config& config, Model& model);
// Which mixer each layer has, and the window.
void read_attention_kinds(Config& config, Model& model);
// Dense width, experts, shared expert, groups.
void read_ffn(Config& config, Model& model);
// Which layers are MoE.
void read_ffn_kinds(Config& config, Model& model);
// Nemotron-H: one block a layer by a pattern of letters. True if the family is that; then the two kinds above are set.
bool read_hybrid_pattern(Config& config, Model& model);
void read_mtp(Config& config, Model& model);

// Refuses keys that would change the answer and cannot be expressed; names those that are left out.
void refuse_unsupported(Config& config);
void account_for_unread(Config& config);

}  // namespace stepcast::models::hf
