// Attention as a plug-in: `attest check node:minimal.mjs`.

// What the kernel promises; attest/kernel.h lists all keys. What a feature brings is a member of the argument.
export const contract = {contract: "attest-1", dtypes: ["f32"], features: ["value_dim"], lse: "none"};

// YOUR KERNEL: tensors {data, shape} of [batch, heads, len, dim] -> all numbers of out.
export function attention({q, k, v, scale}) {
  const [batch, heads, rows, dim] = q.shape, [, , keys, width] = v.shape;
  const out = new Float64Array(batch * heads * rows * width);
  for (let row = 0; row < batch * heads * rows; ++row) {
    const first = Math.floor(row / rows) * keys;  // of this head's keys
    const scores = Array.from({length: keys}, (_, j) => {
      let dot = 0;
      for (let d = 0; d < dim; ++d) dot += q.data[row * dim + d] * k.data[(first + j) * dim + d];
      return dot * scale;
    });
    const top = Math.max(...scores), weights = scores.map((s) => Math.exp(s - top));
    const total = weights.reduce((a, b) => a + b, 0);
    weights.forEach((weight, j) => {
      for (let d = 0; d < width; ++d) out[row * width + d] += weight / total * v.data[(first + j) * width + d];
    });
  }
  return out;
}
