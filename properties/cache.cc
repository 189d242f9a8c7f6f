// Cache: where keys and values are kept changes nothing, and neither does the number of calls in which
// they came. Past and new keys, pages in any order with poison in the free ones, a ring that starts
// anywhere, packed sequences: each equals plain tensors; decoding equals prefill. Has caught: table
// entries used past the length, rings off by one after they wrap, chunks that lose the diagonal.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/present.h"

namespace attest {
namespace {

Case Stored(Case c, const Storage& storage) {
  c.storage = storage;
  return c;
}

Case Plain(const Case& original) {
  return Stored(AsLiteral(original), {});
}

Derived PlainAndPast(const Case& original, const Contract& contract) {
  const Case plain = Plain(original);
  Storage storage;
  storage.past = DrawFor(plain, 0x9A57).Between(0, plain.problem.kv_len);
  if (storage.past == 0 && !contract.Excludes(Exclusion::kEmptyPast)) {
    storage.first_call = FirstCall::kPastEmpty;
  }
  return Of(plain, Stored(plain, storage));
}

// Pages are shuffled, and rings turned, by the recipe's seed, which changes nothing else in a case
// whose data are literal.
Derived PlainAndTwoPlaces(const Case& original, const Storage& storage) {
  const Case plain = Plain(original);
  const Case first = Stored(plain, storage);
  Case second = first;
  second.recipe.seed = MixIn(second.recipe.seed, 0x5EED);
  return Of(plain, first, std::move(second));
}

Derived PlainAndPages(const Case& original, const Contract& contract) {
  Storage storage;
  storage.page_size = DrawFor(original, 0x9A6E).Pick(std::vector<int64_t>{1, 2, 3, 16});
  // Raw scores of keys beyond the length would be those of slots that hold nothing.
  const Case c = WithoutScoresOutput(EnsureLengths(original, contract));
  return PlainAndTwoPlaces(c, storage);
}

Derived PlainAndRing(const Case& original, const Contract&) {
  Storage storage;
  storage.ring = true;
  return PlainAndTwoPlaces(original, storage);
}

Verdict JudgeStorage(const Evidence& evidence) {
  constexpr std::string_view kWhy = "the result depends on how keys and values are stored";
  return SameResult(evidence, 0, 1, kWhy);
}

Verdict JudgePlaces(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kLayout);
  constexpr std::string_view kWhy = "the result depends on where pages lie, or a ring begins";
  return Worst(JudgeStorage(evidence), SameResult(evidence, 1, 2, kWhy, options));
}

// --- Present ---

// A later call to a cache, and the first one in all of its forms.
Derived WithPresent(const Case& original, const Contract& contract) {
  const Case c = Plain(WithoutFp8(original));  // of 8-bit tensors the present's type is open
  if (c.problem.kv_len == 0) return NotApplicable("no keys");
  std::vector<Case> cases;
  if (contract.Has(Feature::kPast)) {
    Storage storage;
    storage.past = DrawFor(c, 0x94E5).Between(1, c.problem.kv_len);
    cases.push_back(Stored(c, storage));
  }
  for (const FirstCall first_call : OfferedFirstCalls(contract)) {
    Storage storage;
    storage.first_call = first_call;
    cases.push_back(Stored(c, storage));
  }
  if (cases.empty()) return NotApplicable("no call that asks for the present");
  return Of(std::move(cases));
}

Verdict JudgePresents(const Evidence& evidence) {
  Verdict verdict;
  for (size_t n = 0; n < evidence.cases.size(); ++n) {
    Verdict one =
        JudgePresent(evidence.cases[n], evidence.oracle.InputsOf(n), evidence.outcomes[n]);
    one.call = n;
    verdict = Worst(verdict, one);
  }
  return verdict;
}

// --- Packed ---

Derived PaddedAndPacked(const Case& original, const Contract& contract) {
  const Case padded = Plain(Packable(original, contract));
  Storage storage;
  storage.packed = true;
  // Not through Of, which packs all cases or none.
  return {{padded, Stored(padded, storage)}, ""};
}

Verdict JudgePacked(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  RelationOptions options;
  options.rows = [&](const Row& row) { return !IsPaddedQuery(p, row); };
  return SameResult(evidence, 0, 1, "packed sequences give another answer than padded ones",
                    options);
}

// --- Decoding ---

constexpr uint64_t kChunkSalt = 0xC407;
constexpr int64_t kMostSteps = 12;  // more calls would show nothing new

// The query at which each chunk ends.
std::vector<int64_t> DrawEnds(const Case& c, bool one_by_one) {
  const int64_t q_len = c.problem.q_len;
  Draw draw = DrawFor(c, kChunkSalt);
  std::vector<int64_t> ends;
  for (int64_t at = 0; at < q_len;) {
    at = one_by_one ? at + 1 : draw.Between(at + 1, q_len);
    ends.push_back(at);
  }
  return ends;
}

// Queries [first, last) with the keys that are there by then; those before the chunk are past.
Case Chunk(const Case& whole, int64_t first, int64_t last, const Contract& contract) {
  const int64_t offset = whole.problem.DiagonalOffset(0);
  Case chunk = Select(whole, Axis::kQLen, IndexRange(first, last - first));
  chunk = Select(chunk, Axis::kKvLen, IndexRange(0, last + offset));
  chunk.storage.past = contract.Has(Feature::kPast) ? first + offset : 0;
  return chunk;
}

// A causal case whose last query stands at the last key, in one call and in several whose cache
// grows. Nothing shows a row the keys that come after it.
template <bool kOneByOne>
Derived WholeAndDecoded(const Case& original, const Contract& contract) {
  Case whole = WithoutKeyOutputs(original);
  Problem& p = whole.problem;
  p.key_lengths.reset();
  p.prefix_lengths.reset();
  const int64_t rows = std::min({p.q_len, p.kv_len, kOneByOne ? kMostSteps : p.q_len});
  if (rows < 2) return NotApplicable("fewer than two queries with keys of their own");
  whole = Select(AsLiteral(whole), Axis::kQLen, IndexRange(0, rows));
  whole.storage = {};
  p.causal = true;
  p.diagonal_offset.assign(static_cast<size_t>(p.batch), p.kv_len - p.q_len);
  if (p.batch == 0) return NotApplicable("no batch items");
  std::vector<Case> cases = {whole};
  int64_t first = 0;
  for (const int64_t end : DrawEnds(whole, kOneByOne)) {
    cases.push_back(Chunk(whole, first, end, contract));
    first = end;
  }
  return Of(std::move(cases));
}

Verdict JudgeDecoded(const Evidence& evidence) {
  Verdict verdict;
  int64_t first = 0;
  for (size_t n = 1; n < evidence.cases.size(); ++n) {
    const int64_t end = first + evidence.cases[n].problem.q_len;
    RelationOptions options;
    options.rows = [=](const Row& row) { return row.query >= first && row.query < end; };
    options.to_b = [=](const std::array<int64_t, 4>& i) {
      return std::array<int64_t, 4>{i[0], i[1], i[2] - first, i[3]};
    };
    verdict = Worst(verdict, SameResult(evidence, 0, n,
                                        "a row gives another answer when its queries come in "
                                        "several calls with a cache that grows",
                                        options));
    first = end;
  }
  return verdict;
}

constexpr std::array<Property, 7> kProperties = {{
    {"cache.past_and_new_keys_equal_all_at_once",
     "keys and values in two parts, past and new, equal them in one", Exactness::kBound,
     Rung::kWithinBound, "past", Needs<Feature::kPast>, PlainAndPast, JudgeStorage},
    {"cache.present_is_past_and_new_together",
     "the present keys and values are the past ones, if any, followed by the new ones",
     Exactness::kExact, Rung::kWithinBound, "present", Needs<Feature::kPresent>, WithPresent,
     JudgePresents},
    {"cache.pages_may_lie_anywhere",
     "pages in any order, with poison in free pages and slots, equal plain tensors",
     Exactness::kBitwise, Rung::kHiddenMeansHidden, "pages", Needs<Feature::kPages>, PlainAndPages,
     JudgePlaces},
    {"cache.a_ring_may_begin_anywhere", "a ring that begins anywhere equals plain tensors",
     Exactness::kBitwise, Rung::kWithinBound, "ring", Needs<Feature::kRing>, PlainAndRing,
     JudgePlaces},
    {"cache.packed_equals_padded", "packed sequences equal padded ones", Exactness::kBound,
     Rung::kWithinBound, "packed", Needs<Feature::kPacked>, PaddedAndPacked, JudgePacked},
    {"cache.decoding_equals_prefill",
     "queries one by one, each with the keys up to it, equal all in one call", Exactness::kBound,
     Rung::kMaskCorrect, "causal", NeedsCausal, WholeAndDecoded<true>, JudgeDecoded},
    {"cache.any_chunking_equals_prefill",
     "queries in chunks of any size with a cache that grows equal all in one call",
     Exactness::kBound, Rung::kMaskCorrect, "causal", NeedsCausal, WholeAndDecoded<false>,
     JudgeDecoded},
}};

}  // namespace

std::span<const Property> CacheProperties() {
  return kProperties;
}

}  // namespace attest
