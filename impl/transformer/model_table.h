// The models of this folder as plug-ins for attest check-model: `model:decoder` and its siblings,
// right, and `model-mutant:ID`, each with one fault of faults.h.
#ifndef ATTEST_TRANSFORMER_MODEL_TABLE_H_
#define ATTEST_TRANSFORMER_MODEL_TABLE_H_

#include <attest/model.h>

namespace attest::transformer {

// Variants decoder (the default), gpt, alibi, windowed, paged, encoder, encoder-decoder; create
// options those of WithOptions, dtype=f32|f64, and attention=tiled (the default, impl/tiled through
// the plug-in interface) or plain.
const attest_model_table* ModelTable();

// Variants are the ids of Mutants().
const attest_model_table* MutantTable();

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_MODEL_TABLE_H_
