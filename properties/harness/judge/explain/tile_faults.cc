// Faults at the edges of tiles, whose size is not known: padding that takes part, tiles that do not,
// and keys that are left out, added or counted twice.
#include <algorithm>

#include <fmt/format.h>

#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

// Tiles are powers of two, as far as anyone knows.
constexpr int64_t kLargestTile = 128;
// 256: beyond this a search key by key costs more than its sentence is worth.
constexpr int64_t kMostSingleKeys = 256;

// Keys that take no part.
void AddDropped(HypothesisBank& bank, std::string_view cause_class, std::string phrase,
                std::function<bool(int64_t)> is_dropped) {
  bank.AddRule(cause_class, std::move(phrase), [is_dropped = std::move(is_dropped)](RowRule& rule) {
    std::erase_if(rule.terms, [&](const Term& term) { return is_dropped(term.key); });
  });
}

// The last tile filled up with keys and values of zero, score 0.
void AddPadding(const Problem& p, HypothesisBank& bank) {
  int64_t last = p.kv_len;
  for (int64_t tile = 2; tile <= kLargestTile; tile *= 2) {
    const int64_t padded = (p.kv_len + tile - 1) / tile * tile;
    if (padded == last) continue;  // the same as for the tile before
    last = padded;
    bank.AddRule(
        "padded-keys-attended",
        fmt::format("the last tile of {} were filled up with {} key{} of score 0 and value 0", tile,
                    padded - p.kv_len, padded - p.kv_len == 1 ? "" : "s"),
        [from = p.kv_len, padded](RowRule& rule) {
          // An empty row stays empty: kernels see to those apart.
          for (int64_t j = from; j < padded && !rule.terms.empty(); ++j)
            rule.terms.push_back({{}, {}, 0, j});
        });
  }
}

void AddTiles(const Problem& p, HypothesisBank& bank) {
  for (int64_t tile = 2; tile <= kLargestTile && tile < p.kv_len; tile *= 2) {
    const int64_t full = p.kv_len / tile * tile;
    if (full < p.kv_len) {
      AddDropped(bank, "last-tile-dropped",
                 fmt::format("the last partial tile of {} were left out", tile),
                 [full](int64_t j) { return j >= full; });
    }
    // What looks at the length, or at the diagonal, has partial tiles of its own.
    bank.AddRule("last-tile-dropped",
                 fmt::format("a row's last partial tile of {} were left out", tile),
                 [tile](RowRule& rule) {
                   if (rule.terms.empty()) return;
                   const int64_t end = (rule.terms.back().key + 1) / tile * tile;
                   std::erase_if(rule.terms, [&](const Term& term) { return term.key >= end; });
                 });
  }
  for (int64_t tile = 2; tile <= kLargestTile && tile < p.kv_len; tile *= 2) {
    for (int64_t first = 0; first < p.kv_len; first += tile) {
      AddDropped(bank, "tile-skipped",
                 fmt::format("keys {}-{} (tile {} of size {}) were left out", first,
                             std::min(first + tile, p.kv_len) - 1, first / tile, tile),
                 [first, tile](int64_t j) { return j >= first && j < first + tile; });
    }
  }
}

// Of every two tiles one, as where a loop goes two steps at a time.
void AddHalves(const Problem& p, HypothesisBank& bank) {
  for (int64_t tile = 1; tile <= kLargestTile && tile < p.kv_len; tile *= 2) {
    for (const bool is_first : {false, true}) {
      AddDropped(bank, "tile-skipped",
                 fmt::format("of every two tiles of keys one were left out{}the {} of two of {}",
                             kSuchAs, is_first ? "first" : "second", tile),
                 [tile, is_first](int64_t j) { return (j / tile % 2 == 0) == is_first; });
    }
  }
}

// A partial tile that is the only one.
void AddNothingLeft(const Problem& p, HypothesisBank& bank) {
  if (p.kv_len >= kLargestTile) return;
  AddDropped(bank, "last-tile-dropped", "the only tile, a partial one, were left out",
             [](int64_t) { return true; });
}

// The first or last key of a row, or of all keys: left out, or counted twice.
void AddEnds(const Problem& p, HypothesisBank& bank) {
  const auto twice = [&](std::string phrase, auto pick) {
    bank.AddRule("key-counted-twice", std::move(phrase), [pick](RowRule& rule) {
      if (rule.terms.empty()) return;
      const Term again = pick(rule.terms);
      if (again.key >= 0) rule.terms.push_back(again);
    });
  };
  const auto first = [](const Terms& terms) { return terms.front(); };
  const auto last = [](const Terms& terms) { return terms.back(); };
  const auto zero = [](const Terms& terms) {
    Term term = terms.front();
    if (term.key != 0) term.key = -1;
    return term;
  };
  const int64_t end = p.kv_len - 1;
  AddDropped(bank, "key-left-out", "the last of all keys were left out",
             [end](int64_t j) { return j == end; });
  AddDropped(bank, "key-left-out", "key 0 were left out", [](int64_t j) { return j == 0; });
  bank.AddRule("key-left-out", "a row's first key were left out", [](RowRule& rule) {
    if (!rule.terms.empty()) rule.terms.erase(rule.terms.begin());
  });
  bank.AddRule("key-left-out", "a row's last key were left out", [](RowRule& rule) {
    if (!rule.terms.empty()) rule.terms.pop_back();
  });
  twice("key 0 were counted twice", zero);
  twice("a row's first key were counted twice", first);
  twice("a row's last key were counted twice", last);
}

std::string_view HidingWord(unsigned why) {
  if (why & kHiddenByLength) return "its length";
  if (why & kHiddenByCausal) return "causality";
  if (why & kHiddenByWindow) return "the window";
  if (why & kHiddenByMask) return "the mask";
  if (why & kHiddenByDocument) return "its document";
  if (why & kHiddenByBlock) return "the block mask";
  return "the additive mask";
}

}  // namespace

void AddTileFaults(HypothesisBank& bank) {
  if (bank.problem().kv_len == 0) return;
  AddPadding(bank.problem(), bank);
  AddTiles(bank.problem(), bank);
  AddHalves(bank.problem(), bank);
  AddEnds(bank.problem(), bank);
  AddNothingLeft(bank.problem(), bank);
}

void AddSingleKeyFaults(HypothesisBank& bank) {
  const Problem& p = bank.problem();
  for (int64_t j = 0; j < std::min(p.kv_len, kMostSingleKeys); ++j) {
    const unsigned why = WhyHidden(p, bank.witness(), j);
    if (why == kHiddenByNothing) {
      AddDropped(bank, "key-left-out", fmt::format("visible key {} were left out", j),
                 [j](int64_t key) { return key == j; });
      bank.AddRule(
          "key-counted-twice", fmt::format("key {} were counted twice", j), [j](RowRule& rule) {
            const auto found = std::find_if(rule.terms.begin(), rule.terms.end(),
                                            [j](const Term& term) { return term.key == j; });
            if (found != rule.terms.end()) rule.terms.push_back(Term(*found));
          });
      continue;
    }
    bank.Add("key-too-many", fmt::format("key {}, hidden by {}, took part", j, HidingWord(why)),
             [scene = &bank.scene(), j](const Row& row) {
               RowRule rule = scene->TrueRule(row);
               if (WhyHidden(scene->problem(), row, j) == kHiddenByNothing) return rule;
               rule.terms.push_back(scene->TermOf(scene->CaseOf(row), j));
               return rule;
             });
  }
}

}  // namespace attest
