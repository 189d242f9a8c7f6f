#include "fuzz/resize.h"

#include <algorithm>

#include "properties/harness/case/bytes.h"

namespace attest {

std::optional<Case> Resized(const Case& c, const Problem& sizes) {
  constexpr size_t kSizesAt = 1, kSizesBytes = 7;  // the same in every version
  Case plain;
  Problem& p = plain.problem;
  p.batch = sizes.batch;
  p.q_heads = sizes.q_heads;
  p.kv_heads = sizes.kv_heads;
  p.q_len = sizes.q_len;
  p.kv_len = sizes.kv_len;
  p.head_dim = sizes.head_dim;
  p.value_dim = sizes.value_dim;
  const auto wanted = EncodeCase(plain);
  auto record = EncodeCase(c);
  if (!wanted || !record) return std::nullopt;
  std::copy_n(wanted->begin() + kSizesAt, kSizesBytes, record->begin() + kSizesAt);
  return DecodeCase(*record);
}

}  // namespace attest
