#include "impl/reference/bound.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "impl/reference/bound_range.h"
#include "impl/reference/bound_tiers.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kUninformative = 0.1;  // of V's range in the row

enum Tier : size_t { kCheap, kWorst, kProbable, kSpread, kTiers };

double Largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

void SetConstant(const Problem& p, double value, RowNumbers& numbers) {
  const auto keys = static_cast<size_t>(p.kv_len);
  const bool wants_weights = p.want_weights || p.want_scores == ScoreMode::kWeights;
  numbers.out.assign(static_cast<size_t>(p.value_dim), value);
  numbers.lse = value;
  numbers.weights.assign(wants_weights ? keys : 0, value);
  numbers.scores.assign(p.want_scores ? keys : 0, value);
}

// Numbers that no bound holds any longer, with their storage, for the next bound of this thread.
class SpareNumbers {
 public:
  std::unique_ptr<RowNumbers> Take() {
    if (spare_.empty()) return std::make_unique<RowNumbers>();
    std::unique_ptr<RowNumbers> numbers = std::move(spare_.back());
    spare_.pop_back();
    return numbers;
  }
  void Keep(std::unique_ptr<RowNumbers> numbers) {
    constexpr size_t kMostSpare = 512, kMostElements = 512;  // 2 MiB an array
    if (spare_.size() >= kMostSpare || numbers->out.capacity() > kMostElements ||
        std::max(numbers->weights.capacity(), numbers->scores.capacity()) > kMostElements) {
      return;
    }
    spare_.push_back(std::move(numbers));
  }

 private:
  std::vector<std::unique_ptr<RowNumbers>> spare_;
};

SpareNumbers& TheSpareNumbers() {
  thread_local SpareNumbers spare;
  return spare;
}

// The row that this thread measured last, for whichever bound.
struct LastMeasured {
  uint64_t bound = 0;  // its number; 0 = none yet
  Row row;
  Condition condition = Condition::kExact;
  RowErrors errors;
};

LastMeasured& TheLastMeasured() {
  thread_local LastMeasured last;
  return last;
}

uint64_t NextNumber() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

class ErrorBound::Impl {
 public:
  Impl(const Problem& problem, const Inputs& inputs, const Reference& reference,
       const Contract& contract)
      : p_(problem),
        inputs_(inputs),
        reference_(reference),
        semantics_(contract.semantics),
        has_filler_(contract.masking_value.has_value()),
        roundings_(problem, contract.NumericsOf(problem.dtype)),
        range_(problem, inputs, reference, contract, roundings_),
        largest_bias_(LargestBias(inputs)),
        kv_heads_(static_cast<size_t>(problem.batch * problem.kv_heads)),
        heads_(static_cast<size_t>(problem.batch * problem.q_heads)),
        rows_(static_cast<size_t>(problem.batch * problem.q_heads * problem.q_len)) {}

  ~Impl() {
    for (Entry& entry : rows_) {
      for (std::unique_ptr<RowNumbers>& numbers : entry.tiers) {
        if (numbers) TheSpareNumbers().Keep(std::move(numbers));
      }
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool IsUnconstrained(const Row& row) { return KindOf(row) == Kind::kOverflow; }

  RowState StateOf(const Row& row) {
    if (IsUnconstrained(row)) return RowState::kUnconstrained;
    std::optional<bool>& informative = EntryOf(row).informative;
    if (!informative) informative = KindOf(row) == Kind::kFixed || IsInformative(row);
    return *informative ? RowState::kInformative : RowState::kUninformative;
  }

  RowFloor FloorOf(const Row& row) {
    if (KindOf(row) != Kind::kRounded) return {};
    return MakeFloor(roundings_, CountTerms(row),
                     reference_.lse.At(row.batch, row.head, row.query, 0));
  }

  const RowNumbers& Of(Tier tier, const Row& row) {
    std::unique_ptr<RowNumbers>& numbers = EntryOf(row).tiers[tier];
    if (numbers) return *numbers;
    switch (KindOf(row)) {
      case Kind::kOverflow:
        numbers = TheSpareNumbers().Take();
        SetConstant(p_, kInf, *numbers);
        break;
      case Kind::kFixed:
        numbers = TheSpareNumbers().Take();
        SetFixedRow(row, *numbers);
        SetScores(row, tier, *numbers);
        break;
      case Kind::kUnknown:
      case Kind::kRounded:
        Compute(tier, row);
        break;
    }
    return *numbers;
  }

 private:
  // What decides a row: nothing, the semantics, or rounding.
  enum class Kind : uint8_t { kUnknown, kOverflow, kFixed, kRounded };
  struct Entry {
    Kind kind = Kind::kUnknown;
    std::optional<bool> informative;
    double terms = -1;  // as CountTerms gives them; below 0 = not counted
    std::unique_ptr<RowNumbers> tiers[kTiers];
  };

  Entry& EntryOf(const Row& row) {
    return rows_[static_cast<size_t>((row.batch * p_.q_heads + row.head) * p_.q_len + row.query)];
  }

  HeadFacts& HeadOf(const Row& row) {
    auto& head = heads_[static_cast<size_t>(row.batch * p_.q_heads + row.head)];
    if (!head) {
      const int64_t kv_head = row.head / p_.heads_per_kv_head();
      auto& kv = kv_heads_[static_cast<size_t>(row.batch * p_.kv_heads + kv_head)];
      if (!kv) kv.emplace(inputs_, row.batch, kv_head);
      head.emplace(p_, inputs_, reference_, largest_bias_, *kv, row.batch, row.head);
    }
    return *head;
  }

  RowContext ContextOf(const Row& row) {
    return {p_, inputs_, reference_, roundings_, semantics_, HeadOf(row), row};
  }

  // How many terms the row's sums have: its visible keys and its sink.
  double CountTerms(const Row& row) {
    double& terms = EntryOf(row).terms;
    if (terms < 0) terms = CountVisibleKeys(p_, row) + (p_.sinks ? 1 : 0);
    return terms;
  }
  bool IsEmpty(const Row& row) { return CountTerms(row) == 0; }

  void SetScores(const Row& row, Tier tier, RowNumbers& numbers) {
    numbers.scores.clear();
    if (!p_.want_scores || tier == kSpread) return;
    SetScoreBounds(ContextOf(row), tier == kCheap ? Condition::kByNorms : Condition::kExact,
                   has_filler_, numbers);
  }

  Kind KindOf(const Row& row) {
    Kind& kind = EntryOf(row).kind;
    if (kind != Kind::kUnknown) return kind;
    const double lse = reference_.lse.At(row.batch, row.head, row.query, 0);
    HeadFacts& head = HeadOf(row);
    if (range_.MayOverflow(head, row)) {
      kind = Kind::kOverflow;
    } else if (std::isnan(lse) && p_.dropout && !IsEmpty(row)) {
      kind = Kind::kOverflow;  // a weight that is dropped may be skipped, or multiplied by 0
    } else if (std::isnan(lse) || IsEmpty(row)) {
      kind = Kind::kFixed;
    } else if (range_.HiddenMayOutweigh(head, row)) {
      kind = Kind::kOverflow;
    } else {
      kind = Kind::kRounded;
      // Results near the end of their type's range may round out of it.
      if (MayLeaveOutputRange(row)) kind = Kind::kOverflow;
    }
    return kind;
  }

  bool MayLeaveOutputRange(const Row& row) {
    if (HeadOf(row).kv.largest_value * roundings_.kept < roundings_.out_range / 4) return false;
    const double largest = LargestOut(row);
    const double keys = CountTerms(row);
    const double lse = reference_.lse.At(row.batch, row.head, row.query, 0);
    const double crude =
        CrudeBound(ContextOf(row), keys, std::abs(lse) + std::log(keys), MaximaOfHead(row));
    if (largest + crude < roundings_.out_range) return false;
    RowNumbers worst;
    WorstBound(ContextOf(row), Measure(row, Condition::kExact), worst);
    return largest + Largest(worst.out) >= roundings_.out_range;
  }

  double LargestOut(const Row& row) const {
    double largest = 0;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const double o = std::abs(reference_.out.At(row.batch, row.head, row.query, d));
      if (!std::isnan(o)) largest = std::max(largest, o);
    }
    return largest;
  }

  const RowErrors& Measure(const Row& row, Condition condition) {
    LastMeasured& last = TheLastMeasured();
    if (last.bound != number_ || last.row != row || last.condition != condition) {
      MeasureRow(p_, inputs_, reference_, roundings_, HeadOf(row), row, condition, last.errors);
      last.bound = number_;
      last.row = row;
      last.condition = condition;
    }
    return last.errors;
  }

  void Compute(Tier tier, const Row& row) {
    auto& tiers = EntryOf(row).tiers;
    if (tier == kCheap) {
      tiers[kCheap] = TheSpareNumbers().Take();
      CheapBound(ContextOf(row), Measure(row, Condition::kByNorms), *tiers[kCheap]);
      return SetScores(row, kCheap, *tiers[kCheap]);
    }
    const RowErrors& errors = Measure(row, Condition::kExact);
    if (!tiers[kWorst]) {
      tiers[kWorst] = TheSpareNumbers().Take();
      WorstBound(ContextOf(row), errors, *tiers[kWorst]);
      SetScores(row, kWorst, *tiers[kWorst]);
    }
    if (tier == kWorst) return;
    tiers[kProbable] = TheSpareNumbers().Take();
    tiers[kSpread] = TheSpareNumbers().Take();
    ProbableBound(ContextOf(row), errors, *tiers[kWorst], *tiers[kProbable], *tiers[kSpread]);
    SetScores(row, kProbable, *tiers[kProbable]);
  }

  // In a row that a visible NaN has made NaN, dividing by its sum may make hidden weights NaN too.
  void SetFixedRow(const Row& row, RowNumbers& numbers) {
    SetConstant(p_, 0, numbers);
    if (IsEmpty(row)) return;
    for (size_t j = 0; j < numbers.weights.size(); ++j) {
      if (!Visible(p_, row, static_cast<int64_t>(j))) numbers.weights[j] = kInf;
    }
  }

  // From the crudest look to the surest. The range of a column is at least what two of its visible
  // values differ by, and at least twice its deviation.
  bool IsInformative(const Row& row) {
    if (HeadOf(row).kv.largest_value == 0) return true;  // V has no range, nor any output
    const double keys = CountTerms(row);
    const double lse = reference_.lse.At(row.batch, row.head, row.query, 0);
    const double log_max = std::abs(lse) + std::log(keys);
    const auto shown = [&](const ColumnMaxima& v, double yardstick) {
      return CrudeBound(ContextOf(row), keys, log_max, v) <= kUninformative * yardstick;
    };
    if (!roundings_.has_zero_values && (keys == 1 || HeadOf(row).kv.values_constant)) {
      const double out = LargestOut(row);
      if (shown({out, out, 0}, out)) return true;
    } else {
      if (shown(MaximaOfHead(row), DistanceOfEnds(row))) return true;
      const ColumnMaxima v = MaximaOf(row, keys);
      if (shown(v, 2 * v.deviation)) return true;
    }
    const double range = ValueRange(row);
    return range == 0 || Largest(Of(kWorst, row).out) <= kUninformative * range;
  }

  // No column of any row exceeds these, and rounding does not matter to a tenth.
  ColumnMaxima MaximaOfHead(const Row& row) {
    const double largest = HeadOf(row).kv.largest_value * roundings_.kept;
    return {largest, largest, 2 * largest};
  }

  // The widest distance in a column between the values of the first and the last visible key; with a
  // sink, between the first and 0.
  double DistanceOfEnds(const Row& row) {
    const KeyRange range = VisibleRange(p_, row);
    int64_t first = range.first, last = range.last - 1;
    while (first < last && !Visible(p_, row, first)) ++first;
    while (first < last && !Visible(p_, row, last)) --last;
    if (roundings_.has_zero_values) return DistanceOfOddEnds(row, first, last);
    if (first >= last) return 0;
    const ConstPlane& v = HeadOf(row).kv.v;
    return (v.row(first) - v.row(last)).cwiseAbs().maxCoeff();
  }

  // The same where dropout changes the values, or a sink comes last.
  double DistanceOfOddEnds(const Row& row, int64_t first, int64_t last) {
    if (first > last || !Visible(p_, row, first)) return 0;
    const RowContext context = ContextOf(row);
    thread_local Eigen::ArrayXd from, to;
    context.LoadValues(first, from);
    context.LoadValues(p_.sinks ? kSinkKey : last, to);
    return (from - to).abs().maxCoeff();
  }

  ColumnMaxima MaximaOf(const Row& row, double keys) {
    const RowMajor& moments = HeadOf(row).SecondMoments();
    ColumnMaxima v;
    double second = 0, variance = 0;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const double o = reference_.out.At(row.batch, row.head, row.query, d);
      if (std::isnan(o)) continue;
      const double moment = moments(row.query, d);
      if (!std::isfinite(moment)) return {0, kInf, 0};  // the squares overflowed: nothing is said
      v.out = std::max(v.out, std::abs(o));
      second = std::max(second, moment);
      variance = std::max(variance, moment - o * o);
    }
    // The difference of squares cancels: it may be off by so much.
    const double blur = 1e-14 * (1 + keys) * second;
    v.deviation = variance > 2 * blur ? std::sqrt(variance + blur) : 0;
    v.root = std::sqrt(second);
    // Where it is all blur nothing is said: the yardstick is 0.
    return v;
  }

  // The widest range of a column over the row's visible keys; where all are constant, the largest
  // |v|.
  double ValueRange(const Row& row) {
    const RowContext context = ContextOf(row);
    thread_local Eigen::ArrayXd v, low, high;
    low.setConstant(p_.value_dim, kInf);
    high.setConstant(p_.value_dim, -kInf);
    ListVisibleKeys(p_, row, keys_);
    if (p_.sinks) keys_.push_back(kSinkKey);
    double range = 0, largest = 0;
    for (const int64_t j : keys_) {
      context.LoadValues(j, v);
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        low(d) = std::min(low(d), v(d));
        high(d) = std::max(high(d), v(d));
        largest = std::max(largest, std::abs(v(d)));  // a NaN is no maximum
      }
    }
    for (int64_t d = 0; d < p_.value_dim; ++d) range = std::max(range, high(d) - low(d));
    return range > 0 ? range : largest;
  }

  const Problem& p_;
  const Inputs& inputs_;
  const Reference& reference_;
  const Semantics semantics_;
  const bool has_filler_;  // what stands for minus infinity is finite
  const Roundings roundings_;
  const RangeCheck range_;
  const double largest_bias_;
  std::vector<std::optional<KvFacts>> kv_heads_;
  std::vector<std::optional<HeadFacts>> heads_;
  std::vector<Entry> rows_;
  std::vector<int64_t> keys_;             // scratch
  const uint64_t number_ = NextNumber();  // tells bounds apart that lived at one address
};

double RowFloor::Line(double slope, double offset, double value) const {
  const double size = std::abs(value);
  const double stored = store_roundoff > 0 ? HalfUlp(store_roundoff, store_lost, size) : 0;
  return slope * size + offset + stored;
}

double RowFloor::SettledOut(double out) const {
  const double worst = Out(out);
  return std::max(kSettledShare * worst, std::min(worst, Line(probable_out_slope, 0, out)));
}

double RowFloor::SettledWeight(double weight) const {
  const double worst = Weight(weight);
  return std::max(kSettledShare * worst, std::min(worst, Line(probable_weight_slope, 0, weight)));
}

ErrorBound::ErrorBound(const Problem& problem, const Inputs& inputs, const Reference& reference,
                       const Contract& contract)
    : impl_(std::make_unique<Impl>(problem, inputs, reference, contract)) {}
ErrorBound::~ErrorBound() = default;
ErrorBound::ErrorBound(ErrorBound&&) noexcept = default;

RowState ErrorBound::StateOf(const Row& row) {
  return impl_->StateOf(row);
}
bool ErrorBound::IsUnconstrained(const Row& row) {
  return impl_->IsUnconstrained(row);
}
const RowNumbers& ErrorBound::CheapOf(const Row& row) {
  return impl_->Of(kCheap, row);
}
RowFloor ErrorBound::FloorOf(const Row& row) {
  return impl_->FloorOf(row);
}
const RowNumbers& ErrorBound::WorstOf(const Row& row) {
  return impl_->Of(kWorst, row);
}
const RowNumbers& ErrorBound::ProbableOf(const Row& row) {
  return impl_->Of(kProbable, row);
}
const RowNumbers& ErrorBound::SpreadOf(const Row& row) {
  return impl_->Of(kSpread, row);
}

}  // namespace attest
