// Attention in JavaScript, as a plug-in: `attest check node:impl/abi/example/attention.mjs`.
export const contract = {
  contract: "attest-1",
  dtypes: ["f32"],
  features: ["causal", "gqa", "value_dim", "zero_sizes"],
  causal_offset: ["kv_len_minus_q_len"],
  lse: "none",
  layouts: ["bhsd"],
  strides: "dense",
};

// q [batch, q_heads, q_len, head_dim], k and v [batch, kv_heads, kv_len, dim] -> out as one array of numbers.
export function attention({q, k, v, scale, causal}) {
  const [batch, qHeads, qLen, dim] = q.shape, [, kvHeads, kvLen, valueDim] = v.shape;
  const out = new Float64Array(batch * qHeads * qLen * valueDim);
  for (let row = 0; row < batch * qHeads * qLen; ++row) {
    const i = row % qLen, head = Math.floor(row / qLen) % qHeads, b = Math.floor(row / qLen / qHeads);
    const keys = (b * kvHeads + Math.floor(head / (qHeads / kvHeads))) * kvLen;
    const visible = causal ? Math.max(0, Math.min(kvLen, i + kvLen - qLen + 1)) : kvLen;
    const scores = [];
    for (let j = 0; j < visible; ++j) {
      let dot = 0;
      for (let d = 0; d < dim; ++d) dot += q.data[row * dim + d] * k.data[(keys + j) * dim + d];
      scores.push(dot * scale);
    }
    const top = Math.max(...scores), weights = scores.map((s) => Math.exp(s - top));
    const total = weights.reduce((a, b) => a + b, 0);
    for (let j = 0; j < visible; ++j) {
      for (let d = 0; d < valueDim; ++d) {
        out[row * valueDim + d] += weights[j] / total * v.data[(keys + j) * valueDim + d];
      }
    }
  }
  return out;
}
