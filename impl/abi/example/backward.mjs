// Attention and its backward pass in JavaScript: `attest check node:impl/abi/example/backward.mjs`.
export const contract = {
  contract: "attest-1",
  dtypes: ["f32", "f64"],
  features: ["causal", "gqa", "value_dim"],
  backward: ["causal", "gqa", "value_dim"],
  causal_offset: ["zero"],
  bits_invariant: ["rerun"],
  poison_safe: [],
};

const dot = (a, b) => a.reduce((sum, x, d) => sum + x * b[d], 0);

// Vector n of a tensor, its last axis.
function vectorOf({data, shape}, n) {
  const size = shape[3];
  return data.subarray(n * size, (n + 1) * size);
}

// Calls visit(row number, numbers of the keys that it sees, and their scaled scores) for every row.
function forEachRow({q, k, scale, causal}, visit) {
  const [batch, qHeads, qLen] = q.shape, [, kvHeads, kvLen] = k.shape;
  for (let row = 0; row < batch * qHeads * qLen; ++row) {
    const i = row % qLen, head = Math.floor(row / qLen) % qHeads, b = Math.floor(row / qLen / qHeads);
    const first = (b * kvHeads + Math.floor(head / (qHeads / kvHeads))) * kvLen;
    const keys = Array.from({length: causal ? Math.min(kvLen, i + 1) : kvLen}, (_, j) => first + j);
    visit(row, keys, keys.map((key) => scale * dot(vectorOf(q, row), vectorOf(k, key))));
  }
}

export function attention({q, k, v, scale, causal}) {
  const [batch, heads, rows] = q.shape, width = v.shape[3];
  const out = new Float64Array(batch * heads * rows * width), lse = new Float64Array(batch * heads * rows);
  forEachRow({q, k, scale, causal}, (row, keys, scores) => {
    const top = Math.max(...scores), weights = scores.map((s) => Math.exp(s - top));
    const total = weights.reduce((a, b) => a + b, 0);
    lse[row] = top + Math.log(total);
    keys.forEach((key, n) => {
      for (let d = 0; d < width; ++d) out[row * width + d] += weights[n] / total * v.data[key * width + d];
    });
  });
  return {out, lse};
}

// The gradients of sum(dout * out); out and lse are what attention() gave.
export function attentionBackward({q, k, v, out, lse, dout, scale, causal}) {
  const [dq, dk, dv] = [q, k, v].map(({data}) => new Float64Array(data.length));
  const dim = q.shape[3], width = v.shape[3];
  forEachRow({q, k, scale, causal}, (row, keys, scores) => {
    const delta = dot(vectorOf(dout, row), vectorOf(out, row));
    keys.forEach((key, n) => {
      const weight = Math.exp(scores[n] - lse.data[row]);
      const dscore = scale * weight * (dot(vectorOf(dout, row), vectorOf(v, key)) - delta);
      for (let d = 0; d < dim; ++d) {
        dq[row * dim + d] += dscore * k.data[key * dim + d];
        dk[key * dim + d] += dscore * q.data[row * dim + d];
      }
      for (let d = 0; d < width; ++d) dv[key * width + d] += weight * dout.data[row * width + d];
    });
  });
  return {dq, dk, dv};
}
