#include "properties/harness/case/recipe.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "properties/harness/case/random.h"

namespace attest {
namespace {

bool IsChosen(ScoreFamily family) {
  switch (family) {
    case ScoreFamily::kTied:
    case ScoreFamily::kSpread:
    case ScoreFamily::kDominant:
    case ScoreFamily::kAscending:
    case ScoreFamily::kDescending:
    case ScoreFamily::kVeryNegative:
    case ScoreFamily::kHuge:
      return true;
    default:
      return false;
  }
}

double Integer(uint64_t hash, uint64_t count, int64_t first) {
  return static_cast<double>(static_cast<int64_t>(hash % count) + first);
}

double SmallInteger(uint64_t hash) {
  return Integer(hash, 7, -3);
}

// The sum of four 16-bit uniforms, centred: variance (65536^2 / 12) * 4, hence the divisor. Reaches
// to +-3.46, which is tail enough for "approximately normal".
double Normal(uint64_t hash) {
  int64_t sum = -2 * 65535;
  for (int part = 0; part < 4; ++part) {
    sum += static_cast<int64_t>((hash >> (16 * part)) & 0xFFFFu);
  }
  return static_cast<double>(sum) / 37837.0;
}

double HeavyTailed(uint64_t hash) {
  const int exponent = static_cast<int>(MixBits(hash) % 13) - 6;
  return std::ldexp(Normal(hash), exponent);
}

// One third few-bit multiples of the least subnormal, one third beside the least normal, one zeros.
double Denormal(const FormatTraits& traits, uint64_t hash) {
  const double sign = (hash & 1) != 0 ? -1.0 : 1.0;
  const uint64_t magnitude = (hash >> 8) & 0xF;
  switch ((hash >> 1) % 3) {
    case 0:
      return sign * (traits.min_subnormal * static_cast<double>(magnitude));
    case 1:
      return sign * std::ldexp(traits.min_normal, static_cast<int>(magnitude % 4) - 1);
    default:
      return sign * 0.0;
  }
}

double SignedZero(uint64_t hash) {
  return (hash & 1) != 0 ? -0.0 : 0.0;
}

// The largest power of two that q's own element may be, so that it stays finite (with 2^110 of
// kHuge). e4m3 ends at 448.
int LargestUnitExponent(DType dtype) {
  switch (dtype) {
    case DType::kE4M3:
      return 8;
    case DType::kE5M2:
    case DType::kF16:
      return 15;
    default:
      return 16;
  }
}

// The exponent m that brings scale * 2^m to at least 1, so that k = score / (scale * 2^m) is no
// larger than the score and fits f16.
int UnitExponent(double scale, DType dtype) {
  if (scale == 0) return 0;
  int exponent = 0;
  std::frexp(scale, &exponent);
  return std::clamp(1 - exponent, 0, LargestUnitExponent(dtype));
}

// The factor that lifts kHuge's 5e4 to 6.5e37: products stay finite in f32 and bf16 for usual
// scales.
constexpr int kHugeExponent = 110;

}  // namespace

RecipeData::RecipeData(const Case& c)
    : recipe_(c.recipe),
      dtype_(c.problem.dtype),
      traits_(TraitsOf(c.problem.InputDType())),
      largest_key_(TraitsOf(c.problem.dtype).max_finite),
      largest_bias_(TraitsOf(c.problem.BiasDType()).max_finite),
      value_dim_(c.problem.value_dim),
      chosen_(IsChosen(c.recipe.scores)) {
  const double scale = c.problem.EffectiveScale();
  query_unit_ = std::ldexp(1.0, UnitExponent(scale, c.problem.InputDType()));
  divisor_ = scale == 0 ? 1.0 : scale * query_unit_;
}

double RecipeData::Plain(const Element& e) const {
  switch (recipe_.scores) {
    case ScoreFamily::kNormal:
      return Normal(e.hash());
    case ScoreFamily::kHeavyTailed:
      return HeavyTailed(e.hash());
    case ScoreFamily::kDenormal:
      return Denormal(traits_, e.hash());
    case ScoreFamily::kSignedZeros:
      return SignedZero(e.hash());
    default:
      return SmallInteger(e.hash());
  }
}

double RecipeData::KeyScore(const Element& e) const {
  const uint64_t seed_hash = MixBits(recipe_.seed);
  switch (recipe_.scores) {
    case ScoreFamily::kTied:
      return (e.hash() & 1) != 0 ? std::ldexp(1.0, static_cast<int>(seed_hash % 4) - 1) : 0.0;
    case ScoreFamily::kSpread:
      return Integer(e.hash(), 60 * 1024 + 1, -30 * 1024) / 1024;
    case ScoreFamily::kDominant:  // one key in eight, so that long and short problems have some
      return e.hash() % 8 == 0 ? 40.0 : Integer(e.hash() >> 3, 41, -80);
    case ScoreFamily::kAscending:
      return std::ldexp(static_cast<double>(e.position), static_cast<int>(seed_hash % 4) - 2);
    case ScoreFamily::kDescending:
      return std::ldexp(static_cast<double>(-e.position), static_cast<int>(seed_hash % 4) - 2);
    case ScoreFamily::kVeryNegative:  // f16 ends at 65504
      return Integer(e.hash(), dtype_ == DType::kF16 ? 5001 : 10001, 0) * -1.0 - 60000.0;
    default:
      return (e.hash() & 1) != 0 ? 5e4 : -5e4;
  }
}

double RecipeData::RowFactor(const Element& e) const {
  switch (recipe_.scores) {
    case ScoreFamily::kTied:
    case ScoreFamily::kSpread:
      return e.hash() % 3 == 0 ? -1.0 : (e.hash() % 3 == 1 ? 0.5 : 1.0);
    case ScoreFamily::kAscending:
    case ScoreFamily::kDescending:
      return e.hash() % 2 == 0 ? 0.5 : 1.0;
    case ScoreFamily::kHuge:
      return e.hash() % 3 == 0 && dtype_ != DType::kF16 ? std::ldexp(1.0, kHugeExponent) : 1.0;
    default:
      return 1.0;
  }
}

void RecipeData::FillPlane(DataTensor tensor, int64_t batch, int64_t head, int64_t positions,
                           int64_t lanes, double* plane) const {
  uint64_t hash = MixIn(recipe_.seed, static_cast<uint64_t>(tensor) + 1);
  hash = MixIn(hash, static_cast<uint64_t>(batch));
  hash = MixIn(hash, static_cast<uint64_t>(head));
  const auto fill = [&](auto&& value) {
    Element e{0, MixIn(hash, static_cast<uint64_t>(-1)), batch, head, 0, 0};
    for (; e.position < positions; ++e.position) {
      e.row_hash = MixIn(hash, static_cast<uint64_t>(e.position));
      for (e.lane = 0; e.lane < lanes; ++e.lane) *plane++ = value(e);
    }
  };
  switch (tensor) {
    case DataTensor::kQ:
      return fill([this](const Element& e) { return Q(e); });
    case DataTensor::kK:
      return fill([this](const Element& e) { return K(e); });
    case DataTensor::kV:
      return fill([this](const Element& e) { return OfValueFamily(recipe_.values, e); });
    case DataTensor::kBias:
      return fill([this](const Element& e) { return Bias(e); });
    case DataTensor::kDout:
      return fill([this](const Element& e) { return OfValueFamily(recipe_.dout, e); });
  }
}

double RecipeData::Q(const Element& e) const {
  if (recipe_.scores == ScoreFamily::kZero) return 0.0;
  if (!chosen_) return Plain(e);
  return e.lane == 0 ? RowFactor(e) * query_unit_ : 0.0;
}

double RecipeData::K(const Element& e) const {
  if (!chosen_) return Plain(e);
  if (e.lane != 0) return 0.0;
  return std::clamp(KeyScore(e) / divisor_, -largest_key_, largest_key_);
}

double RecipeData::OfValueFamily(ValueFamily family, const Element& e) const {
  // One value per (batch, head, lane), whatever the key.
  const auto column = [&] { return MixIn(e.column_hash, static_cast<uint64_t>(e.lane)); };
  switch (family) {
    case ValueFamily::kOnes:
      return 1.0;
    case ValueFamily::kConstant:
      return Integer(column(), 33, -16) / 4;
    case ValueFamily::kOneHot:
      return e.lane == e.position % value_dim_ ? 1.0 : 0.0;
    case ValueFamily::kLabels:
      return static_cast<double>(10 * e.batch + e.head);
    case ValueFamily::kSmallIntegers:
      return SmallInteger(e.hash());
    case ValueFamily::kNormal:
      return Normal(e.hash());
    case ValueFamily::kHeavyTailed:
      return HeavyTailed(e.hash());
    case ValueFamily::kCancelling:
      return std::ldexp(Integer(column(), 16, 1), static_cast<int>(column() >> 8) & 7) *
             (e.position % 2 == 0 ? 1.0 : -1.0);
    case ValueFamily::kDenormal:
      return Denormal(traits_, e.hash());
    case ValueFamily::kSignedZeros:
      return SignedZero(e.hash());
    case ValueFamily::kLarge:
      return dtype_ == DType::kF16 ? Integer(e.hash(), 1875, -937) * 64
                                   : Integer(e.hash(), 2000001, -1000000);
  }
  return 0.0;
}

double RecipeData::FiniteMask(const Element& e) const {
  constexpr double kFillers[] = {1e4, 3e4, 65504, 1e9, 1e30, std::numeric_limits<double>::max()};
  const double filler = kFillers[MixBits(recipe_.seed) % std::size(kFillers)];
  const bool whole_row = e.row_hash % 8 == 0;
  return whole_row || e.hash() % 4 == 0 ? -std::min(filler, largest_bias_) : 0.0;
}

double RecipeData::Bias(const Element& e) const {
  switch (recipe_.bias) {
    case BiasFamily::kZero:
      return 0.0;
    case BiasFamily::kSmallIntegers:
      return SmallInteger(e.hash());
    case BiasFamily::kNormal:
      return Normal(e.hash());
    case BiasFamily::kWide:
      return Integer(e.hash(), 120 * 256 + 1, -60 * 256) / 256;
    case BiasFamily::kRowConstant:
      return -Integer(e.row_hash, 10001, 0);
    case BiasFamily::kFiniteMask:
      return FiniteMask(e);
  }
  return 0.0;
}

}  // namespace attest
