// Faults in what a row may see: rules dropped, planes and lengths misread, diagonals and windows off
// by a little. Each changes the row's own problem, and visibility is asked of that.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

// A change of the row's own problem alone.
void AddOf(HypothesisBank& bank, std::string_view cause_class, std::string phrase,
           std::function<void(Problem&)> change) {
  bank.AddCase(
      cause_class, std::move(phrase),
      [change = std::move(change)](const Scene&, const Row&, RowCase& c) { change(c.problem); });
}

// The mask's bytes as the kernel is given them, whose polarity is the contract's.
void AddMaskAsNumber(const Scene& scene, const Row&, RowCase& c) {
  const bool one_means_hidden = scene.context().contract.mask_true_means == MaskPolarity::kHide;
  if (!c.problem.bias) {
    c.problem.bias = c.problem.mask;
    std::fill(c.problem.bias->bits.begin(), c.problem.bias->bits.end(), uint8_t{1});
    c.bias.assign(static_cast<size_t>(c.problem.kv_len), 0.0);
  }
  for (int64_t j = 0; j < c.problem.kv_len; ++j) {
    const bool attends = c.problem.mask->At(0, 0, 0, j);
    c.bias[static_cast<size_t>(j)] += attends != one_means_hidden ? 1 : 0;
  }
  c.problem.mask.reset();
}

// A mask of [batch, head] planes whose planes are looked for in the order [head, batch]; and one of [batch] planes
// repeated as a whole for each head, where each should be repeated by itself.
void AddHeadMajor(const Problem& p, HypothesisBank& bank) {
  if (p.batch < 2 || p.q_heads < 2) return;
  const auto add = [&](std::string_view phrase, auto at) {
    if (p.mask) {
      bank.AddCase("mask-head-major", fmt::format("the planes of the mask {}", phrase),
                   [at](const Scene& s, const Row& row, RowCase& c) {
                     s.ReadMaskAt(at(s.problem(), row), c);
                   });
    }
    if (p.bias) {
      bank.AddCase("mask-head-major", fmt::format("the planes of the additive mask {}", phrase),
                   [at](const Scene& s, const Row& row, RowCase& c) {
                     s.ReadBiasAt(at(s.problem(), row), c);
                   });
    }
  };
  add("lay in memory as [head, batch]", [](const Problem& all, const Row& row) {
    const int64_t plane = row.head * all.batch + row.batch;
    return Row{plane / all.q_heads, plane % all.q_heads, row.query};
  });
  add("were repeated for the heads item after item, and not each for its own",
      [](const Problem& all, const Row& row) {
        return Row{(row.batch * all.q_heads + row.head) % all.batch, row.head, row.query};
      });
}

void AddDropped(const Problem& p, HypothesisBank& bank) {
  if (p.causal) {
    AddOf(bank, "causal-ignored", "the causal flag were ignored",
          [](Problem& row) { row.causal = false; });
  }
  if (p.key_lengths) {
    AddOf(bank, "lengths-ignored", "the key lengths were ignored",
          [](Problem& row) { row.key_lengths.reset(); });
  }
  if (p.mask) {
    AddOf(bank, "mask-ignored", "the mask were ignored", [](Problem& row) { row.mask.reset(); });
    AddOf(bank, "mask-inverted", "the mask meant the opposite", [](Problem& row) {
      for (uint8_t& bit : row.mask->bits) bit ^= 1;
    });
    bank.AddCase("mask-added", "the mask were added to the scores as 0 and 1", AddMaskAsNumber);
  }
  if (p.bias) {
    AddOf(bank, "bias-ignored", "the additive mask were ignored",
          [](Problem& row) { row.bias.reset(); });
    bank.AddCase(
        "bias-as-mask", "the additive mask hid keys and added nothing",
        [](const Scene&, const Row&, RowCase& c) { std::fill(c.bias.begin(), c.bias.end(), 0.0); });
  }
  if (p.q_len < 2) return;
  if (p.mask) {
    bank.AddCase("mask-ignored", "the mask were applied to query 0 alone",
                 [](const Scene&, const Row& row, RowCase& c) {
                   if (row.query > 0) c.problem.mask.reset();
                 });
  }
  if (p.bias) {
    bank.AddCase("bias-ignored", "the additive mask were applied to query 0 alone",
                 [](const Scene&, const Row& row, RowCase& c) {
                   if (row.query > 0) c.problem.bias.reset();
                 });
  }
}

// The planes, lengths and offsets of the first batch item, head or query for all.
void AddMisread(const Problem& p, HypothesisBank& bank) {
  const auto first_of = [&](std::string_view id, std::string_view where, auto move) {
    if (p.mask) {
      bank.AddCase(
          id, fmt::format("the mask of {} were used for all", where),
          [move](const Scene& s, const Row& row, RowCase& c) { s.ReadMaskAt(move(row), c); });
    }
    if (p.bias) {
      bank.AddCase(
          id, fmt::format("the additive mask of {} were used for all", where),
          [move](const Scene& s, const Row& row, RowCase& c) { s.ReadBiasAt(move(row), c); });
    }
  };
  first_of("batch-0-for-all", "batch item 0", [](Row row) {
    row.batch = 0;
    return row;
  });
  first_of("head-0-for-all", "head 0", [](Row row) {
    row.head = 0;
    return row;
  });
  first_of("query-0-for-all", "query 0", [](Row row) {
    row.query = 0;
    return row;
  });
}

// Reads the boolean mask at [key, query]: by index, clamped to the plane, and as the plane's memory
// lies when its last two extents are swapped.
void AddTransposed(const Problem& p, HypothesisBank& bank) {
  if (!p.mask) return;
  bank.AddCase("mask-transposed", "the mask were read at [key, query]",
               [](const Scene& s, const Row& row, RowCase& c) {
                 const Problem& all = s.problem();
                 for (int64_t j = 0; j < all.kv_len; ++j) {
                   c.problem.mask->bits[static_cast<size_t>(j)] =
                       all.mask->At(row.batch, row.head, std::min(j, all.q_len - 1),
                                    std::min(row.query, all.kv_len - 1));
                 }
               });
  if (p.q_len == p.kv_len || p.mask->shape[2] == 1 || p.mask->shape[3] == 1) return;
  bank.AddCase("mask-transposed", "the mask lay in memory as [key, query]",
               [](const Scene& s, const Row& row, RowCase& c) {
                 const Problem& all = s.problem();
                 for (int64_t j = 0; j < all.kv_len; ++j) {
                   const int64_t flat = j * all.q_len + row.query;
                   c.problem.mask->bits[static_cast<size_t>(j)] =
                       all.mask->At(row.batch, row.head, flat / all.kv_len, flat % all.kv_len);
                 }
               });
}

// The faulty diagonal_offset of a batch item.
using Offset = std::function<int64_t(const Problem&, int64_t)>;

void AddDiagonal(HypothesisBank& bank, std::string_view cause_class, std::string phrase,
                 Offset offset) {
  if (!bank.problem().causal && !bank.problem().window.active()) return;
  bank.AddCase(cause_class, std::move(phrase),
               [offset = std::move(offset)](const Scene& s, const Row& row, RowCase& c) {
                 c.problem.diagonal_offset = {row.query + offset(s.problem(), row.batch)};
               });
}

void AddDiagonalRules(const Problem& p, HypothesisBank& bank) {
  AddDiagonal(bank, "diagonal-top-left", "the diagonal started at the top left",
              [](const Problem&, int64_t) { return 0; });
  AddDiagonal(bank, "diagonal-bottom-right", "the diagonal ended at the bottom right",
              [](const Problem& q, int64_t) { return q.kv_len - q.q_len; });
  if (p.key_lengths) {
    AddDiagonal(bank, "diagonal-bottom-right", "the diagonal ended at the key length",
                [](const Problem& q, int64_t b) {
                  return (*q.key_lengths)[static_cast<size_t>(b)] - q.q_len;
                });
  }
  AddDiagonal(bank, "batch-0-for-all", "the diagonal of batch item 0 were used for all",
              [](const Problem& q, int64_t) { return q.DiagonalOffset(0); });
}

void AddSlidDiagonals(HypothesisBank& bank) {
  for (const int64_t by : {1, -1}) {
    AddDiagonal(bank, "diagonal-slid",
                fmt::format("the diagonal lay one key too {}", by > 0 ? "late" : "early"),
                [by](const Problem& q, int64_t b) { return q.DiagonalOffset(b) + by; });
  }
  for (const int64_t sign : {1, -1}) {
    AddDiagonal(
        bank, "diagonal-slid",
        fmt::format("the diagonal were slid by {}", sign > 0 ? "kv_len - q_len" : "q_len - kv_len"),
        [sign](const Problem& q, int64_t b) {
          return q.DiagonalOffset(b) + sign * (q.kv_len - q.q_len);
        });
  }
}

// The causal edge alone off by one; where there is a window too its ends stay.
void AddCausalEdge(const Problem& p, HypothesisBank& bank) {
  if (!p.causal || !p.window.active()) return;
  for (const int64_t by : {1, -1}) {
    AddOf(bank, "diagonal-slid",
          fmt::format("causality began one key too {}", by > 0 ? "late" : "early"),
          [by](Problem& row) {
            // A window's right end at the causal edge stands for causality.
            row.causal = false;
            row.window.right = row.window.right ? std::min(*row.window.right, by) : by;
          });
  }
}

void AddWindowEnds(const Problem& p, HypothesisBank& bank) {
  const auto end = [&](std::string_view id, std::string_view name,
                       std::optional<int64_t> Window::*side) {
    if (!(p.window.*side)) return;
    for (const int64_t by : {1, -1}) {
      AddOf(
          bank, id,
          fmt::format("the window held one key {} at its {} end", by > 0 ? "more" : "fewer", name),
          [side, by](Problem& row) { *(row.window.*side) += by; });
    }
  };
  end("window-left-end", "left", &Window::left);
  end("window-right-end", "right", &Window::right);
}

// Query heads that share a kv head packed into one axis with their queries, and a row's place there taken for that of its
// query.
void AddPackedRows(const Problem& p, HypothesisBank& bank) {
  const int64_t ratio = p.heads_per_kv_head();
  if (ratio < 2 || (!p.causal && !p.window.active())) return;
  using Place = int64_t (*)(const Problem&, const Row&);
  const std::pair<std::string_view, Place> orders[] = {
      {"query * heads + head",
       [](const Problem& q, const Row& row) {
         return row.query * q.heads_per_kv_head() + row.head % q.heads_per_kv_head();
       }},
      {"head * q_len + query",
       [](const Problem& q, const Row& row) {
         return row.head % q.heads_per_kv_head() * q.q_len + row.query;
       }},
      {"query / heads",
       [](const Problem& q, const Row& row) { return row.query / q.heads_per_kv_head(); }}};
  for (const auto& one : orders) {
    const std::string_view order = one.first;
    const Place place = one.second;
    const auto add = [&, place](std::string_view what, auto move) {
      bank.AddCase(
          "packed-row-index",
          fmt::format("{} went by a row's place among packed query heads, {}", what, order),
          [move, place](const Scene& s, const Row& row, RowCase& c) {
            move(place(s.problem(), row) - row.query, c.problem);
          });
    };
    add("the diagonal", [](int64_t by, Problem& row) { row.diagonal_offset[0] += by; });
    if (p.window.left) {
      add("the window's left end", [](int64_t by, Problem& row) { *row.window.left -= by; });
    }
    if (p.window.right) {
      add("the window's right end", [](int64_t by, Problem& row) { *row.window.right += by; });
    }
  }
}

// A causal mask multiplied with that of the window: what both hide, and what the window hides alone, comes back.
void AddReopened(const Problem& p, HypothesisBank& bank) {
  if (!p.causal || !p.window.active()) return;
  bank.Add("window-ignored", "the window reopened what lies outside it, to causality too",
           [scene = &bank.scene()](const Row& row) {
             const RowCase c = scene->CaseOf(row);
             RowRule rule = c.rule;
             for (int64_t j = 0; j < scene->problem().kv_len; ++j) {
               const unsigned why = WhyHidden(scene->problem(), row, j);
               const bool is_outside = (why & kHiddenByWindow) != 0;
               const unsigned still = is_outside ? why & ~(kHiddenByWindow | kHiddenByCausal) : why;
               if (still == kHiddenByNothing) rule.terms.push_back(scene->TermOf(c, j));
             }
             return rule;
           });
}

void AddWindowsIgnored(const Problem& p, HypothesisBank& bank) {
  if (!p.window.active()) return;
  AddOf(bank, "window-ignored", "the window were ignored", [](Problem& row) { row.window = {}; });
  AddOf(bank, "window-ignored", "the window had no left end",
        [](Problem& row) { row.window.left.reset(); });
  AddOf(bank, "window-ignored", "the window had no right end",
        [](Problem& row) { row.window.right.reset(); });
  AddOf(bank, "window-ignored", "the window had its ends swapped",
        [](Problem& row) { std::swap(row.window.left, row.window.right); });
}

// Ends that do not fit a narrow integer, and come out of it as others.
void AddNarrowWindows(const Problem& p, HypothesisBank& bank) {
  const auto narrow = [&](int bits, bool is_signed) {
    const auto cut = [=](std::optional<int64_t> end) -> std::optional<int64_t> {
      if (!end) return end;
      const int64_t range = int64_t{1} << bits;
      const int64_t low = *end & (range - 1);
      return is_signed && low >= range / 2 ? low - range : low;
    };
    if (cut(p.window.left) == p.window.left && cut(p.window.right) == p.window.right) return;
    AddOf(bank, "narrow-integer",
          fmt::format("the ends of the window were kept in {} bits{}", bits,
                      is_signed ? " with a sign" : ""),
          [cut](Problem& row) {
            row.window = {cut(row.window.left), cut(row.window.right)};
          });
  };
  for (const int bits : {16, 32}) {
    for (const bool is_signed : {false, true}) narrow(bits, is_signed);
  }
}

// The triangle of a tile on the diagonal laid over every tile of keys.
void AddTriangles(const Problem& p, HypothesisBank& bank) {
  if (!p.causal) return;
  for (int64_t tile = 2; tile <= 128 && tile < 2 * p.kv_len; tile *= 2) {
    bank.AddCase("triangle-repeated",
                 fmt::format("the triangle of the diagonal lay over every tile of {} keys", tile),
                 [tile](const Scene& s, const Row& row, RowCase& c) {
                   const int64_t place = row.query + s.problem().DiagonalOffset(row.batch);
                   const int64_t in_tile = (place % tile + tile) % tile;
                   c.problem.causal = false;
                   if (!c.problem.mask) {
                     c.problem.mask = BitPlane{{1, 1, 1, c.problem.kv_len}, 4, {}};
                     c.problem.mask->bits.assign(static_cast<size_t>(c.problem.kv_len), 1);
                   }
                   for (int64_t j = 0; j < c.problem.kv_len; ++j) {
                     if (j % tile > in_tile) c.problem.mask->bits[static_cast<size_t>(j)] = 0;
                   }
                 });
  }
}

// A head dimension of 0, taken for nothing to do.
void AddNoComponents(const Problem& p, HypothesisBank& bank) {
  if (p.head_dim > 0) return;
  bank.AddRule("row-zero", "with a head_dim of 0 the row saw no key",
               [](RowRule& rule) { rule.terms.clear(); });
}

// Prefix lengths off by one, or of no keys taken for one of a key.
void AddPrefixes(const Problem& p, HypothesisBank& bank) {
  if (!p.causal || !p.prefix_lengths) return;
  AddOf(bank, "prefix-off-by-one", "a prefix of no keys were taken for one of a key",
        [](Problem& row) {
          row.prefix_lengths->front() = std::max<int64_t>(row.prefix_lengths->front(), 1);
        });
  for (const int64_t by : {1, -1}) {
    AddOf(bank, "prefix-off-by-one",
          fmt::format("prefix lengths were one {}", by > 0 ? "more" : "less"),
          [by](Problem& row) { row.prefix_lengths->front() += by; });
  }
}

// Keys of the prefix seen whatever the key length.
void AddPrefixOverLength(const Problem& p, HypothesisBank& bank) {
  if (!p.causal || !p.prefix_lengths || !p.key_lengths) return;
  bank.Add("lengths-ignored", "the key lengths were ignored within the prefix",
           [scene = &bank.scene()](const Row& row) {
             const RowCase c = scene->CaseOf(row);
             const Problem& all = scene->problem();
             RowRule rule = c.rule;
             for (int64_t j = 0; j < all.kv_len; ++j) {
               unsigned why = WhyHidden(all, row, j);
               const bool is_prefix = j < (*all.prefix_lengths)[static_cast<size_t>(row.batch)];
               if (is_prefix) why &= ~kHiddenByLength;
               if (why == kHiddenByNothing) rule.terms.push_back(scene->TermOf(c, j));
             }
             return rule;
           });
}

// Tiles on the diagonal skipped, unless the last query of their own tile sees all of them.
void AddDiagonalTiles(const Problem& p, HypothesisBank& bank) {
  if (!p.causal) return;
  for (int64_t tile = 2; tile <= 128 && tile < 2 * p.kv_len; tile *= 2) {
    bank.Add("last-tile-dropped",
             fmt::format("tiles of {} keys that reach past the diagonal were left out", tile),
             [scene = &bank.scene(), tile](const Row& row) {
               const Problem& all = scene->problem();
               const int64_t last_query = std::min((row.query / tile + 1) * tile, all.q_len) - 1;
               const int64_t place = last_query + all.DiagonalOffset(row.batch);
               RowRule rule = scene->TrueRule(row);
               std::erase_if(rule.terms, [&](const Term& term) {
                 return std::min((term.key / tile + 1) * tile, all.kv_len) - 1 > place;
               });
               return rule;
             });
  }
}

// Causality that stops at the ends of tiles: of that of each row, or of those that lie before the last one of a block of
// queries, which alone is masked.
void AddCausalTiles(const Problem& p, HypothesisBank& bank) {
  if (!p.causal || p.window.active()) return;
  const auto floor_to = [](int64_t place, int64_t tile) {
    return place - (place % tile + tile) % tile;
  };
  // `end` says from the place of the row, and of the block's last query, how far the row sees.
  const auto add = [&](std::string phrase, int64_t block, auto end) {
    bank.AddCase("causal-by-tile", std::move(phrase),
                 [block, end](const Scene& s, const Row& row, RowCase& c) {
                   const Problem& all = s.problem();
                   const int64_t offset = all.DiagonalOffset(row.batch);
                   const int64_t last = std::min((row.query / block + 1) * block, all.q_len) - 1;
                   c.problem.diagonal_offset = {end(row.query + offset, last + offset)};
                 });
  };
  for (int64_t tile = 2; tile <= 128 && tile < 2 * p.kv_len; tile *= 2) {
    add(fmt::format("a row saw the whole of a tile of keys of which it may see some{}a tile of {}",
                    kSuchAs, tile),
        1, [=](int64_t place, int64_t) { return floor_to(place, tile) + tile - 1; });
  }
  for (int64_t block = 2; block <= 128 && block < 2 * p.q_len; block *= 2) {
    for (int64_t tile = 2; tile <= 128 && tile < p.kv_len; tile *= 2) {
      add(fmt::format(
              "causality hid keys in the last tile of a block of queries alone{}blocks of {} "
              "and tiles of {}",
              kSuchAs, block, tile),
          block,
          [=](int64_t place, int64_t last) { return std::max(place, floor_to(last, tile) - 1); });
    }
  }
}

// The number of queries taken for that of keys.
void AddKeysOfQueries(const Problem& p, HypothesisBank& bank) {
  if (p.q_len >= p.kv_len || p.q_len == 0) return;
  bank.AddRule("lengths-mistaken", "keys at or beyond q_len were left out",
               [queries = p.q_len](RowRule& rule) {
                 std::erase_if(rule.terms, [&](const Term& term) { return term.key >= queries; });
               });
}

// Lengths of another item, off by one, or rounded up, so that padding is attended with the data that lie there.
void AddLengths(const Problem& p, HypothesisBank& bank) {
  if (p.query_lengths) {
    bank.AddCase("lengths-mistaken", "keys at or beyond the query length were hidden",
                 [](const Scene& s, const Row& row, RowCase& c) {
                   const int64_t queries =
                       (*s.problem().query_lengths)[static_cast<size_t>(row.batch)];
                   std::vector<int64_t> keys{c.problem.kv_len};
                   if (c.problem.key_lengths) keys = *c.problem.key_lengths;
                   c.problem.key_lengths = {std::min(keys.front(), queries)};
                 });
  }
  if (!p.key_lengths) return;
  bank.AddCase("lengths-mistaken", "rows at or beyond the key length saw no key",
               [](const Scene&, const Row& row, RowCase& c) {
                 int64_t& length = c.problem.key_lengths->front();
                 if (row.query >= length) length = 0;
               });
  const int64_t first_length = p.key_lengths->empty() ? 0 : p.key_lengths->front();
  AddOf(bank, "batch-0-for-all", "the key length of batch item 0 were used for all",
        [first_length](Problem& row) { row.key_lengths = {first_length}; });
  const int64_t longest = p.key_lengths->empty() ? 0 : std::ranges::max(*p.key_lengths);
  AddOf(bank, "lengths-mistaken", "the longest key length of all items were that of each",
        [longest](Problem& row) { row.key_lengths = {longest}; });
  for (const int64_t by : {1, -1}) {
    AddOf(bank, "lengths-off-by-one",
          fmt::format("key lengths were one {}", by > 0 ? "more" : "less"),
          [by](Problem& row) { row.key_lengths->front() += by; });
  }
  for (const int64_t tile : {4, 8, 16, 32, 64, 128}) {
    AddOf(bank, "padded-keys-attended",
          fmt::format("key lengths were rounded up to multiples of {}", tile),
          [tile](Problem& row) {
            int64_t& length = row.key_lengths->front();
            length = (length + tile - 1) / tile * tile;
          });
  }
}

// Keys hidden by a stand-in for -inf that the softcap then takes for a score: the least that it leaves. What the
// additive mask hides is hidden behind a softcap that comes before it.
void AddHiddenBeforeSoftcap(const Problem& p, HypothesisBank& bank) {
  if (p.softcap == 0) return;
  const bool is_last =
      bank.scene().context().contract.semantics.softcap_order == SoftcapOrder::kAfterBias;
  // tanh(-20) is -1.
  const double least = is_last ? -20 * p.softcap : -p.softcap;
  bank.Add("hidden-before-softcap", "keys were hidden before the softcap, which made a score of it",
           [scene = &bank.scene(), least, is_last](const Row& row) {
             const RowCase c = scene->CaseOf(row);
             RowRule rule = scene->RuleOf(c);
             for (int64_t j = 0; j < scene->problem().kv_len; ++j) {
               const unsigned why = WhyHidden(scene->problem(), row, j);
               if (why == kHiddenByNothing || (why & kHiddenByBias) != 0) continue;
               Term term = scene->TermOf(c, j);
               term.k.key = -1;
               term.bias = least + (is_last ? 0 : term.bias);
               rule.terms.push_back(term);
             }
             return rule;
           });
}

}  // namespace

// What confines itself to items, heads or queries above the first goes before what does not: it says
// more about where the wrong rows may be.
void AddVisibilityFaults(HypothesisBank& bank) {
  const Problem& p = bank.problem();
  AddNoComponents(p, bank);
  AddPrefixes(p, bank);
  AddPrefixOverLength(p, bank);
  AddMisread(p, bank);
  AddDiagonalRules(p, bank);
  AddWindowEnds(p, bank);
  AddSlidDiagonals(bank);
  AddCausalEdge(p, bank);
  AddWindowsIgnored(p, bank);
  AddReopened(p, bank);
  AddNarrowWindows(p, bank);
  AddDropped(p, bank);
  AddPackedRows(p, bank);
  AddHeadMajor(p, bank);
  AddTransposed(p, bank);
  AddLengths(p, bank);
  AddKeysOfQueries(p, bank);
  AddTriangles(p, bank);
  AddCausalTiles(p, bank);
  AddDiagonalTiles(p, bank);
  AddHiddenBeforeSoftcap(p, bank);
}

}  // namespace attest
