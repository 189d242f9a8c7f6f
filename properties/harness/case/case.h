// A Case is a problem with all its data, fully determined: what properties derive from, what
// kernels run, what findings store. Data are recipes (family and seed), never stored tensors,
// except where a case was imported or derived and carries literal values.
#ifndef ATTEST_HARNESS_CASE_CASE_H_
#define ATTEST_HARNESS_CASE_CASE_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/problem.h"

namespace attest {

// The input tensors that hold floating-point data. kDout is there where gradients are wanted.
enum class DataTensor : uint8_t { kQ, kK, kV, kBias, kDout };
inline constexpr std::array<DataTensor, 5> kDataTensors = {
    DataTensor::kQ, DataTensor::kK, DataTensor::kV, DataTensor::kBias, DataTensor::kDout};
std::string_view Name(DataTensor tensor);  // "q" "k" "v" "bias" "dout"

// How q and k are drawn, named by the scores they make. Exact families first. The "chosen" ones put
// the wanted score straight into q.k: q = (1, 0, ...), k = (score / scale, 0, ...).
enum class ScoreFamily : uint8_t {
  kZero,           // q = 0: every score 0, weights uniform over the visible keys
  kSmallIntegers,  // q and k in -3..3: exact products
  kNormal,         // approximately standard normal
  kHeavyTailed,    // normal times a power of two from 2^-6 to 2^6
  kTied,           // chosen: two score values only
  kSpread,         // chosen: uniform in +-30
  kDominant,       // chosen: one key at +40, the others at -40 or below: the rest underflow
  kAscending,      // chosen: rises with the key: a rescale at every step
  kDescending,     // chosen: falls with the key
  kVeryNegative,   // chosen: below every likely sentinel the dtype can hold (-6e4 .. -7e4)
  kHuge,           // chosen: +-5e4 (+-1e38 for f32, f64 and bf16, in one row of three)
  kDenormal,       // q and k subnormal or nearly so
  kSignedZeros,    // q and k of +0 and -0
};
inline constexpr int kScoreFamilyCount = 13;

enum class ValueFamily : uint8_t {
  kOnes,
  kConstant,       // one value per (batch, kv head, column)
  kOneHot,         // v[j][d] = 1 where d == j % value_dim: reads off the weights
  kLabels,         // 10 * batch + kv_head
  kSmallIntegers,  // -3..3
  kNormal,
  kHeavyTailed,
  kCancelling,  // +c and -c alternating with the key
  kDenormal,
  kSignedZeros,
  kLarge,  // up to +-1e6 (+-6e4 for f16): what clamps its output to another type's range shows
};
inline constexpr int kValueFamilyCount = 11;

enum class BiasFamily : uint8_t {
  kZero,
  kSmallIntegers,  // -3..3
  kNormal,
  kWide,         // uniform in +-60
  kRowConstant,  // one value per row, up to -1e4: shifts the row, hides nothing
  // What models take for -inf, -1e4 down to the type's lowest number: one value a case, at one key in
  // four and all along one row in eight, 0 elsewhere. It is finite and hides nothing.
  kFiniteMask,
};
inline constexpr int kBiasFamilyCount = 6;

std::string_view Name(ScoreFamily family);  // "zero" "small_integers" ...
std::string_view Name(ValueFamily family);
std::string_view Name(BiasFamily family);
std::string_view Name(ScoreMode mode);  // "raw" "capped" "biased" "weights"
std::optional<ScoreFamily> ParseScoreFamily(std::string_view name);
std::optional<ValueFamily> ParseValueFamily(std::string_view name);
std::optional<BiasFamily> ParseBiasFamily(std::string_view name);
std::optional<ScoreMode> ParseScoreMode(std::string_view name);

// Bumped whenever the same recipe would mean other data.
inline constexpr int kRecipeVersion = 1;

struct Recipe {
  ScoreFamily scores = ScoreFamily::kZero;
  ValueFamily values = ValueFamily::kOnes;
  BiasFamily bias = BiasFamily::kZero;
  uint64_t seed = 0;
  ValueFamily dout = ValueFamily::kOnes;  // by query position where values go by key

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

// One element replaced after the recipe: [batch, head, position, lane] of `tensor`. A bias element
// may not be set to -inf here: that is visibility, and belongs to problem.bias.
struct Override {
  DataTensor tensor = DataTensor::kQ;
  std::array<int64_t, 4> index{0, 0, 0, 0};
  double value = 0;
};

// How a tensor lies in memory during the call.
enum class Layout : uint8_t {
  kBhsd,        // contiguous [batch, heads, len, dim]
  kBshd,        // contiguous [batch, len, heads, dim], seen through permuted strides
  kGapped,      // bhsd with a gap after every row and every head
  kTransposed,  // len innermost: the last dimension has a stride other than 1
  kPackedQkv,   // a part of one tensor [batch, len, q_heads + 2 kv_heads, dim]: bshd with gaps
  kSharedHead,  // every head at the same address (stride 0), and so equal; of k and v only
  kFarHeads,    // bhsd whose heads lie more than 2^31 elements apart: no offset fits 32 bits
  kFarRows,     // bshd whose positions do
};
inline constexpr int kLayoutCount = 8;
constexpr bool IsFar(Layout layout) {
  return layout == Layout::kFarHeads || layout == Layout::kFarRows;
}
std::string_view Name(Layout layout);
std::optional<Layout> ParseLayout(std::string_view name);

// The first call to a cache, which holds no key yet: the present is asked for where it is offered.
enum class FirstCall : uint8_t {
  kNo,
  kPastAbsent,  // and no past tensors are given
  kPastEmpty,   // and they are of no keys
};
inline constexpr int kFirstCallCount = 3;
std::string_view Name(FirstCall first_call);  // "no" "past_absent" "past_empty"
std::optional<FirstCall> ParseFirstCall(std::string_view name);

// How keys and values reach the kernel, beyond strides. It changes nothing of what is computed: the
// same problem with any storage has the same answer. At most one of past, first_call, page_size,
// ring and packed.
struct Storage {
  int64_t past = 0;       // so many first keys come as past keys and values
  int64_t page_size = 0;  // pages of so many keys, scattered by the recipe's seed; 0 = none
  bool ring = false;      // a ring per batch item; where it starts is drawn from the recipe's seed
  // Sequences end to end: needs query_lengths and key_lengths; no mask, bias, documents, block mask
  // or dropout, no weights or scores.
  bool packed = false;
  // With a past alone: the present outputs are not asked for, though the kernel may offer them.
  bool without_present = false;
  FirstCall first_call = FirstCall::kNo;

  friend bool operator==(const Storage&, const Storage&) = default;
};

struct Layouts {
  Layout q = Layout::kBhsd, k = Layout::kBhsd, v = Layout::kBhsd, out = Layout::kBhsd;

  friend bool operator==(const Layouts&, const Layouts&) = default;
};

// Where tensors lie in their guarded slot: ending at the guard page behind, or beginning at the one
// before. A case says which, so that a replay sees the same.
enum class Placement : uint8_t { kEnd, kBegin };

struct Case {
  Problem problem;
  Recipe recipe;
  std::vector<Override> overrides;       // applied last, in order
  std::map<DataTensor, Array> literals;  // replaces the recipe for a tensor; shape must match
  Layouts layouts;
  Storage storage;
  Placement placement = Placement::kEnd;
  std::string origin;  // free text: where the case comes from
};

// Returns nullopt for a case that Materialise can turn into inputs, else one line: field and
// remedy. Includes Validate(problem).
std::optional<std::string> Validate(const Case& c);

// `value` as the tensor can hold it: rounded to the dtype (bias: to BiasDType()); of q, k and v in
// fp8 problems the nearest multiple, by the tensor's scale, of an 8-bit number. Finite values
// beyond the 8-bit range become its largest; infinities that a format lacks become NaN.
double RoundedFor(const Problem& problem, DataTensor tensor, double value);

// The tensors of a valid case, as RoundedFor has them. With the layout kSharedHead every head holds
// what the recipe gives the first. Pure: equal cases give equal inputs
// on every machine (counter-based generator, integer and correctly rounded arithmetic only). An
// element depends on its own coordinates, the recipe and the seed, never on the sizes, so that
// cutting a problem down keeps the values of what remains.
Inputs Materialise(const Case& c);

// A 64-bit hash of the materialised inputs; stored in case files to notice drift of the recipes.
uint64_t HashInputs(const Inputs& inputs);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_CASE_H_
