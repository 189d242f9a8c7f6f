#include "impl/transformer/session.h"

#include <algorithm>

namespace attest::transformer {
namespace {

// Token t of each sequence, counted without padding, where it has one.
Tokens Column(const Tokens& tokens, int64_t t) {
  Tokens column;
  column.batch = tokens.batch;
  column.len = 1;
  for (int64_t b = 0; b < tokens.batch; ++b) {
    const bool there = t < tokens.Length(b);
    column.begin.push_back(0);
    column.end.push_back(there ? 1 : 0);
    column.ids.push_back(there ? tokens.Id(b, tokens.Begin(b) + t) : 0);
  }
  return column;
}

template <typename T>
Memory<T> ReorderMemory(const Memory<T>& memory, std::span<const int64_t> parents) {
  Memory<T> next;
  const int64_t len = memory.places.len;
  next.places.batch = std::ssize(parents);
  next.places.len = len;
  next.tokens.resize(next.places.rows(), memory.tokens.cols());
  for (int64_t n = 0; n < next.places.batch; ++n) {
    const int64_t parent = parents[static_cast<size_t>(n)];
    next.places.begin.push_back(memory.places.Begin(parent));
    next.places.end.push_back(memory.places.End(parent));
    next.tokens.middleRows(n * len, len) = memory.tokens.middleRows(parent * len, len);
  }
  return next;
}

// The most likely token behind each sequence: by the logits of its last one.
template <typename T>
std::vector<int64_t> MostLikely(const Matrix<T>& logits, const Tokens& tokens) {
  std::vector<int64_t> next;
  for (int64_t b = 0; b < tokens.batch; ++b) {
    int64_t best = 0;
    const auto row = logits.row(tokens.Row(b, tokens.End(b) - 1));
    for (int64_t c = 1; c < row.size(); ++c) best = row(best) < row(c) ? c : best;
    next.push_back(best);
  }
  return next;
}

}  // namespace

template <typename T>
tl::expected<Matrix<T>, std::string> Session<T>::Append(const Tokens& tokens) {
  const Memory<T>* memory = memory_ ? &*memory_ : nullptr;
  if (model_->config.cache != CacheKind::kRing) {
    return Logits(*model_, tokens, memory, attend_, &cache_);
  }
  // A ring holds what one token sees, so several tokens at once would overwrite what the first of
  // them still needs.
  Matrix<T> logits = Matrix<T>::Zero(tokens.rows(), model_->config.vocab);
  for (int64_t t = 0; t < tokens.len; ++t) {
    auto row = Logits(*model_, Column(tokens, t), memory, attend_, &cache_);
    if (!row) return row;
    for (int64_t b = 0; b < tokens.batch; ++b) {
      if (t < tokens.Length(b)) logits.row(tokens.Row(b, tokens.Begin(b) + t)) = row->row(b);
    }
  }
  return logits;
}

template <typename T>
void Session<T>::Reorder(std::span<const int64_t> parents) {
  cache_.Reorder(parents);
  if (memory_) memory_ = ReorderMemory(*memory_, parents);
}

template <typename T>
tl::expected<std::vector<std::vector<int64_t>>, std::string> Generate(
    const Model<T>& model, std::vector<std::vector<int64_t>> prompts, int64_t count,
    bool with_cache) {
  Session<T> session(model, std::ssize(prompts));
  Tokens tokens = Pad(prompts);
  for (int64_t step = 0; step < count; ++step) {
    const auto logits = with_cache ? session.Append(tokens) : Logits(model, tokens);
    if (!logits) return tl::unexpected(logits.error());
    const std::vector<int64_t> next = MostLikely(*logits, tokens);
    std::vector<std::vector<int64_t>> last;
    for (size_t b = 0; b < prompts.size(); ++b) {
      prompts[b].push_back(next[b]);
      last.push_back({next[b]});
    }
    tokens = Pad(with_cache ? last : prompts);
  }
  return prompts;
}

#define ATTEST_INSTANTIATE(T)                                                     \
  template class Session<T>;                                                      \
  template tl::expected<std::vector<std::vector<int64_t>>, std::string> Generate( \
      const Model<T>&, std::vector<std::vector<int64_t>>, int64_t, bool);
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::transformer
