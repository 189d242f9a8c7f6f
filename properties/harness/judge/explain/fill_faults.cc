// Hidden keys whose scores become a finite number instead of minus infinity: it hides as long as what is seen scores
// higher by far.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "impl/attention/visibility.h"
#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

// What programs write for minus infinity, by magnitude or by mistake; the lowest numbers of 16-bit types among them.
constexpr std::array kFills = {-1e9, -1e8, -1e7, -1e6, -1e5, -65504.0, -32768.0, -3e4,
                               -1e4, -1e3, -1e2, -50., -10., -1.,      0.};

struct Reason {
  unsigned bits = 0;
  std::string_view keys;
};

std::vector<Reason> ReasonsIn(const Problem& p) {
  std::vector<Reason> reasons;
  unsigned all = 0;
  const auto add = [&](bool is_there, unsigned bit, std::string_view keys) {
    if (!is_there) return;
    reasons.push_back({bit, keys});
    all |= bit;
  };
  add(p.causal, kHiddenByCausal, "keys hidden by causality");
  add(p.window.active(), kHiddenByWindow, "keys hidden by the window");
  add(p.mask.has_value(), kHiddenByMask, "keys hidden by the mask");
  add(p.key_lengths.has_value(), kHiddenByLength, "keys beyond the length");
  add(p.documents.has_value(), kHiddenByDocument, "keys of other documents");
  add(p.block_mask.has_value(), kHiddenByBlock, "keys hidden by the block mask");
  if (reasons.size() > 1) reasons.insert(reasons.begin(), {all, "hidden keys"});
  return reasons;
}

void AddFill(const Reason& reason, double fill, bool is_added, HypothesisBank& bank) {
  const std::string phrase = fmt::format("{} kept a finite score{}{}{:g}", reason.keys, kSuchAs,
                                         is_added ? "their own and " : "", fill);
  bank.Add("hidden-finite", phrase,
           [scene = &bank.scene(), bits = reason.bits, fill, is_added](const Row& row) {
             const RowCase c = scene->CaseOf(row);
             RowRule rule = scene->RuleOf(c);
             for (int64_t j = 0; j < scene->problem().kv_len; ++j) {
               const unsigned why = WhyHidden(scene->problem(), row, j);
               if (why == kHiddenByNothing || (why & ~bits) != 0) continue;
               Term term = scene->TermOf(c, j);
               if (!is_added) term.k.key = -1;
               term.bias = is_added ? term.bias + fill : fill;
               rule.terms.push_back(term);
             }
             return rule;
           });
}

// Beyond this a score is hardly that of a key by chance.
constexpr double kNoScore = -1e3;

// Whether nothing that the witness sees scores as high as the fill, or nearly: there it shows by what it is for.
bool IsOutweighed(const HypothesisBank& bank, double fill) {
  const Row& at = bank.witness();
  return fill <= kNoScore &&
         bank.scene().reference().lse.At(at.batch, at.head, at.query, 0) < 0.5 * fill;
}

}  // namespace

void AddFiniteFills(bool outweighing, HypothesisBank& bank) {
  const Problem& p = bank.problem();
  // Softcaps have rules of their own, and a row that sees nothing shows no number.
  if (p.softcap > 0 || CountVisibleKeys(p, bank.witness()) == 0) return;
  for (const Reason& reason : ReasonsIn(p)) {
    for (const double fill : kFills) {
      if (IsOutweighed(bank, fill) != outweighing) continue;
      AddFill(reason, fill, /*is_added=*/false, bank);
      // With 0 added a key is one that is seen, and of such there are rules.
      if (fill != 0) AddFill(reason, fill, /*is_added=*/true, bank);
    }
  }
}

}  // namespace attest
