// A batch of token sequences, padded on either side: what every model here reads.
#ifndef ATTEST_TRANSFORMER_TOKENS_H_
#define ATTEST_TRANSFORMER_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace attest::transformer {

enum class Side { kRight, kLeft };  // where padding stands

// Which places of a [batch, len] plane hold tokens: item b those in [begin[b], end[b]).
struct Places {
  int64_t batch = 0, len = 0;
  std::vector<int64_t> begin, end;  // [batch]
  // [batch, len], empty where each item is one document: tokens see their own document alone, and
  // positions start again with each.
  std::vector<int64_t> documents;
  std::vector<int64_t> first_position;  // [batch]: of the first token; empty: 0

  int64_t rows() const { return batch * len; }
  int64_t Row(int64_t b, int64_t i) const { return b * len + i; }
  int64_t Begin(int64_t b) const { return begin[static_cast<size_t>(b)]; }
  int64_t End(int64_t b) const { return end[static_cast<size_t>(b)]; }
  int64_t Length(int64_t b) const { return End(b) - Begin(b); }
  bool Holds(int64_t b, int64_t i) const { return Begin(b) <= i && i < End(b); }
  int64_t FirstPosition(int64_t b) const {
    return first_position.empty() ? 0 : first_position[static_cast<size_t>(b)];
  }
  int64_t Document(int64_t b, int64_t i) const {
    return documents.empty() ? 0 : documents[static_cast<size_t>(Row(b, i))];
  }
};

struct Tokens : Places {
  std::vector<int64_t> ids;  // [batch, len], each in [0, vocab)

  int64_t Id(int64_t b, int64_t i) const { return ids[static_cast<size_t>(Row(b, i))]; }
};

// The sequences as a batch of the longest one's length, or of `len` where that is more. Padding
// holds `padding`.
inline Tokens Pad(const std::vector<std::vector<int64_t>>& sequences, Side side = Side::kRight,
                  int64_t padding = 0, int64_t len = 0) {
  Tokens tokens;
  tokens.batch = static_cast<int64_t>(sequences.size());
  for (const auto& s : sequences) len = len < std::ssize(s) ? std::ssize(s) : len;
  tokens.len = len;
  tokens.ids.assign(static_cast<size_t>(tokens.rows()), padding);
  for (int64_t b = 0; b < tokens.batch; ++b) {
    const auto& s = sequences[static_cast<size_t>(b)];
    const int64_t begin = side == Side::kLeft ? len - std::ssize(s) : 0;
    tokens.begin.push_back(begin);
    tokens.end.push_back(begin + std::ssize(s));
    for (int64_t i = 0; i < std::ssize(s); ++i) {
      tokens.ids[static_cast<size_t>(tokens.Row(b, begin + i))] = s[static_cast<size_t>(i)];
    }
  }
  return tokens;
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_TOKENS_H_
