// Shrink candidates for what lies beyond masks, lengths and diagonals: off, or with small round
// numbers.
#include <algorithm>
#include <map>

#include "properties/harness/case/shrink_internal.h"

namespace attest {
namespace {

// Items and heads beyond the eighth have their like among the first.
constexpr size_t kMostEach = 8;

void DropScoring(Problem& p) {
  p.softcap = 0;
  p.alibi_slopes.reset();
  p.sinks.reset();
  p.dropout.reset();
}

void DropHiding(Problem& p) {
  p.query_lengths.reset();
  p.prefix_lengths.reset();
  p.documents.reset();
  p.block_mask.reset();
}

// Each length one that is a little nearer to what hides nothing: 0 for prefixes, q_len for queries.
void OfferLengths(const Case& c, std::optional<std::vector<int64_t>> Problem::*lengths,
                  int64_t plain, std::vector<Case>& out) {
  if (!(c.problem.*lengths)) return;
  const std::vector<int64_t>& values = *(c.problem.*lengths);
  for (size_t b = 0; b < std::min(values.size(), kMostEach); ++b) {
    const int64_t away = values[b] - plain;
    for (const int64_t nearer : {int64_t{0}, away / 2, away - (away > 0 ? 1 : -1)}) {
      Offer(c, out, [&](Case& x) { (*(x.problem.*lengths))[b] = plain + nearer; });
    }
  }
}

void OfferPerHead(const Case& c, std::optional<std::vector<double>> Problem::*member,
                  std::vector<Case>& out) {
  if (!(c.problem.*member)) return;
  const size_t heads = (c.problem.*member)->size();
  for (const double simple : {0.0, 1.0}) {
    Offer(c, out, [&](Case& x) { (x.problem.*member)->assign(heads, simple); });
    for (size_t h = 0; h < std::min(heads, kMostEach); ++h) {
      Offer(c, out, [&](Case& x) { (*(x.problem.*member))[h] = simple; });
    }
  }
}

// 0, 1, 2, ... in the order in which queries and then keys meet the numbers.
void Renumber(Documents& documents) {
  std::map<int64_t, int64_t> numbers;
  for (auto* ids : {&documents.query, &documents.key}) {
    for (int64_t& id : *ids) {
      id = numbers.emplace(id, static_cast<int64_t>(numbers.size())).first->second;
    }
  }
}

// Stretches of document 0, half as long each time; 16 a side, as with masks.
void OfferDocuments(const Case& c, std::vector<Case>& out) {
  if (!c.problem.documents) return;
  Offer(c, out, [](Case& x) { Renumber(*x.problem.documents); });
  for (std::vector<int64_t> Documents::*side : {&Documents::query, &Documents::key}) {
    const size_t size = ((*c.problem.documents).*side).size();
    for (size_t chunk = size; chunk > 0 && size / chunk <= 16;
         chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
      for (size_t first = 0; first < size; first += chunk) {
        Offer(c, out, [&](Case& x) {
          std::vector<int64_t>& ids = (*x.problem.documents).*side;
          std::fill(ids.begin() + static_cast<std::ptrdiff_t>(first),
                    ids.begin() + static_cast<std::ptrdiff_t>(std::min(first + chunk, size)), 0);
        });
      }
    }
  }
}

void OfferFp8(const Case& c, std::vector<Case>& out) {
  if (!c.problem.fp8) return;
  Offer(c, out, [](Case& x) { x.problem.fp8 = Fp8{}; });
  Offer(c, out, [](Case& x) { x.problem.fp8->format = DType::kE4M3; });
  for (double Fp8::*scale : {&Fp8::q_scale, &Fp8::k_scale, &Fp8::v_scale}) {
    Offer(c, out, [&](Case& x) { (*x.problem.fp8).*scale = 1; });
  }
}

void OfferStorage(const Case& c, std::vector<Case>& out) {
  if (c.storage.without_present) {
    Offer(c, out, [](Case& x) { x.storage.without_present = false; });
  }
  if (c.storage.first_call == FirstCall::kPastEmpty) {
    Offer(c, out, [](Case& x) { x.storage.first_call = FirstCall::kPastAbsent; });
  }
  for (int64_t Storage::*amount : {&Storage::past, &Storage::page_size}) {
    const int64_t value = c.storage.*amount;
    for (const int64_t lower : {int64_t{1}, value / 2, value - 1}) {
      if (lower >= 1) Offer(c, out, [&](Case& x) { x.storage.*amount = lower; });
    }
  }
}

}  // namespace

void OfferExtrasOff(const Case& c, std::vector<Case>& out) {
  const auto without = [&](auto&& change) { Offer(c, out, [&](Case& x) { change(x.problem); }); };
  without([](Problem& p) {
    DropScoring(p);
    DropHiding(p);
  });
  without(DropScoring);
  without(DropHiding);
  without([](Problem& p) { p.softcap = 0; });
  without([](Problem& p) { p.alibi_slopes.reset(); });
  without([](Problem& p) { p.sinks.reset(); });
  without([](Problem& p) { p.dropout.reset(); });
  without([](Problem& p) { p.query_lengths.reset(); });
  without([](Problem& p) { p.prefix_lengths.reset(); });
  without([](Problem& p) { p.documents.reset(); });
  without([](Problem& p) { p.block_mask.reset(); });
  without([](Problem& p) { p.want_scores.reset(); });
  without([](Problem& p) { p.fp8.reset(); });
  without([](Problem& p) { p.bias_dtype.reset(); });
  Offer(c, out, [](Case& x) { x.storage = Storage{}; });
}

void OfferSimplerExtras(const Case& c, std::vector<Case>& out) {
  OfferLengths(c, &Problem::query_lengths, c.problem.q_len, out);
  OfferLengths(c, &Problem::prefix_lengths, 0, out);
  OfferPerHead(c, &Problem::alibi_slopes, out);
  OfferPerHead(c, &Problem::sinks, out);
  OfferDocuments(c, out);
  OfferFp8(c, out);
  OfferStorage(c, out);
  for (const double softcap : {1.0, 2.0, 30.0}) {
    if (c.problem.softcap > 0) Offer(c, out, [&](Case& x) { x.problem.softcap = softcap; });
  }
  if (!c.problem.want_scores) return;
  for (int mode = 0; mode < static_cast<int>(*c.problem.want_scores); ++mode) {
    Offer(c, out, [&](Case& x) { x.problem.want_scores = static_cast<ScoreMode>(mode); });
  }
}

}  // namespace attest
