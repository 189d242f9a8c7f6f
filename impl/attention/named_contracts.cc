// The published contracts. One row each: name, where the conventions are published, and the
// promises in the same JSON that kernels use. Only what a source promises stands here: what its
// implementation happens to do is for `attest probe` to find out, and a kernel that names a row lists
// what it offers of it. Comments say what a row leaves out and why. "source" is the text or code that
// was read; a row does not change when its source does, it gets a successor with another name.
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
         "padded_query_rows": "computed",
         "softcap_order": "before_bias",
         "masking_value": "-inf",
         "lse": "natural",
         "lse_empty_row": "-inf",
         "scores": ["raw", "capped", "biased", "weights"],
         "poison_safe": ["k:length", "k:causal", "k:window", "k:mask", "k:bias", "k:document",
                         "k:block", "k:page",
                         "v:length", "v:causal", "v:window", "v:mask", "v:bias", "v:document",
                         "v:block", "v:page"],
         "visible_nan_propagates": true,
         "features": ["causal", "window", "key_lengths", "mask", "bias", "mask_with_bias", "gqa",
                      "value_dim", "zero_sizes", "weights", "mask_broadcast", "mask_key_broadcast",
                      "mask_ranks", "bias_f32", "query_lengths", "prefix_lengths", "documents",
                      "block_mask", "softcap", "alibi", "sinks", "dropout", "past", "present",
                      "pages", "ring", "packed"],
         "fp8": ["e4m3", "e5m2"],
         "bits_invariant": ["hidden_values", "batch", "heads", "layout", "mask_form", "rerun"],
         "concurrent_calls": true,
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd", "bshd"],
         "strides": "any",
         "numerics": {"exp_ulp": 4, "flush_to_zero": false}
       })"},

      // --- ONNX. True keeps, the additive mask hides with -inf. Hidden non-finite values and
      // reproducible bits are not specified. The operator's function body scales Q and K and multiplies
      // them in the tensors' own type. The diagonal follows the inputs: from the past where there is
      // one, from the key lengths where there are some, else from the top left. The body takes the
      // scale's root.

      // Before the errata of 2026: the softcap comes after the mask, and the text lets an empty row
      // be NaN. The scores outputs 1 and 2 changed their meaning since and are not promised.
      {"onnx-attention-23-2025",
       "ONNX operator Attention, opset 23, as in onnx 1.20.1 (2025), before the errata of 2026",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["by_inputs"],
         "excludes": ["past_without_present", "present_without_past", "negative_scale"],
         "empty_row": "nan",
         "lse": "none",
         "softcap_order": "after_bias",
         "features": ["causal", "mask", "bias", "gqa", "value_dim", "weights", "mask_broadcast",
                      "mask_key_broadcast", "mask_ranks", "softcap", "past", "present"],
         "scores": ["raw", "weights"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd"],
         "strides": "dense",
         "numerics": {"f16": {"scores": "f16", "scale_placement": "storage"},
                      "bf16": {"scores": "bf16", "scale_placement": "storage"}}
       })"},
      {"onnx-attention-23",
       "ONNX operator Attention, opset 23 (onnx 1.18, docs/Operators.md), errata to 2026-06",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["by_inputs"],
         "excludes": ["past_without_present", "present_without_past", "negative_scale"],
         "empty_row": "zero",
         "lse": "none",
         "softcap_order": "before_bias",
         "features": ["causal", "mask", "bias", "gqa", "value_dim", "weights", "mask_broadcast",
                      "mask_key_broadcast", "mask_ranks", "softcap", "past", "present"],
         "scores": ["raw", "capped", "biased", "weights"],
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
         "excludes": ["past_without_present", "present_without_past", "negative_scale"],
         "empty_row": "zero",
         "lse": "none",
         "softcap_order": "before_bias",
         "features": ["causal", "mask", "bias", "key_lengths", "gqa", "value_dim", "weights",
                      "mask_broadcast", "mask_ranks", "softcap", "past", "present"],
         "scores": ["raw", "capped", "biased", "weights"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd"],
         "strides": "dense",
         "numerics": {"f16": {"scores": "f16", "scale_placement": "storage"},
                      "bf16": {"scores": "bf16", "scale_placement": "storage"}}
       })"},
      // Windows on both sides, measured from the same diagonal: W to the left are W + 1 keys.
      {"onnx-attention-25",
       "ONNX operator Attention, opset 25 (onnx 1.23 dev, commit 7a4496a47, 2026-08: adds windows)",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["by_inputs"],
         "excludes": ["past_without_present", "present_without_past", "negative_scale"],
         "window_counts": "keys_beside_diagonal",
         "empty_row": "zero",
         "lse": "none",
         "softcap_order": "before_bias",
         "features": ["causal", "window", "mask", "bias", "key_lengths", "gqa", "value_dim",
                      "weights", "mask_broadcast", "mask_ranks", "softcap", "past", "present"],
         "scores": ["raw", "capped", "biased", "weights"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd"],
         "strides": "dense",
         "numerics": {"f16": {"scores": "f16", "scale_placement": "storage"},
                      "bf16": {"scores": "bf16", "scale_placement": "storage"}}
       })"},
      // causal=true makes the operator ignore its mask: the two are not asked for together. The
      // pseudo-code has no guard: an empty row is 0/0.
      {"openvino-13",
       "OpenVINO operator ScaledDotProductAttention-13 (specification and its pseudo-code)",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["zero"],
         "excludes": ["causal_with_mask", "causal_with_bias"],
         "empty_row": "nan",
         "lse": "none",
         "features": ["causal", "mask", "bias", "value_dim", "mask_broadcast", "mask_key_broadcast",
                      "mask_ranks"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd"],
         "strides": "dense"
       })"},

      // --- Frameworks.

      // is_causal together with attn_mask is an error there. Dropout draws its own mask.
      {"torch-sdpa-2.5",
       "torch.nn.functional.scaled_dot_product_attention, PyTorch 2.5 (documentation; "
       "_safe_softmax, "
       "PR 131060)",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["zero"],
         "excludes": ["causal_with_mask", "causal_with_bias"],
         "empty_row": "zero",
         "lse": "none",
         "features": ["causal", "mask", "bias", "gqa", "value_dim", "mask_broadcast",
                      "mask_key_broadcast", "mask_ranks"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bhsd", "bshd"],
         "strides": "any"
       })"},
      // The attention inside the module. True hides: the opposite of the function above. An empty row
      // was NaN or not by the path taken until 2026 (issue 160064), so it is left open. Its masks are
      // [q_len, kv_len] or [batch * heads, q_len, kv_len]: no other broadcast.
      {"torch-mha",
       "torch.nn.MultiheadAttention, PyTorch 2.5 (documentation: attn_mask, key_padding_mask)",
       R"({
         "mask_true_means": "hide",
         "lse": "none",
         "features": ["mask", "bias", "weights"],
         "dtypes": ["f32", "f64", "f16", "bf16"],
         "layouts": ["bshd"],
         "strides": "dense"
       })"},
      // implementation='xla': hidden scores are replaced by -0.7 times the largest f32, after the bias;
      // a row without a key is then the mean of all values. Scores and softmax are always f32.
      {"jax",
       "jax.nn.dot_product_attention, implementation='xla', 2026-09 (jax/_src/nn/functions.py)",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["zero"],
         "window_counts": "keys_beside_diagonal",
         "empty_row": "mean_value",
         "lse": "none",
         "masking_value": {"replace": -2.3819764e38},
         "features": ["causal", "window", "mask", "bias", "mask_with_bias", "key_lengths",
                      "query_lengths", "gqa", "mask_broadcast", "mask_key_broadcast"],
         "dtypes": ["f32", "f16", "bf16"],
         "layouts": ["bshd"],
         "strides": "dense"
       })"},
      // A boolean mask becomes the least finite value of the scores' type, -65504 at worst. Of an empty
      // row only "not NaN" is asserted. One argument is the word "causal" or a mask, never both.
      {"mlx",
       "mlx.core.fast.scaled_dot_product_attention, 2026-09 (documentation and fallback path)",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["kv_len_minus_q_len"],
         "excludes": ["causal_with_mask", "causal_with_bias"],
         "lse": "none",
         "masking_value": {"replace": -65504},
         "features": ["causal", "mask", "bias", "gqa", "value_dim", "mask_broadcast",
                      "mask_key_broadcast", "mask_ranks", "sinks"],
         "dtypes": ["f32", "f16", "bf16"],
         "layouts": ["bhsd"],
         "strides": "any"
       })"},
      // Masks are objects: LowerTriangularMask is top left, LowerTriangularFromBottomRightMask bottom
      // right, BlockDiagonalMask packs sequences. Local attention has a left side only: no window.
      {"xformers",
       "xformers.ops.memory_efficient_attention, 2026-09 (documentation, "
       "fmha/attn_bias.py)",
       R"({
         "causal_offset": ["zero", "kv_len_minus_q_len"],
         "lse": "natural",
         "features": ["causal", "bias", "gqa", "value_dim", "documents", "packed"],
         "dtypes": ["f32", "f16", "bf16"],
         "layouts": ["bshd"],
         "strides": "last_dim_contiguous"
       })"},

      // --- Fused kernels.

      // Bottom right of each item's own lengths. An empty row has lse +inf (softmax.h); where the keys
      // are split over blocks -inf, so the value is promised for the plain path. Forward is
      // deterministic by its documentation. Dropout draws its own mask. A row's maximum is taken before the
      // scale: no negative one.
      {"flash-attention-2",
       "flash-attn from 2.1 (README, flash_attn_interface.py, csrc/flash_attn/src/softmax.h)",
       R"({
         "causal_offset": ["key_length_minus_q_len"],
         "excludes": ["negative_scale"],
         "window_counts": "keys_beside_diagonal",
         "empty_row": "zero",
         "lse": "natural",
         "lse_empty_row": "+inf",
         "softcap_order": "before_bias",
         "features": ["causal", "window", "key_lengths", "gqa", "softcap", "alibi", "pages",
                      "packed"],
         "bits_invariant": ["rerun"],
         "dtypes": ["f16", "bf16"],
         "layouts": ["bshd"],
         "strides": "last_dim_contiguous",
         "limits": {"max_head_dim": 256, "head_dim_multiple": 8}
       })"},
      // The lse is in base 2, window_left counts keys beside the diagonal and has no right side. A custom
      // mask takes the place of causality. Its ALiBi grows with the key on both sides of the diagonal,
      // which is another formula. Empty rows since PR 4401 (2026-08).
      {"flashinfer",
       "FlashInfer (documentation and include/flashinfer/attention), main of 2026-08 with PR 4401",
       R"({
         "mask_true_means": "attend",
         "causal_offset": ["key_length_minus_q_len"],
         "window_counts": "keys_beside_diagonal",
         "window_sides": "left",
         "excludes": ["causal_with_mask"],
         "empty_row": "zero",
         "lse": "base2",
         "lse_empty_row": "-inf",
         "softcap_order": "before_bias",
         "features": ["causal", "window", "mask", "key_lengths", "gqa", "softcap", "sinks", "pages",
                      "packed"],
         "dtypes": ["f16", "bf16"],
         "layouts": ["bhsd", "bshd"],
         "strides": "last_dim_contiguous"
       })"},
      // sliding_window is W keys in all, ends at the diagonal, and is for decoders, which are causal.
      {"vllm", "vLLM, 2026-09 (attention backends over a paged cache)",
       R"({
         "causal_offset": ["key_length_minus_q_len"],
         "window_counts": "keys_with_diagonal",
         "window_sides": "left_if_causal",
         "lse": "natural",
         "softcap_order": "before_bias",
         "features": ["causal", "window", "key_lengths", "gqa", "softcap", "alibi", "sinks", "pages",
                      "packed"],
         "dtypes": ["f16", "bf16"],
         "layouts": ["bshd"],
         "strides": "last_dim_contiguous"
       })"},
      // Either diagonal, by diagonal_alignment, so calls say which. Bounds on both sides; the left one
      // is exclusive: W keys with the diagonal key. Dropout takes a mask.
      {"cudnn",
       "cuDNN frontend, 2026-09, scaled dot product attention (documentation and its Python "
       "reference)",
       R"({
         "causal_offset": ["zero", "key_length_minus_q_len"],
         "window_counts": "keys_with_diagonal",
         "empty_row": "zero",
         "lse": "natural",
         "lse_empty_row": "-inf",
         "features": ["causal", "window", "key_lengths", "query_lengths", "bias", "alibi", "gqa",
                      "value_dim", "block_mask", "sinks", "dropout", "pages", "packed"],
         "dtypes": ["f16", "bf16"],
         "fp8": ["e4m3", "e5m2"],
         "layouts": ["bhsd", "bshd"],
         "strides": "last_dim_contiguous"
       })"},
      // True hides. Hidden scores become -10000 in the fused softmax, and a row whose largest score
      // is that filler is set to 0. Masks are b1ss, bhss, 1hss or 11ss: rows and keys are never broadcast,
      // so broadcast is not promised. attn_mask_type is causal or arbitrary (a mask), never both; the
      // bias is an argument of its own.
      {"transformer-engine",
       "Transformer Engine DotProductAttention, 2026-09, unfused path (documentation, "
       "scaled_masked_softmax.h)",
       R"({
         "mask_true_means": "hide",
         "causal_offset": ["zero", "kv_len_minus_q_len"],
         "excludes": ["causal_with_mask"],
         "window_counts": "keys_beside_diagonal",
         "empty_row": "zero",
         "lse": "none",
         "masking_value": {"replace": -10000},
         "features": ["causal", "window", "mask", "bias", "mask_with_bias", "alibi", "gqa",
                      "value_dim", "sinks", "packed"],
         "dtypes": ["f32", "f16", "bf16"],
         "layouts": ["bshd"],
         "strides": "last_dim_contiguous"
       })"},

      // --- CPU runtimes.

      // The only mask is additive; causality is the caller's. A sum of 0 gives a row of 0.
      {"ggml", "ggml_flash_attn_ext, llama.cpp b10256 (ggml.h; ggml-cpu/ops.cpp)",
       R"({
         "empty_row": "zero",
         "lse": "none",
         "softcap_order": "before_bias",
         "features": ["bias", "gqa", "value_dim", "softcap", "sinks"],
         "dtypes": ["f32"],
         "layouts": ["bhsd"],
         "strides": "last_dim_contiguous"
       })"},
      // What hides adds mask_filter_value, -10000 by default; of an empty row nothing is said. The
      // contrib operators read a scale of 0 as "not given".
      {"ort-mha",
       "ONNX Runtime contrib operator com.microsoft.MultiHeadAttention (docs/ContribOperators.md)",
       R"({
         "causal_offset": ["by_inputs"],
         "lse": "none",
         "masking_value": {"add": -10000},
         "excludes": ["zero_scale"],
         "features": ["causal", "key_lengths", "bias", "value_dim", "past", "present"],
         "dtypes": ["f32", "f16"],
         "layouts": ["bshd"],
         "strides": "dense"
       })"},
      // Always causal, from the bottom right of each item's length: a call without the flag is another
      // operator's. local_window_size is W keys in all and has no right side.
      {"ort-gqa",
       "ONNX Runtime contrib operator com.microsoft.GroupQueryAttention (docs/ContribOperators.md)",
       R"({
         "causal_offset": ["key_length_minus_q_len"],
         "causal": "always",
         "window_counts": "keys_with_diagonal",
         "window_sides": "left",
         "excludes": ["zero_scale"],
         "lse": "none",
         "softcap_order": "before_bias",
         "features": ["causal", "window", "key_lengths", "gqa", "softcap", "bias", "sinks", "past",
                      "present"],
         "dtypes": ["f32", "f16", "bf16"],
         "layouts": ["bshd"],
         "strides": "dense"
       })"},
  };
  return kContracts;
}

}  // namespace attest
