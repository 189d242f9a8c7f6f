#include "properties/harness/judge/explain.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "impl/reference/reference.h"

namespace attest {
namespace {

constexpr Semantics kPlain{EmptyRow::kZero, LseEmptyRow::kMinusInf};

std::string_view HidingWord(unsigned why) {
  if (why & kHiddenByLength) return "its length";
  if (why & kHiddenByCausal) return "causality";
  if (why & kHiddenByWindow) return "the window";
  if (why & kHiddenByMask) return "the mask";
  return "the additive mask";
}

// The row under scrutiny, and how near an output must come to explain it.
class Suspect {
 public:
  Suspect(const Problem& p, const Inputs& inputs, const Outcome& outcome, const Row& row,
          double tolerance)
      : p_(p), inputs_(inputs), outcome_(outcome), row_(row), tolerance_(tolerance) {
    double largest = 0;
    for (const double v : inputs.v.values) {
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    }
    margin_ = tolerance * largest;
  }

  std::string Explain() const {
    // Where the truth fits too, the fault shows elsewhere and every hypothesis would be idle.
    if (MatchesProblem(p_)) return {};
    if (auto phrase = ExplainByDroppedRule(); !phrase.empty()) return phrase;
    if (auto phrase = ExplainByKvHead(); !phrase.empty()) return phrase;
    if (auto phrase = ExplainByOneKey(); !phrase.empty()) return phrase;
    if (auto phrase = ExplainByOtherRow(); !phrase.empty()) return phrase;
    return ExplainByNan();
  }

 private:
  bool Matches(const Reference& hypothesis) const { return MatchesFrom(hypothesis, row_); }

  // Whether the kernel's row looks like row `source` of the hypothesis.
  bool MatchesFrom(const Reference& hypothesis, const Row& source) const {
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const double want = hypothesis.out.At(source.batch, source.head, source.query, d);
      const double got = outcome_.out.At(row_.batch, row_.head, row_.query, d);
      if (!Fits(want, got, margin_)) return false;
    }
    if (outcome_.lse.empty()) return true;
    const double want = hypothesis.lse.At(source.batch, source.head, source.query, 0);
    const double got = outcome_.lse.At(row_.batch, row_.head, row_.query, 0);
    return Fits(want, got, tolerance_ * (1 + std::abs(want)));
  }

  static bool Fits(double want, double got, double margin) {
    return want == got || std::abs(want - got) <= margin || (std::isnan(want) && std::isnan(got));
  }

  bool MatchesProblem(const Problem& changed) const {
    Inputs inputs = inputs_;
    if (!changed.bias) inputs.bias = {};
    return Matches(ComputeReference(changed, inputs, kPlain));
  }

  std::string ExplainByDroppedRule() const {
    const auto dropped = [&](const char* phrase, bool there, auto change) -> std::string {
      if (!there) return {};
      Problem changed = p_;
      change(changed);
      return MatchesProblem(changed) ? phrase : "";
    };
    const bool diagonal = p_.causal || p_.window.active();
    std::string fitting;
    for (const std::string& phrase :
         {dropped("the causal flag were ignored", p_.causal, [](Problem& p) { p.causal = false; }),
          dropped("the window were ignored", p_.window.active(), [](Problem& p) { p.window = {}; }),
          dropped("the key lengths were ignored", p_.key_lengths.has_value(),
                  [](Problem& p) { p.key_lengths.reset(); }),
          dropped("the mask were ignored", p_.mask.has_value(), [](Problem& p) { p.mask.reset(); }),
          dropped("the additive mask were ignored", p_.bias.has_value(),
                  [](Problem& p) { p.bias.reset(); }),
          dropped("the mask meant the opposite", p_.mask.has_value(),
                  [](Problem& p) {
                    for (uint8_t& bit : p.mask->bits) bit ^= 1;
                  }),
          dropped("the diagonal started at the top left", diagonal,
                  [](Problem& p) { p.diagonal_offset.clear(); }),
          dropped("the diagonal ended at the bottom right", diagonal,
                  [](Problem& p) {
                    p.diagonal_offset.assign(static_cast<size_t>(p.batch), p.kv_len - p.q_len);
                  }),
          dropped("the scale were left out", true, [](Problem& p) { p.scale = 1.0; })}) {
      if (!phrase.empty()) fitting += (fitting.empty() ? "as if " : ", or ") + phrase;
    }
    return fitting;
  }

  // One key more or fewer: the visible relation as a mask, with one bit of the row flipped.
  std::string ExplainByOneKey() const {
    Problem changed = p_;
    changed.mask = VisiblePlane(p_);
    changed.causal = false;
    changed.window = {};
    changed.key_lengths.reset();
    const auto bit = [&](int64_t key) -> uint8_t& {
      const int64_t row_index = (row_.batch * p_.q_heads + row_.head) * p_.q_len + row_.query;
      return changed.mask->bits[static_cast<size_t>(row_index * p_.kv_len + key)];
    };
    // 256: beyond this the search costs more than its sentence is worth.
    for (int64_t j = 0; j < std::min<int64_t>(p_.kv_len, 256); ++j) {
      const unsigned why = WhyHidden(p_, row_, j);
      if (why & kHiddenByBias) continue;  // its score has no finite value to imagine
      bit(j) ^= 1;
      const bool fits = MatchesProblem(changed);
      bit(j) ^= 1;
      if (!fits) continue;
      return why == kHiddenByNothing
                 ? fmt::format("as if visible key {} were left out", j)
                 : fmt::format("as if key {}, hidden by {}, took part", j, HidingWord(why));
    }
    return {};
  }

  std::string ExplainByKvHead() const {
    for (int64_t kv_head = 0; kv_head < p_.kv_heads; ++kv_head) {
      if (MatchesWithKvHead(kv_head)) {
        return fmt::format("as if query head {} read kv head {} instead of {}", row_.head, kv_head,
                           row_.head / p_.heads_per_kv_head());
      }
    }
    return {};
  }

  std::string ExplainByOtherRow() const {
    const Reference right = ComputeReference(p_, inputs_, kPlain);
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t h = 0; h < p_.q_heads; ++h) {
        if (b == row_.batch && h == row_.head) continue;
        if (MatchesFrom(right, {b, h, row_.query})) {
          return fmt::format("the row equals that of batch {}, head {}", b, h);
        }
      }
    }
    return {};
  }

  bool MatchesWithKvHead(int64_t kv_head) const {
    const int64_t own = row_.head / p_.heads_per_kv_head();
    if (kv_head == own) return false;
    Inputs swapped = inputs_;
    for (Array* array : {&swapped.k, &swapped.v}) {
      for (int64_t j = 0; j < array->shape[2]; ++j)
        for (int64_t d = 0; d < array->shape[3]; ++d) {
          array->At(row_.batch, own, j, d) = array->At(row_.batch, kv_head, j, d);
        }
    }
    return Matches(ComputeReference(p_, swapped, kPlain));
  }

  std::string ExplainByNan() const {
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (!std::isnan(outcome_.out.At(row_.batch, row_.head, row_.query, d))) return {};
    }
    if (IsEmptyRow(p_, row_)) return "the row sees no key, and 0/0 came out";
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      if (!Visible(p_, row_, j) && !KeyIsFinite(j)) {
        return fmt::format("a non-finite value at key {}, hidden by {}, came through", j,
                           HidingWord(WhyHidden(p_, row_, j)));
      }
    }
    return {};
  }

  bool KeyIsFinite(int64_t key) const {
    const int64_t kv_head = row_.head / p_.heads_per_kv_head();
    for (const Array* array : {&inputs_.k, &inputs_.v}) {
      for (int64_t d = 0; d < array->shape[3]; ++d) {
        if (!std::isfinite(array->At(row_.batch, kv_head, key, d))) return false;
      }
    }
    return true;
  }

  const Problem& p_;
  const Inputs& inputs_;
  const Outcome& outcome_;
  const Row row_;
  const double tolerance_;
  double margin_ = 0;
};

}  // namespace

std::string LikelyCause(const Problem& problem, const Inputs& inputs, const Outcome& outcome,
                        const Row& row, double tolerance) {
  // 2^16 scores: the search computes the whole reference for each hypothesis.
  if (ElementCount(problem.WeightsShape()) > (1 << 16) || problem.value_dim == 0) return {};
  return Suspect(problem, inputs, outcome, row, tolerance).Explain();
}

}  // namespace attest
