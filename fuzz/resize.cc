#include "fuzz/resize.h"

#include "properties/harness/case/bytes.h"

namespace attest {

std::optional<Case> Resized(const Case& c, const Problem& sizes) {
  Case plain;
  Problem& p = plain.problem;
  p.batch = sizes.batch;
  p.q_heads = sizes.q_heads;
  p.kv_heads = sizes.kv_heads;
  p.q_len = sizes.q_len;
  p.kv_len = sizes.kv_len;
  p.head_dim = sizes.head_dim;
  p.value_dim = sizes.value_dim;
  return WithSizesOf(c, plain);
}

}  // namespace attest
