// Faults in which vectors a row reads and how: kv heads, batch items, rows that land elsewhere, values
// beside their keys, parts of the head dimension, and inputs rounded to a narrower type.
#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

// 16: slots of a ring that a start is looked for among; each costs a row.
constexpr int64_t kMostSlots = 16;

// Whose vectors a fault misreads.
enum class Which { kKeysAndValues, kKeys, kValues };

std::string_view Name(Which which) {
  switch (which) {
    case Which::kKeys:
      return "keys";
    case Which::kValues:
      return "values";
    default:
      return "keys and values";
  }
}

// Applies `change(Source&)` to the sources that `which` names.
template <typename Change>
void ChangeSources(Which which, RowCase& c, Change change) {
  if (which != Which::kValues) change(c.k);
  if (which != Which::kKeys) change(c.v);
}

constexpr Which kAllOfThem[] = {Which::kKeysAndValues, Which::kKeys, Which::kValues};

void AddKvHeads(const Problem& p, HypothesisBank& bank) {
  if (p.kv_heads < 2) return;
  for (const Which which : kAllOfThem) {
    const auto map = [&](std::string rule, auto kv_head_of) {
      bank.AddCase("kv-head-mapping",
                   fmt::format("query head h read the {} of {}", Name(which), rule),
                   [which, kv_head_of](const Scene&, const Row& row, RowCase& c) {
                     const int64_t kv_head = kv_head_of(row.head);
                     ChangeSources(which, c, [&](Source& s) { s.kv_head = kv_head; });
                   });
    };
    map("kv head h mod kv_heads", [n = p.kv_heads](int64_t h) { return h % n; });
    map("kv head 0", [](int64_t) -> int64_t { return 0; });
    map("kv head h, or the last", [n = p.kv_heads](int64_t h) { return std::min(h, n - 1); });
    const int64_t group = p.heads_per_kv_head();
    const auto whole_group = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(group)));
    map("kv head h / (the group rounded up to a power of two)",
        [whole_group](int64_t h) { return h / whole_group; });
    map("the kv head after its own",
        [n = p.kv_heads, group](int64_t h) { return (h / group + 1) % n; });
    map("the kv head before its own",
        [n = p.kv_heads, group](int64_t h) { return (h / group + n - 1) % n; });
    map("the kv head that mirrors its own",
        [n = p.kv_heads, group](int64_t h) { return n - 1 - h / group; });
  }
}

void AddBatches(const Problem& p, HypothesisBank& bank) {
  if (p.batch < 2) return;
  for (const Which which : kAllOfThem) {
    bank.AddCase("batch-0-for-all",
                 fmt::format("the {} of batch item 0 were used for all", Name(which)),
                 [which](const Scene&, const Row&, RowCase& c) {
                   ChangeSources(which, c, [](Source& s) { s.batch = 0; });
                 });
    for (const int64_t by : {int64_t{1}, p.batch - 1}) {
      bank.AddCase("other-batch-read",
                   fmt::format("the {} of the batch item {} were read", Name(which),
                               by == 1 ? "after" : "before"),
                   [which, by, n = p.batch](const Scene&, const Row& row, RowCase& c) {
                     ChangeSources(which, c, [&](Source& s) { s.batch = (row.batch + by) % n; });
                   });
    }
  }
}

void AddQueries(const Problem& p, HypothesisBank& bank) {
  const auto read = [&](std::string phrase, auto move) {
    bank.AddCase("query-misread", std::move(phrase),
                 [move](const Scene&, const Row&, RowCase& c) { move(c.rule.query); });
  };
  if (p.batch > 1) read("q of batch item 0 were used for all", [](Row& q) { q.batch = 0; });
  if (p.q_heads > 1) read("q of head 0 were used for all", [](Row& q) { q.head = 0; });
  if (p.q_len > 1) read("q of query 0 were used for all", [](Row& q) { q.query = 0; });
}

// The sink of another head, looked up by what counts rows.
void AddSinksOfRows(const Problem& p, HypothesisBank& bank) {
  if (!p.sinks || p.q_heads < 2 || p.q_len < 2) return;
  bank.AddCase("feature-of-other-head", "the sink were looked up by the query and not by the head",
               [](const Scene& s, const Row& row, RowCase& c) {
                 c.rule.sink_head = row.query % s.problem().q_heads;
               });
  bank.AddCase("feature-of-other-head",
               "the sink were looked up by the number of the row, of all heads and queries",
               [](const Scene& s, const Row& row, RowCase& c) {
                 const Problem& all = s.problem();
                 const int64_t plane = row.batch * all.q_heads + row.head;
                 c.rule.sink_head = (plane * all.q_len + row.query) % all.q_heads;
               });
}

// The row holds what is right for row move(row).
void AddMisplaced(HypothesisBank& bank, std::string phrase, std::function<Row(Row)> move) {
  const Scene* scene = &bank.scene();
  bank.Add("row-misplaced", std::move(phrase),
           [scene, move = std::move(move)](const Row& row) -> std::optional<RowRule> {
             const Row from = move(row);
             const Problem& p = scene->problem();
             const bool exists = from.batch >= 0 && from.batch < p.batch && from.head >= 0 &&
                                 from.head < p.q_heads && from.query >= 0 && from.query < p.q_len;
             if (!exists) return std::nullopt;
             return scene->TrueRule(from);
           });
}

void AddMisplacedRows(const Problem& p, HypothesisBank& bank) {
  for (const int64_t by : {-1, 1}) {
    const std::string_view side = by < 0 ? "before" : "after";
    const auto neighbour = [&](std::string_view what, int64_t Row::*axis) {
      AddMisplaced(bank, fmt::format("a row held the result of the {} {} it", what, side),
                   [axis, by](Row row) {
                     row.*axis += by;
                     return row;
                   });
    };
    if (p.q_len > 1) neighbour("query", &Row::query);
    if (p.q_heads > 1) neighbour("head", &Row::head);
    if (p.batch > 1) neighbour("batch item", &Row::batch);
  }
  if (p.q_heads > 1 && p.q_len > 1) {
    AddMisplaced(bank, "out lay in memory as [query, head]",
                 [heads = p.q_heads, queries = p.q_len](Row row) {
                   const int64_t flat = row.head * queries + row.query;
                   return Row{row.batch, flat % heads, flat / heads};
                 });
  }
  AddMisplaced(bank, "every row held the result of query 0", [](Row row) {
    row.query = 0;
    return row;
  });
}

void AddShiftedValues(const Problem& p, HypothesisBank& bank) {
  const int64_t n = p.kv_len;
  const auto shift = [&](std::string phrase, auto value_of) {
    bank.AddRule("value-rows-shifted", std::move(phrase), [value_of](RowRule& rule) {
      for (Term& term : rule.terms) term.v.key = value_of(term.key);
    });
  };
  for (const int64_t by : {1, -1}) {
    const std::string_view side = by > 0 ? "after" : "before";
    shift(fmt::format("each key had the value {} its own", side),
          [by, n](int64_t j) { return std::clamp<int64_t>(j + by, 0, n - 1); });
    shift(fmt::format("each key had the value {} its own, the end wrapping", side),
          [by, n](int64_t j) { return (j + by + n) % n; });
    for (int64_t tile = 2; tile < n; tile *= 2) {
      const int64_t last = (n - 1) / tile * tile;
      shift(fmt::format("keys of the last tile of {} had the value {} their own", tile, side),
            [by, n, last](int64_t j) {
              return j < last ? j : std::clamp<int64_t>(j + by, last, n - 1);
            });
      // Past a tile's own ends, too.
      shift(fmt::format("keys of the last tile of {} had the value {} their own, across tiles",
                        tile, side),
            [by, n, last](int64_t j) {
              return j < last ? j : std::clamp<int64_t>(j + by, 0, n - 1);
            });
    }
  }
  shift("the values were swapped in pairs", [n](int64_t j) { return (j ^ 1) < n ? j ^ 1 : j; });
  shift("the values lay in reverse", [n](int64_t j) { return n - 1 - j; });
}

// The first key of each page, looked for in the page before.
void AddPages(HypothesisBank& bank) {
  const int64_t page_size = bank.scene().storage().page_size;
  if (page_size == 0) return;
  bank.AddRule(
      "page-misread",
      fmt::format("the first key of a page, of {}, were read from the page before", page_size),
      [page_size](RowRule& rule) {
        for (Term& term : rule.terms) {
          if (term.key % page_size != 0) continue;
          term.k.key = term.v.key = std::max<int64_t>(term.key - page_size, 0);
        }
      });
}

// Keys whose place in the tensor does not fit a narrow integer, and which are lost for it.
void AddLostOffsets(const Problem& p, HypothesisBank& bank) {
  for (const int bits : {15, 16, 31}) {
    const int64_t end = int64_t{1} << bits;
    if (p.batch * p.kv_heads * p.kv_len * p.head_dim <= end) continue;
    bank.Add("narrow-integer",
             fmt::format("keys were left out that lie {} elements or more into their tensor", end),
             [scene = &bank.scene(), end](const Row& row) {
               const Problem& all = scene->problem();
               RowRule rule = scene->TrueRule(row);
               const int64_t first =
                   (row.batch * all.kv_heads + row.head / all.heads_per_kv_head()) * all.kv_len;
               std::erase_if(rule.terms, [&](const Term& term) {
                 return (first + term.key) * all.head_dim >= end;
               });
               return rule;
             });
  }
}

// Keys that come as a past, left out.
void AddPast(HypothesisBank& bank) {
  const int64_t past = bank.scene().storage().past;
  if (past == 0) return;
  bank.AddRule("past-ignored", "the keys of the past were left out", [past](RowRule& rule) {
    std::erase_if(rule.terms, [past](const Term& term) { return term.key < past; });
  });
}

// The keys of the past behind the new ones.
void AddPastBehind(const Problem& p, HypothesisBank& bank) {
  const int64_t past = bank.scene().storage().past;
  if (past == 0 || past == p.kv_len) return;
  bank.AddRule("past-misplaced", "the keys of the past came behind the new ones",
               [past, n = p.kv_len](RowRule& rule) {
                 for (Term& term : rule.terms) {
                   term.k.key = term.v.key = (term.key + past) % n;
                 }
               });
}

// A ring read from another slot than its first.
void AddRings(const Problem& p, HypothesisBank& bank) {
  if (!bank.scene().storage().ring) return;
  for (int64_t by = 1; by < std::min(p.kv_len, kMostSlots); ++by) {
    bank.AddRule("ring-misread",
                 fmt::format("the ring were read from the slot {} after its first", by),
                 [by, n = p.kv_len](RowRule& rule) {
                   for (Term& term : rule.terms) {
                     term.k.key = term.v.key = (term.key + by) % n;
                   }
                 });
  }
}

// The products over the leading multiple of `tile` of the head dimension alone.
void AddHeadDimTails(const Problem& p, HypothesisBank& bank) {
  for (int64_t tile = 2; tile <= 64; tile *= 2) {
    if (p.head_dim % tile == 0 || p.head_dim < tile) continue;
    bank.AddRule("head-dim-tail",
                 fmt::format("q and k ended with the last full {} of head_dim", tile),
                 [tile](RowRule& rule) { rule.dims = rule.dims / tile * tile; });
  }
  if (p.head_dim < 2) return;
  bank.AddRule("head-dim-tail", "the last component of q and k were left out",
               [](RowRule& rule) { --rule.dims; });
}

void AddRoundedInputs(const Problem& p, HypothesisBank& bank) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const auto is_coarser = [dtype](DType than) {
      return TraitsOf(dtype).unit_roundoff > TraitsOf(than).unit_roundoff;
    };
    const auto rounded = [&](std::string_view what, auto change) {
      bank.AddRule("input-rounded", fmt::format("{} were rounded to {}", what, Name(dtype)),
                   [change, dtype](RowRule& rule) { change(rule.rounding, dtype); });
    };
    using R = InputRounding;
    if (p.bias && is_coarser(p.BiasDType())) {
      rounded("the additive mask", [](R& r, DType to) { r.bias = to; });
    }
    if (!is_coarser(p.dtype)) continue;
    rounded("v", [](R& r, DType to) { r.v = to; });
    rounded("k", [](R& r, DType to) { r.k = to; });
    rounded("q", [](R& r, DType to) { r.q = to; });
    rounded("q and k", [](R& r, DType to) { r.q = r.k = to; });
    rounded("q, k and v", [](R& r, DType to) { r.q = r.k = r.v = to; });
  }
}

}  // namespace

void AddSourceFaults(HypothesisBank& bank) {
  const Problem& p = bank.problem();
  if (p.kv_len == 0) return;
  AddPages(bank);
  AddPast(bank);
  AddPastBehind(p, bank);
  AddRings(p, bank);
  AddLostOffsets(p, bank);
  AddKvHeads(p, bank);
  AddBatches(p, bank);
  AddQueries(p, bank);
  AddSinksOfRows(p, bank);
  AddMisplacedRows(p, bank);
  AddShiftedValues(p, bank);
  AddHeadDimTails(p, bank);
  AddRoundedInputs(p, bank);
}

}  // namespace attest
