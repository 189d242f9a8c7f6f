#include "properties/bench/fault_table.h"

namespace attest {
namespace {

constexpr std::array<double, 3> kAll = {1, 1, 1}, kNone = {0, 0, 0},
                                kUnknown = {kNotMeasured, kNotMeasured, kNotMeasured};
constexpr StudyFigures kAlways = {kAll, kAll}, kNever = {kNone, kNone};

}  // namespace

const std::vector<FaultRow>& FaultTable() {
  using K = FaultKind;
  using F = StudyFigures;
  // Faults of the rescale need many of them: tiles of 16. Else 64.
  static const std::vector<FaultRow> kRows = {
      {"none (correct kernel)", {K::kNone}, "online 64", kNever, kNever, kNever},
      {"one key dropped",
       {K::kDropKey},
       "online 64",
       F{{1, 1, .79}, kAll},
       F{{.96, .95, .88}, {.97, .97, .98}},
       F{kNone, {1, 1, .75}}},
      {"one key counted twice", {K::kRepeatKey}, "online 64", F{{1, 1, .70}, kAll}, {}, {}},
      {"causal, one key more",
       {K::kFutureKey},
       "online 64",
       {},
       F{{.95, .97, .89}, {.96, .99, .97}},
       {}},
      {"last key of 64 t lost",
       {K::kLastKeyOfFullTiles},
       "online 64",
       {},
       F{{.89, .86, .65}, {.92, .93, .92}},
       {}},
      {"scale +1 %",
       {K::kScale, 1e-2},
       "online 64",
       F{{1, 1, .08}, kAll},
       F{{.95, .89, .63}, kAll},
       F{kUnknown, kAll}},
      {"scale +0.1 %",
       {K::kScale, 1e-3},
       "online 64",
       F{{1, 0, 0}, kAll},
       F{{.91, .51, .04}, {1, 1, .99}},
       F{kUnknown, {1, 1, 0}}},
      {"scale +0.01 %", {K::kScale, 1e-4}, "online 64", F{kNone, kAll}, {}, {}},
      {"acc not rescaled",
       {K::kAccumulatorNotRescaled},
       "online 16",
       kAlways,
       F{{.90, .98, .97}, {.91, .99, .99}},
       {}},
      {"l not rescaled", {K::kSumNotRescaled}, "online 16", kAlways, {}, {}},
      {"one rescale missing", {K::kOneRescaleMissing}, "online 16", kAlways, {}, {}},
      {"QK summed in 16 bits",
       {K::kNarrowScoreSums},
       "online 64",
       F{{1, .26, .53}, kAll},
       F{{.98, .64, .68}, {1, .99, 1}},
       F{kUnknown, kAll}},
      {"PV summed in 16 bits",
       {K::kNarrowValueSums},
       "online 64",
       kAlways,
       F{{.97, .69, .71}, {.98, .77, .80}},
       F{kUnknown, kAll}},
      {"l summed in 16 bits",
       {K::kNarrowWeightSums},
       "online 64",
       {},
       F{{.96, .59, .65}, {.97, .91, .96}},
       {}},
      {"24 padded keys in l", {K::kPaddedKeysCounted, 24}, "online 64", F{{1, 1, 0}, kAll}, {}, {}},
      {"two rows of V swapped", {K::kSwappedValues}, "online 64", F{{1, 1, .93}, kAll}, {}, {}},
      {"P rounded coarser",
       {K::kCoarseWeights},
       "online 64",
       F{kNone, {1, 1, .98}},
       F{{.76, .59, .27}, {.92, .80, .43}},
       {}},
      {"exp off by 1e-4", {K::kExpError, 1e-4}, "online 64", F{{.04, 0, 0}, kAll}, {}, {}},
      {"exp off by 1e-5", {K::kExpError, 1e-5}, "online 64", F{kNone, {.80, 0, 0}}, {}, {}},
      {"a row of V off by 1 %",
       {K::kValueRowOff, 1e-2},
       "online 64",
       F{{.29, 0, 0}, {1, .24, 0}},
       F{{.83, .61, .35}, {.92, .69, .35}},
       {}},
      {"S in 16 bits (f32: tf32)",
       {K::kCoarseScores},
       "online 64",
       F{{.02, 0, 0}, {1, .05, 1}},
       F{{.87, .42, .43}, {.99, .94, .99}},
       {}},
      {"log2e = 1.4427", {K::kWrongLog2E}, "exp by exp2", kNever, {}, {}},
      {"P truncated", {K::kTruncatedWeights}, "online 64", kNever, {}, {}, true},
      {"output truncated", {K::kTruncatedOutput}, "online 64", kNever, {}, {}, true},
      {"max starts at 0",
       {K::kMaxStartsAtZero},
       "online 64",
       {},
       F{{.03, .19, .03}, {.03, .19, .03}},
       {}},
  };
  return kRows;
}

const std::vector<BiasRow>& BiasTable() {
  static const std::vector<BiasRow> kRows = {
      {"none (correct kernel)", {}, "online 64", DType::kF32},
      {"none (correct kernel)", {}, "online 64", DType::kF16},
      {"none (correct kernel)", {}, "online 64", DType::kBF16},
      {"log2e = 1.4427", {FaultKind::kWrongLog2E}, "exp by exp2", DType::kF32},
      {"P truncated", {FaultKind::kTruncatedWeights}, "online 64", DType::kF16},
      {"P truncated", {FaultKind::kTruncatedWeights}, "online 64", DType::kBF16},
      {"output truncated", {FaultKind::kTruncatedOutput}, "online 64", DType::kF16},
      {"output truncated", {FaultKind::kTruncatedOutput}, "online 64", DType::kBF16},
  };
  return kRows;
}

}  // namespace attest
