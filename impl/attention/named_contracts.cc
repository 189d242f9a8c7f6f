// The published contracts. One row each: name, where the conventions are published, and the
// promises in the same JSON that kernels use.
#include "impl/attention/contract.h"

namespace attest {

const std::vector<NamedContract>& NamedContracts() {
  static const std::vector<NamedContract> kContracts = {
      {"attest-1",
       "attest's own conventions: everything the harness can ask for, promised strictly",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["explicit"],
         "window_counts": "keys_beside_diagonal",
         "empty_row": "zero",
         "lse": "natural",
         "lse_empty_row": "-inf",
         "poison_safe": ["k:length", "k:causal", "k:window", "k:mask", "k:bias",
                         "v:length", "v:causal", "v:window", "v:mask", "v:bias"],
         "visible_nan_propagates": true,
         "features": ["causal", "window", "key_lengths", "mask", "bias", "mask_with_bias", "gqa",
                      "value_dim", "zero_sizes", "weights", "mask_broadcast", "mask_key_broadcast",
                      "mask_ranks"],
         "bits_invariant": ["hidden_values", "batch", "heads", "layout", "mask_form", "rerun"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd", "bshd"],
         "strides": "any",
         "numerics": {"exp_ulp": 4, "flush_to_zero": false}
       })"},
      // True keeps, an empty row is zero (the rule's 2026-06 errata), the additive mask hides with
      // -inf. Hidden non-finite values and reproducible bits are not specified. The operator's function
      // body scales Q and K and multiplies them in the tensors' own type.
      {"onnx-attention-23",
       "ONNX operator Attention, opset 23 (onnx 1.18, docs/Operators.md), errata to 2026-06",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["zero"],
         "empty_row": "zero",
         "lse": "none",
         "features": ["causal", "mask", "bias", "gqa", "value_dim", "weights", "mask_broadcast",
                      "mask_key_broadcast", "mask_ranks"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd"],
         "strides": "dense",
         "numerics": {"f16": {"scores": "f16", "scale_placement": "storage"},
                      "bf16": {"scores": "bf16", "scale_placement": "storage"}}
       })"},
      // A mask whose key extent is shorter than kv_len is padded with "hide" here, so what an
      // extent of 1 means (broadcast or padded) is left open, and not promised.
      {"onnx-attention-24",
       "ONNX operator Attention, opset 24 (onnx 1.19: adds nonpad_kv_seqlen), errata to 2026-06",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["by_inputs"],
         "empty_row": "zero",
         "lse": "none",
         "features": ["causal", "mask", "bias", "key_lengths", "gqa", "value_dim", "weights",
                      "mask_broadcast", "mask_ranks"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd"],
         "strides": "dense",
         "numerics": {"f16": {"scores": "f16", "scale_placement": "storage"},
                      "bf16": {"scores": "bf16", "scale_placement": "storage"}}
       })"},
  };
  return kContracts;
}

}  // namespace attest
