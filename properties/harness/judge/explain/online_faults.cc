// Faults of a softmax that is computed in parts: its running maximum and sums, and the merging of splits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include <fmt/format.h>

#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// By how much the running maximum grows at each tile that holds terms, from the tile `first` on; how far the tile's own
// lies below it; and where among the terms those tiles end.
struct Growth {
  std::vector<double> by, below;
  std::vector<size_t> ends;
};

Growth GrowthOf(const RuleContext& context, const RowRule& rule, int64_t tile, int64_t first) {
  const std::vector<double> scores = ScoresOf(context, rule, rule.terms);
  Growth growth;
  double max = -kInf;
  for (size_t n = 0; n < scores.size();) {
    const int64_t index = rule.terms[n].key / tile;
    double own = -kInf;
    for (; n < scores.size() && rule.terms[n].key / tile == index; ++n) {
      own = std::max(own, scores[n]);
    }
    const double next = std::max(max, own);
    growth.by.push_back(index >= first && max > -kInf ? next - max : 0);
    growth.below.push_back(own > -kInf ? next - own : 0);
    growth.ends.push_back(n);
    max = next;
  }
  return growth;
}

// What each term's weight is too large by, as a logarithm, where the tiles from `first` on forget to
// rescale what came before them when the running maximum grows.
std::vector<double> MissedRescales(const RuleContext& context, const RowRule& rule, int64_t tile,
                                   int64_t first) {
  const Growth growth = GrowthOf(context, rule, tile, first);
  std::vector<double> missed(rule.terms.size(), 0.0);
  double total = 0;
  for (size_t t = growth.ends.size(); t-- > 0;) {
    for (size_t n = t == 0 ? 0 : growth.ends[t - 1]; n < growth.ends[t]; ++n) missed[n] = total;
    total += growth.by[t];
  }
  return missed;
}

// A tile weighed by another maximum than the running one, to which it is then taken to be relative.
void AddOtherMaxima(const Problem& p, HypothesisBank& bank) {
  const RuleContext* context = &bank.scene().context();
  const auto add = [&](int64_t tile, std::string_view whose, std::vector<double> Growth::*lag) {
    bank.AddRule("rescale-missing",
                 fmt::format("a tile were weighed by {} (tiles of {})", whose, tile),
                 [tile, context, lag](RowRule& rule) {
                   const Growth growth = GrowthOf(*context, rule, tile, 1);
                   for (size_t t = 0, n = 0; t < growth.ends.size(); ++t) {
                     for (; n < growth.ends[t]; ++n) rule.terms[n].bias += (growth.*lag)[t];
                   }
                 });
  };
  for (int64_t tile = 1; tile <= 128 && tile < p.kv_len; tile *= 2) {
    add(tile, "the maximum from before it", &Growth::by);
    add(tile, "its own maximum and not the running one", &Growth::below);
  }
}

void AddRescales(const Problem& p, HypothesisBank& bank) {
  enum Missing { kBoth, kValues, kSum };
  const RuleContext* context = &bank.scene().context();
  // What is multiplied by exp(new - old) instead of its inverse is too large twice over.
  const auto add = [&](Missing what, int64_t tile, int64_t first, double times = 1) {
    constexpr std::string_view kNames[] = {"the sums were", "the sum of values were",
                                           "the sum of weights were"};
    bank.AddRule("rescale-missing",
                 fmt::format("{} {} when the maximum grew{} (tiles of {})", kNames[what],
                             times > 1 ? "rescaled the wrong way round" : "not rescaled",
                             first > 1 ? fmt::format(" from tile {} on", first) : "", tile),
                 [what, tile, first, times, context](RowRule& rule) {
                   const std::vector<double> missed = MissedRescales(*context, rule, tile, first);
                   const Terms right = rule.terms;
                   Terms wrong = right;
                   for (size_t n = 0; n < wrong.size(); ++n) wrong[n].bias += times * missed[n];
                   if (wrong == right) return;
                   if (what != kSum) rule.terms = wrong;
                   if (what == kValues) rule.divisor = right;
                   if (what == kSum) rule.divisor = wrong;
                 });
  };
  for (const Missing what : {kBoth, kValues, kSum}) {
    for (const int64_t first : {1, 2, 3}) {
      for (int64_t tile = 1; tile <= 128 && tile * first < p.kv_len; tile *= 2) {
        add(what, tile, first);
      }
    }
  }
  for (const Missing what : {kBoth, kValues, kSum}) {
    for (int64_t tile = 1; tile <= 128 && tile < p.kv_len; tile *= 2) add(what, tile, 1, 2);
  }
}

// The lse of each contiguous split of `split` keys, beside every term of it.
std::vector<double> SplitLses(const RuleContext& context, const RowRule& rule, int64_t split) {
  const std::vector<double> scores = ScoresOf(context, rule, rule.terms);
  std::vector<double> lses;
  for (size_t n = 0; n < scores.size();) {
    const size_t first = n;
    const int64_t index = rule.terms[n].key / split;
    double max = -kInf, sum = 0;
    for (; n < scores.size() && rule.terms[n].key / split == index; ++n) {
      max = std::max(max, scores[n]);
    }
    for (size_t i = first; i < n; ++i) sum += std::exp(scores[i] - max);
    lses.resize(n, max + std::log(sum));
  }
  return lses;
}

// What splits merged with wrong weights give as the lse: max lse + ln of the sum of the weights; the same to the base
// of the weights; or what comes by a path of its own.
enum class MergedLse { kNatural, kToTheBase, kAny };

// Splits whose results are merged with weights exp(exponent * (lse_i - max lse)), where an exponent
// of 1 is right.
void AddMerge(HypothesisBank& bank, int64_t split, std::string_view how, double exponent,
              MergedLse kind) {
  const RuleContext* context = &bank.scene().context();
  bank.AddRule("split-merge", fmt::format("splits of {} keys were {}", split, how),
               [context, split, exponent, kind](RowRule& rule) {
                 const std::vector<double> lses = SplitLses(*context, rule, split);
                 if (lses.empty()) return;
                 const double max = *std::max_element(lses.begin(), lses.end());
                 const Terms right = rule.terms;
                 for (size_t n = 0; n < lses.size(); ++n) {
                   rule.terms[n].bias += (exponent - 1) * (lses[n] - max);
                 }
                 if (rule.terms == right) return;
                 if (kind == MergedLse::kAny) rule.lse_part = LsePart::kFree;
                 if (kind != MergedLse::kToTheBase || exponent == 0) return;
                 rule.lse_factor = 1 / exponent;
                 rule.lse_offset = (1 - rule.lse_factor) * max;
               });
}

void AddMerges(const Problem& p, HypothesisBank& bank) {
  std::set<int64_t> splits;
  for (const int64_t parts : {2, 3, 4, 8}) {
    if (p.kv_len >= parts) splits.insert((p.kv_len + parts - 1) / parts);
    if (p.kv_len > parts) splits.insert(p.kv_len / parts);
  }
  for (int64_t tile = 4; tile <= 128 && tile < p.kv_len; tile *= 2) splits.insert(tile);
  for (const int64_t split : splits) {
    for (const MergedLse kind : {MergedLse::kNatural, MergedLse::kToTheBase, MergedLse::kAny}) {
      AddMerge(bank, split, "merged in base 2", std::numbers::ln2, kind);
      AddMerge(bank, split, "merged with log2(e) too much", 1 / std::numbers::ln2, kind);
      AddMerge(bank, split, "averaged without weights", 0, kind);
    }
  }
}

}  // namespace

void AddRescaleFaults(HypothesisBank& bank) {
  AddRescales(bank.problem(), bank);
  AddOtherMaxima(bank.problem(), bank);
}

void AddMergeFaults(HypothesisBank& bank) {
  AddMerges(bank.problem(), bank);
}

}  // namespace attest
