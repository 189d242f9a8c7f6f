#include "properties/harness/judge/explain/symptoms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/numerics_search.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kLargestTile = 128;  // as far as anyone knows

class Symptoms {
 public:
  Symptoms(const Scene& scene, const Survey& survey, const Row& witness, std::string_view output,
           bool is_loose = false)
      : scene_(scene),
        p_(scene.problem()),
        survey_(survey),
        witness_(witness),
        output_(output),
        is_loose_(is_loose) {}

  std::vector<Explanation> Strong(CausesWanted wanted) const {
    std::vector<Explanation> found;
    for (const auto look : {&Symptoms::HiddenTile, &Symptoms::ZeroOverZero,
                            &Symptoms::StartingMaximum, &Symptoms::HiddenMaximum,
                            &Symptoms::SharedMaximum, &Symptoms::Leak, &Symptoms::Flushed}) {
      Explanation one = (this->*look)();
      if (!one.phrase.empty()) found.push_back(std::move(one));
      if (!found.empty() && wanted == CausesWanted::kBest) break;
    }
    return found;
  }

  Explanation LooseLeak() const {
    const int64_t key = HiddenNonFinite(witness_, ~0u);
    if (key < 0 || !IsNonFinite(witness_)) return {};
    return {"hidden-nonfinite",
            fmt::format("the non-finite value at key {}, hidden, came through", key)};
  }

  Explanation Weak() const {
    const auto is_empty = [&](const Row& row) { return IsEmptyRow(p_, row); };
    if (std::ranges::all_of(survey_.wrong, is_empty)) {
      return {"empty-row",
              "rows that see no key, and they alone, are not what the contract promises"};
    }
    const bool is_lost = !IsEmptyRow(p_, witness_) && IsFilledWith(witness_, 0);
    if (output_ == "lse" && HasLostLse(witness_) && is_lost) {
      return {
          "row-zero",
          CountVisibleKeys(p_, witness_) > 0
              ? "the lse and out are those of a row that sees no key, though it sees some"
              : "the lse and out are those of a row without keys and sink, though it has a sink"};
    }
    if (output_ != "out" || !OutIsWrong(witness_)) return {};
    if (auto found = LostNan(); !found.phrase.empty()) return found;
    if (auto found = ConstantOutput(); !found.phrase.empty()) return found;
    if (is_lost) {
      return {"row-zero", "out is zero all along the row, though it sees keys"};
    }
    if (IsFilledWith(witness_, std::nan(""))) return {"row-nan", "out is NaN all along the row"};
    return LaneTail();
  }

 private:
  double OutAt(const Row& row, int64_t lane) const {
    return scene_.outcome().out.At(row.batch, row.head, row.query, lane);
  }

  bool IsFilledWith(const Row& row, double value) const {
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (!SameBits(OutAt(row, d), value)) return false;
    }
    return p_.value_dim > 0;
  }

  bool HasLostLse(const Row& row) const {
    const Array& lse = scene_.outcome().lse;
    return !lse.empty() && !std::isfinite(lse.At(row.batch, row.head, row.query, 0));
  }

  bool LseHolds(const Row& row) const {
    const Array& lse = scene_.outcome().lse;
    const auto at = [&](const Array& of) { return of.At(row.batch, row.head, row.query, 0); };
    return lse.empty() ||
           WithinBound(at(lse), at(scene_.reference().lse), scene_.bound().WorstOf(row).lse);
  }

  // Out may be zero anyway, and the lse alone tell.
  bool LooksEmpty(const Row& row) const {
    const bool is_wrong = OutIsWrong(row) || (is_loose_ && HasLostLse(row));
    return is_wrong && (IsFilledWith(row, 0) || IsFilledWith(row, std::nan("")));
  }

  bool OutIsWrong(const Row& row) const {
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (LaneIsWrong(row, d)) return true;
    }
    return false;
  }

  // Whether the row sees keys, but none of [first, first + tile).
  bool HidesTile(const Row& row, int64_t first, int64_t tile) const {
    if (SeesNoKey(p_, row)) return false;
    for (int64_t j = first; j < std::min(first + tile, p_.kv_len); ++j) {
      if (Visible(p_, row, j)) return false;
    }
    return true;
  }

  // Whether the rows that are NaN, and there are some that see keys, are those that `is_it` picks and rows that see none;
  // beside others that are right.
  template <typename IsIt>
  bool IsNanWhere(IsIt is_it) const {
    const auto sees_keys = [&](const Row& row) { return !SeesNoKey(p_, row); };
    const auto is_nan = [&](const Row& row) {
      return IsFilledWith(row, std::nan("")) && (!sees_keys(row) || is_it(row));
    };
    return std::ranges::all_of(survey_.wrong, is_nan) &&
           std::ranges::any_of(survey_.wrong, sees_keys) &&
           std::ranges::any_of(survey_.right, sees_keys) &&
           std::ranges::none_of(survey_.right, is_it);
  }

  // Infinity less infinity: the maximum of a tile that is hidden whole.
  Explanation HiddenTile() const {
    // In a cache what lies behind a length may be NaN, too.
    if (scene_.storage() != Storage{} || !IsFilledWith(witness_, std::nan("")) ||
        HiddenNonFinite(witness_, ~0u) >= 0) {
      return {};
    }
    for (int64_t tile = 1; tile < p_.kv_len && tile <= kLargestTile; tile *= 2) {
      if (IsNanWhere([&](const Row& row) { return HidesTile(row, 0, tile); })) {
        return {"hidden-tile",
                fmt::format("rows that see {} are NaN, and they alone: with a "
                            "maximum of -inf exp(-inf - -inf) comes out",
                            tile == 1 ? "not the first key"
                                      : fmt::format("none of the first {} keys", tile))};
      }
    }
    for (int64_t tile = 2; tile < p_.kv_len && tile <= kLargestTile; tile *= 2) {
      const auto hides_some = [&](const Row& row) {
        for (int64_t first = 0; first < p_.kv_len; first += tile) {
          if (HidesTile(row, first, tile)) return true;
        }
        return false;
      };
      if (IsNanWhere(hides_some)) {
        return {"hidden-tile",
                fmt::format("rows for which a whole tile of {} keys is hidden are NaN, and they "
                            "alone: its sum of weights is 0",
                            tile)};
      }
    }
    return {};
  }

  Explanation ZeroOverZero() const {
    const bool is_it = IsEmptyRow(p_, witness_) && IsFilledWith(witness_, std::nan("")) &&
                       HiddenNonFinite(witness_, ~0u) < 0;
    if (!is_it) return {};
    return {"empty-row", "the row sees no key, and 0/0 came out"};
  }

  // The largest score among the keys that `accepts` picks; -inf where there is none.
  template <typename Accepts>
  double LargestScore(const Row& row, Accepts accepts) const {
    const RowCase c = scene_.CaseOf(row);
    Terms terms;
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      if (accepts(WhyHidden(p_, row, j))) terms.push_back(scene_.TermOf(c, j));
    }
    double largest = -kInf;
    for (const double score : ScoresOf(scene_.context(), c.rule, terms)) {
      largest = std::max(largest, score);
    }
    return largest;
  }
  double VisibleMaximum(const Row& row) const {
    return LargestScore(row, [](unsigned why) { return why == kHiddenByNothing; });
  }

  // How far below the maximum a weight is lost altogether: exp of it is less than half the least
  // subnormal of the accumulation type.
  double Vanishes() const {
    const DType type = scene_.context().contract.NumericsOf(p_.dtype).accumulate;
    return std::log(TraitsOf(type).min_subnormal / 2);
  }

  // Whether the rows that look empty, though they see keys, are exactly those that `is_lost` picks; with something to
  // compare, for of one row alone anything may be the cause, and where all are NaN, too. Where every cause is wanted
  // that fits, one row is enough.
  template <typename IsLost>
  bool LooksEmptyWhere(IsLost is_lost) const {
    const auto sees_keys = [&](const Row& row) { return !SeesNoKey(p_, row); };
    const bool has_right = std::ranges::any_of(survey_.right, sees_keys);
    const bool has_zeros = survey_.wrong.size() > 1 && IsFilledWith(witness_, 0);
    return (has_right || has_zeros || is_loose_) &&
           std::all_of(
               survey_.wrong.begin(), survey_.wrong.end(),
               [&](const Row& row) { return sees_keys(row) && LooksEmpty(row) && is_lost(row); }) &&
           std::none_of(survey_.right.begin(), survey_.right.end(),
                        [&](const Row& row) { return sees_keys(row) && is_lost(row); });
  }

  // Whether the witness is of a row whose sum of weights came out as nothing: 0/0, or the logarithm of 0.
  bool IsLost() const {
    if (output_ == "out") return LooksEmpty(witness_);
    return output_ == "lse" && LooksEmpty(witness_) && HasLostLse(witness_);
  }

  // All scores of the lost rows lie below some floor.
  Explanation StartingMaximum() const {
    if (!IsLost()) return {};
    double highest = -kInf;
    for (const Row& row : survey_.wrong) highest = std::max(highest, VisibleMaximum(row));
    const bool fits =
        std::isfinite(highest) && highest < Vanishes() &&
        LooksEmptyWhere([&](const Row& row) { return VisibleMaximum(row) <= highest; });
    if (!fits) return {};
    return {"starting-maximum",
            fmt::format("rows whose scores all lie below about {:.4g} come out as if empty: the "
                        "running maximum starts at a finite value",
                        highest)};
  }

  // In the lost rows a hidden key's score dwarfs all visible ones.
  Explanation HiddenMaximum() const {
    const auto is_dwarfed = [&](const Row& row) {
      const double hidden = LargestScore(
          row, [](unsigned why) { return why != kHiddenByNothing && (why & kHiddenByBias) == 0; });
      return VisibleMaximum(row) - hidden < Vanishes();
    };
    if (!IsLost() || !LooksEmptyWhere(is_dwarfed)) return {};
    return {"hidden-maximum",
            "the maximum was taken over hidden keys too, beside whose scores the visible vanish"};
  }

  // Zero where no more was due than a few of the least normal numbers, and right elsewhere.
  Explanation Flushed() const {
    constexpr double kFew = 16;
    const DType dtype = p_.dtype;
    if (scene_.context().contract.NumericsOf(dtype).flush_to_zero) return {};
    const double few = kFew * TraitsOf(dtype).min_normal;
    const auto is_flushed = [&](const Row& row) {
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        if (!LaneIsWrong(row, d)) continue;
        const double due = scene_.reference().out.At(row.batch, row.head, row.query, d);
        if (OutAt(row, d) != 0 || !(std::abs(due) < few)) return false;
      }
      return LseHolds(row);
    };
    if (output_ != "out" || !std::ranges::all_of(survey_.wrong, is_flushed)) return {};
    return {std::string(kNumerics),
            CoveringPhrase(fmt::format("{{\"{}\": {{\"flush_to_zero\": true}}}}", Name(dtype)))};
  }

  // The largest score of the rows that share a tile of queries with this one.
  double TileMaximum(const Row& row, int64_t tile) const {
    double largest = -kInf;
    const int64_t first = row.query / tile * tile;
    for (int64_t i = first; i < std::min(first + tile, p_.q_len); ++i) {
      largest = std::max(largest, VisibleMaximum({row.batch, row.head, i}));
    }
    return largest;
  }

  // Beside the scores of a neighbour those of the lost rows vanish.
  Explanation SharedMaximum() const {
    if (!IsLost()) return {};
    for (int64_t tile = 2; tile < 2 * p_.q_len && tile <= kLargestTile; tile *= 2) {
      const auto is_dwarfed = [&](const Row& row) {
        return VisibleMaximum(row) - TileMaximum(row, tile) < Vanishes();
      };
      if (!LooksEmptyWhere(is_dwarfed)) continue;
      return {"shared-maximum",
              fmt::format("the maximum was taken over all rows of a tile of {} queries, beside the "
                          "largest of which the row's own scores vanish",
                          tile)};
    }
    return {};
  }

  bool KeyIsFinite(const Row& row, int64_t key) const {
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    for (const Array* array : {&scene_.inputs().k, &scene_.inputs().v}) {
      for (int64_t d = 0; d < array->shape[3]; ++d) {
        if (!std::isfinite(array->At(row.batch, kv_head, key, d))) return false;
      }
    }
    return true;
  }

  // A non-finite key that one of `mechanisms` hides from the row; -1 where there is none.
  int64_t HiddenNonFinite(const Row& row, unsigned mechanisms) const {
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      if ((WhyHidden(p_, row, j) & mechanisms) != 0 && !KeyIsFinite(row, j)) return j;
    }
    return -1;
  }

  bool IsNonFinite(const Row& row) const {
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (!std::isfinite(OutAt(row, d))) return true;
    }
    return false;
  }

  // Whether the rows that are not finite are those from which `mechanisms` hide non-finite data.
  bool LeaksThrough(unsigned mechanisms) const {
    const auto leaks = [&](const Row& row) { return HiddenNonFinite(row, mechanisms) >= 0; };
    return std::all_of(survey_.wrong.begin(), survey_.wrong.end(),
                       [&](const Row& row) { return IsNonFinite(row) && leaks(row); }) &&
           std::none_of(survey_.right.begin(), survey_.right.end(),
                        [&](const Row& row) { return !IsEmptyRow(p_, row) && leaks(row); });
  }

  Explanation Leak() const {
    constexpr unsigned kAll = ~0u;
    constexpr std::pair<unsigned, std::string_view> kMechanisms[] = {
        {kAll, ""},
        {kHiddenByLength, " by its length"},
        {kHiddenByCausal, " by causality"},
        {kHiddenByWindow, " by the window"},
        {kHiddenByMask, " by the mask"},
        {kHiddenByBias, " by the additive mask"},
        {kHiddenByDocument, " by its document"},
        {kHiddenByBlock, " by the block mask"}};
    for (const auto& [mechanisms, word] : kMechanisms) {
      if (!LeaksThrough(mechanisms)) continue;
      return {"hidden-nonfinite",
              fmt::format("the non-finite value at key {}, hidden{}, came through",
                          HiddenNonFinite(witness_, mechanisms), word)};
    }
    return {};
  }

  // The wrong rows are those that a visible NaN must have made NaN.
  Explanation LostNan() const {
    const auto is_lost = [&](const Row& row) {
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        const double expected = scene_.reference().out.At(row.batch, row.head, row.query, d);
        if (std::isnan(expected) && !std::isnan(OutAt(row, d))) return true;
      }
      return false;
    };
    if (!std::ranges::all_of(survey_.wrong, is_lost)) return {};
    return {"nan-lost", "a NaN that the row sees does not come through"};
  }

  // One value in all rows. Two rows, for one might be right about it by chance.
  Explanation ConstantOutput() const {
    if (survey_.wrong.size() < 2 || p_.value_dim == 0) return {};
    const double value = OutAt(witness_, 0);
    if (std::isnan(value)) return {};  // a row of NaN says it better
    for (const std::vector<Row>* rows : {&survey_.wrong, &survey_.right}) {
      for (const Row& row : *rows) {
        if (!IsFilledWith(row, value)) return {};
      }
    }
    return {"constant-output", fmt::format("out is {:.4g} everywhere", value)};
  }

  bool LaneIsWrong(const Row& row, int64_t lane) const {
    const double expected = scene_.reference().out.At(row.batch, row.head, row.query, lane);
    return !WithinBound(OutAt(row, lane), expected,
                        scene_.bound().WorstOf(row).out[static_cast<size_t>(lane)]);
  }

  // Whether the lane would be wrong, too, if what is wrong with `other` were wrong with the row: not where its bound holds
  // as large an error, nor where all keys have one value, which any weights give.
  bool LaneTells(const Row& row, int64_t lane, int64_t other) const {
    const Array& due = scene_.reference().out;
    const auto due_at = [&](int64_t d) { return due.At(row.batch, row.head, row.query, d); };
    const double bound = scene_.bound().WorstOf(row).out[static_cast<size_t>(lane)];
    if (!(bound < std::abs(OutAt(row, other) - due_at(other)))) return false;
    const Array& v = scene_.inputs().v;
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    for (int64_t j = 1; j < p_.kv_len; ++j) {
      if (!SameBits(v.At(row.batch, kv_head, j, lane), v.At(row.batch, kv_head, 0, lane)))
        return true;
    }
    return false;
  }

  // The same last lanes in every wrong row, past a multiple of some tile.
  Explanation LaneTail() const {
    if (survey_.wrong.size() < 2) return {};
    int64_t first = p_.value_dim;
    while (first > 0 && LaneIsWrong(witness_, first - 1)) --first;
    if (first == 0 || first == p_.value_dim) return {};
    bool tells = false;
    for (const Row& row : survey_.wrong) {
      if (IsEmptyRow(p_, row)) return {};
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        if (LaneIsWrong(row, d) != (d >= first)) return {};
        tells = tells || (d < first && LaneTells(row, d, first));
      }
    }
    if (!tells) return {};
    const int64_t last = p_.value_dim - 1;
    const std::string lanes =
        first == last ? fmt::format("lane {}", last) : fmt::format("lanes {}-{}", first, last);
    return {"value-dim-tail", fmt::format("of value_dim {} only {} {} wrong", p_.value_dim, lanes,
                                          first == last ? "is" : "are")};
  }

  const Scene& scene_;
  const Problem& p_;
  const Survey& survey_;
  const Row witness_;
  const std::string_view output_;
  const bool is_loose_;  // what fits one row fits
};

}  // namespace

std::vector<Explanation> StrongSymptoms(const Scene& scene, const Survey& survey,
                                        const Row& witness, std::string_view output,
                                        CausesWanted wanted) {
  return Symptoms(scene, survey, witness, output).Strong(wanted);
}

std::vector<Explanation> PossibleSymptoms(const Scene& scene, const Survey& survey,
                                          const Row& witness, std::string_view output) {
  constexpr bool kIsLoose = true;
  return Symptoms(scene, survey, witness, output, kIsLoose).Strong(CausesWanted::kEvery);
}

Explanation LooseLeak(const Scene& scene, const Survey& survey, const Row& witness) {
  return Symptoms(scene, survey, witness, "out").LooseLeak();
}

Explanation WeakSymptom(const Scene& scene, const Survey& survey, const Row& witness,
                        std::string_view output) {
  return Symptoms(scene, survey, witness, output).Weak();
}

}  // namespace attest
