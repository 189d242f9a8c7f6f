#include "properties/harness/report/weights_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "impl/reference/reference.h"

namespace attest {
namespace {

// More do not fit on a line.
constexpr int64_t kMost = 8;

// The elements of row `query` of batch item 0, head 0.
std::string RowText(const Array& array, int64_t query) {
  std::string text;
  for (int64_t lane = 0; lane < array.shape[3]; ++lane) {
    text += fmt::format(" {:.3g}", array.At(0, 0, query, lane));
  }
  return text;
}

}  // namespace

std::string WeightsText(const Case& c, const Semantics& semantics) {
  const Problem& p = c.problem;
  if (!p.want_weights || p.batch == 0 || p.q_heads == 0) return "";
  if (std::max({p.q_len, p.kv_len, p.value_dim}) > kMost) return "";
  const Reference reference = ComputeReference(p, Materialise(c), semantics);
  std::string text;
  for (int64_t query = 0; query < p.q_len; ++query) {
    text += fmt::format("query {}  weighs{}  and gives{}\n", query,
                        RowText(reference.weights, query), RowText(reference.out, query));
  }
  return text;
}

}  // namespace attest
