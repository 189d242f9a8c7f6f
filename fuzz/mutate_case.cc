// The steps by which a case becomes another: what people change by hand to provoke a kernel. Sizes
// are changed in the record, where masks and lengths follow them; all else in the case.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "fuzz/mutator.h"
#include "fuzz/resize.h"
#include "impl/attention/visibility.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/seeded.h"
#include "properties/harness/case/slice.h"
#include "properties/harness/case/storage.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// --- Sizes ---

// Small sizes, of which thousands can be tried, and at times one as large as those of models.
struct AxisRange {
  Axis axis;
  int64_t most, rarely;
};
constexpr AxisRange kAxes[] = {{Axis::kBatch, 8, 8},      {Axis::kKvHeads, 8, 8},
                               {Axis::kQLen, 40, 300},    {Axis::kKvLen, 255, 1100},
                               {Axis::kHeadDim, 40, 257}, {Axis::kValueDim, 40, 257}};
// Multiply-adds of a case with a large size: the other sizes make room for it.
constexpr int64_t kRoomyWork = int64_t{1} << 13;

void MakeRoom(Problem& sizes, Axis kept) {
  const auto work = [&] {
    return sizes.batch * sizes.q_heads * sizes.q_len * sizes.kv_len *
           (sizes.head_dim + sizes.value_dim);
  };
  while (work() > kRoomyWork) {
    const AxisRange* largest = nullptr;
    for (const AxisRange& range : kAxes) {
      if (range.axis == kept) continue;
      if (largest == nullptr || SizeOf(sizes, range.axis) > SizeOf(sizes, largest->axis))
        largest = &range;
    }
    const int64_t ratio = std::max<int64_t>(sizes.heads_per_kv_head(), 1);
    int64_t& size = SizeOf(sizes, largest->axis);
    if (size <= 1) return;
    size /= 2;
    sizes.q_heads = sizes.kv_heads * ratio;
  }
}

void Resize(Case& c, const Problem& sizes) {
  if (auto resized = Resized(c, sizes)) c = std::move(*resized);
}

void SizeToSeam(Case& c, Draw& draw) {
  static const std::vector<int64_t> kSeams = {1, 2, 3, 4, 8, 16, 24, 32, 40, 64, 96, 128, 254};
  static const std::vector<int64_t> kLargeSeams = {48, 64, 72, 80, 96, 128, 192, 256, 512, 1024};
  Problem sizes = c.problem;
  const auto& [axis, most, rarely] = kAxes[draw.Below(std::size(kAxes))];
  const bool is_large = rarely > most && draw.OneIn(8);
  const int64_t ratio = draw.OneIn(3) ? draw.Between(1, 4) : c.problem.heads_per_kv_head();
  int64_t& size = SizeOf(sizes, axis);
  const int64_t wanted =
      (draw.OneIn(4) ? size : draw.Pick(is_large ? kLargeSeams : kSeams)) + draw.Between(-1, 1);
  size = std::clamp<int64_t>(wanted, 0, is_large ? rarely : std::max(most, size));
  sizes.q_heads = sizes.kv_heads * ratio;
  if (is_large) MakeRoom(sizes, axis);
  Resize(c, sizes);
}

void MakeLengthsEqual(Case& c, Draw& draw) {
  Problem sizes = c.problem;
  if (draw.OneIn(4)) {
    sizes.value_dim = sizes.head_dim;
  } else if (draw.Percent(50)) {
    sizes.q_len = std::min<int64_t>(sizes.kv_len, 40);
    sizes.kv_len = sizes.q_len;
  } else {
    sizes.kv_len = sizes.q_len + draw.Between(-1, 1);
  }
  Resize(c, sizes);
}

// --- Masks ---

// Planes longer than the record's pattern repeat it (bytes.h): so do changes of them.
constexpr size_t kMaskPeriod = 192, kBiasPeriod = 128;

BitPlane NewPlane(const Problem& p, Draw& draw) {
  BitPlane plane;
  plane.shape = p.WeightsShape();
  for (size_t axis = 0; axis < 3; ++axis) {
    if (draw.Percent(40)) plane.shape[axis] = 1;
  }
  const int least = plane.shape[0] != 1 ? 4 : plane.shape[1] != 1 ? 3 : 2;
  plane.rank = static_cast<int>(draw.Between(least, 4));
  plane.bits.assign(static_cast<size_t>(ElementCount(plane.shape)), 1);
  return plane;
}

void ChangeBits(BitPlane& plane, size_t period, Draw& draw) {
  const auto columns = static_cast<size_t>(plane.shape[3]);
  const auto at = static_cast<size_t>(draw.Below(static_cast<int64_t>(plane.bits.size())));
  const int64_t kind = draw.Below(5);
  for (size_t n = 0; n < plane.bits.size(); ++n) {
    uint8_t& bit = plane.bits[n];
    if (kind == 0 && n % period == at % period) bit ^= 1;   // one bit
    if (kind == 1 && n / columns == at / columns) bit = 0;  // a row emptied
    if (kind == 2 && n / columns == at / columns) bit ^= 1;
    if (kind == 3 && n % columns == at % columns) bit ^= 1;  // a key hidden or shown
    if (kind == 4) bit ^= 1;
  }
}

void ChangePlane(Case& c, Draw& draw) {
  Problem& p = c.problem;
  const bool is_mask = draw.Percent(60);
  std::optional<BitPlane>& plane = is_mask ? p.mask : p.bias;
  if (!plane) plane = NewPlane(p, draw);
  if (!plane->bits.empty()) ChangeBits(*plane, is_mask ? kMaskPeriod : kBiasPeriod, draw);
}

void HideOneRow(BitPlane& plane, Draw& draw) {
  const auto columns = static_cast<size_t>(plane.shape[3]);
  if (plane.bits.empty()) return;
  const auto rows = static_cast<int64_t>(plane.bits.size() / columns);
  const auto row = draw.OneIn(3) ? draw.Below(rows) : draw.OneIn(2) ? 0 : rows - 1;
  std::fill_n(plane.bits.begin() + row * static_cast<int64_t>(columns), columns, uint8_t{0});
}

void EmptyARow(Case& c, Draw& draw) {
  Problem& p = c.problem;
  if (p.batch == 0) return;
  const auto item = static_cast<size_t>(draw.Below(p.batch));
  switch (draw.Below(4)) {
    case 0:
      if (!p.mask) p.mask = NewPlane(p, draw);
      return HideOneRow(*p.mask, draw);
    case 1:
      if (!p.bias) p.bias = NewPlane(p, draw);
      return HideOneRow(*p.bias, draw);
    case 2:
      if (!p.key_lengths) p.key_lengths.emplace(p.batch, p.kv_len);
      (*p.key_lengths)[item] = 0;
      return;
    default:
      p.causal = true;
      p.diagonal_offset.resize(static_cast<size_t>(p.batch), 0);
      p.diagonal_offset[item] = -draw.Between(1, std::max<int64_t>(p.q_len, 1));
  }
}

// --- Lengths and the diagonal ---

std::optional<std::vector<int64_t>>& AnyLengths(Problem& p, Draw& draw, int64_t* most) {
  const int64_t which = draw.Below(4);
  *most = which == 3 ? p.q_len : p.kv_len;
  return which == 3 ? p.query_lengths : which == 2 ? p.prefix_lengths : p.key_lengths;
}

void ChangeLengths(Case& c, Draw& draw) {
  Problem& p = c.problem;
  if (p.batch == 0) return;
  int64_t most = 0;
  auto& lengths = AnyLengths(p, draw, &most);
  if (!lengths) lengths.emplace(p.batch, most);
  const auto item = [&] { return static_cast<size_t>(draw.Below(p.batch)); };
  const int64_t copied = (*lengths)[item()];
  const int64_t values[] = {
      copied, 0, 1, most, std::max<int64_t>(most - 1, 0), draw.Between(0, most)};
  (*lengths)[item()] = std::min(values[draw.Below(std::size(values))], most);
}

void MoveDiagonal(Case& c, Draw& draw) {
  Problem& p = c.problem;
  static const std::vector<Alignment> kAlignments = {Alignment::kTopLeft, Alignment::kBottomRight,
                                                     Alignment::kKeyLength};
  if (draw.Percent(60)) {
    p.diagonal_offset = OffsetsFor(draw.Pick(kAlignments), p);
  } else if (p.batch > 0) {
    p.diagonal_offset.resize(static_cast<size_t>(p.batch), 0);
    const auto item = static_cast<size_t>(draw.Below(p.batch));
    p.diagonal_offset[item] = draw.Between(-p.q_len, p.kv_len);
  }
}

void ChangeWindow(Case& c, Draw& draw) {
  Window& window = c.problem.window;
  std::optional<int64_t>& side = draw.Percent(60) ? window.left : window.right;
  if (side && draw.OneIn(3)) {
    side.reset();
  } else if (side && draw.Percent(50)) {
    side = std::max<int64_t>(*side + draw.Between(-1, 1), 0);
  } else {
    side = draw.Between(0, c.problem.kv_len);
  }
}

// --- Data ---

void ChangeFamily(Case& c, Draw& draw) {
  Recipe& recipe = c.recipe;
  // Families that came later have no byte: they are refused by EncodeCase.
  switch (draw.Below(3)) {
    case 0:
      recipe.scores = static_cast<ScoreFamily>(draw.Below(kScoreFamilyCount));
      return;
    case 1:
      recipe.values = static_cast<ValueFamily>(draw.Below(kValueFamilyCount));
      return;
    default:
      recipe.bias = static_cast<BiasFamily>(draw.Below(kBiasFamilyCount));
  }
}

void ChangeSeed(Case& c, Draw& draw) {
  c.recipe.seed = draw.Percent(50) ? c.recipe.seed + 1 : draw.Bits();
}

// A key that some row does not see.
std::optional<std::pair<Row, int64_t>> FindHidden(const Problem& p, Draw& draw) {
  constexpr int kTries = 16;
  if (p.batch * p.q_heads * p.q_len * p.kv_len == 0) return std::nullopt;
  for (int n = 0; n < kTries; ++n) {
    const Row row{draw.Below(p.batch), draw.Below(p.q_heads), draw.Below(p.q_len)};
    const int64_t key = draw.Below(p.kv_len);
    if (!Visible(p, row, key)) return std::pair{row, key};
  }
  return std::nullopt;
}

void PoisonHidden(Case& c, Draw& draw) {
  static const std::vector<double> kPoison = {kNan, kInf, -kInf, 6e4, -6e4, 1e38, -1e38, 0.0};
  constexpr size_t kMostOverrides = 2;  // the record's slots
  const auto hidden = FindHidden(c.problem, draw);
  if (!hidden) return;
  const auto& [row, key] = *hidden;
  Override o;
  o.tensor = draw.Percent(50) ? DataTensor::kK : DataTensor::kV;
  const int64_t dim = o.tensor == DataTensor::kK ? c.problem.head_dim : c.problem.value_dim;
  if (dim == 0) return;
  o.index = {row.batch, row.head / c.problem.heads_per_kv_head(), key, draw.Below(dim)};
  o.value = draw.Pick(kPoison);
  if (std::isfinite(o.value)) o.value = RoundedFor(c.problem, o.tensor, o.value);
  if (c.overrides.size() >= kMostOverrides) c.overrides.erase(c.overrides.begin());
  c.overrides.push_back(o);
}

// --- Options ---

std::vector<double> Repeated(const Problem& p, double value) {
  return std::vector<double>(static_cast<size_t>(p.q_heads), value);
}

template <typename T>
void Toggle(std::optional<T>& option, T value) {
  if (option) {
    option.reset();
  } else {
    option = std::move(value);
  }
}

BlockMask NewBlocks(const Problem& p, Draw& draw) {
  BlockMask mask;
  mask.block_q = draw.Between(1, 4);
  mask.block_k = draw.Between(1, 8);
  mask.plane.shape = {1, draw.Percent(50) ? p.q_heads : 1,
                      (p.q_len + mask.block_q - 1) / mask.block_q,
                      (p.kv_len + mask.block_k - 1) / mask.block_k};
  mask.plane.bits.assign(static_cast<size_t>(ElementCount(mask.plane.shape)), 1);
  for (size_t n = 0; n < mask.plane.bits.size(); n += 64) mask.plane.bits[n] = 0;
  return mask;
}

// Features of how scores come about, and outputs.
void ToggleScoring(Case& c, Draw& draw) {
  Problem& p = c.problem;
  const auto seed = static_cast<uint16_t>(draw.Below(256));  // small ones are found quickly
  switch (draw.Below(8)) {
    case 0:
      p.want_lse = !p.want_lse;
      return;
    case 1:
      p.want_weights = !p.want_weights;
      return;
    case 2:
      return Toggle(p.want_scores, static_cast<ScoreMode>(draw.Below(4)));
    case 3:
      p.softcap = p.softcap > 0 ? 0 : 2.5;
      return;
    case 4:
      return Toggle(p.alibi_slopes, Repeated(p, 0.5));
    case 5:
      return Toggle(p.sinks, Repeated(p, 0.25));
    case 6:
      return Toggle(p.dropout, Dropout{0.5, SeededKeep(seed, p)});
    default:
      return Toggle(p.fp8, Fp8{draw.Percent(50) ? DType::kE4M3 : DType::kE5M2, 1, 1, 1});
  }
}

// Features that hide.
void ToggleHiding(Case& c, Draw& draw) {
  Problem& p = c.problem;
  const auto seed = static_cast<uint16_t>(draw.Below(256));  // small ones are found quickly
  switch (draw.Below(6)) {
    case 0:
      p.causal = !p.causal;
      return;
    case 1:
      return Toggle(p.mask, NewPlane(p, draw));
    case 2:
      Toggle(p.bias, NewPlane(p, draw));
      std::erase_if(c.overrides, [](const Override& o) { return o.tensor == DataTensor::kBias; });
      return;
    case 3:
      return Toggle(p.documents, SeededDocuments(seed, p));
    case 4:
      return Toggle(p.block_mask, NewBlocks(p, draw));
    default:
      return Toggle(p.key_lengths, std::vector<int64_t>(static_cast<size_t>(p.batch), p.kv_len));
  }
}

void GoToExtremes(Case& c, Draw& draw) {
  Problem& p = c.problem;
  static const std::vector<double> kScales = {0, -1, 1, 0.125, 16, 4096, 0x1p-20, 1e30};
  static const std::vector<double> kCaps = {0x1p-20, 0.5, 30, 1e5, 0x1p20};
  static const std::vector<double> kSinks = {-kInf, -1e30, -100, 0, 100, 65504};
  static const std::vector<double> kSlopes = {0, 0.0625, 1, 1024, -1};
  switch (draw.Below(5)) {
    case 0:
      p.scale = draw.Pick(kScales);
      return;
    case 1:
      p.scale.reset();
      return;
    case 2:
      p.softcap = draw.Pick(kCaps);
      return;
    case 3:
      p.sinks = Repeated(p, draw.Pick(kSinks));
      return;
    default:
      p.alibi_slopes = Repeated(p, draw.Pick(kSlopes));
  }
}

void ChangeType(Case& c, Draw& draw) {
  static const std::vector<DType> kTypes = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  c.problem.dtype = draw.Pick(kTypes);
}

// --- Memory ---

void ChangeLayout(Case& c, Draw& draw) {
  Layout* const tensors[] = {&c.layouts.q, &c.layouts.k, &c.layouts.v, &c.layouts.out};
  if (draw.OneIn(4)) {
    c.placement = c.placement == Placement::kEnd ? Placement::kBegin : Placement::kEnd;
    return;
  }
  const auto layout = static_cast<Layout>(draw.Below(kLayoutCount));
  // Each far layout costs a new mapping of the arena.
  if (!IsFar(layout) || draw.OneIn(8)) *tensors[draw.Below(4)] = layout;
}

void ChangeStorage(Case& c, Draw& draw) {
  c.storage = {};
  switch (draw.Below(6)) {
    case 0:
      c.storage.past = draw.Between(0, c.problem.kv_len);
      return;
    case 1:
      c.storage.page_size = draw.Pick(std::vector<int64_t>{1, 2, 3, 16});
      return;
    case 2:
      c.storage.ring = true;
      return;
    case 3:
      c.storage.packed = true;
      return;
    case 4:
      c.storage.first_call = draw.Percent(50) ? FirstCall::kPastAbsent : FirstCall::kPastEmpty;
      return;
    default:
      return;
  }
}

using Step = void (*)(Case&, Draw&);
constexpr Step kSteps[] = {SizeToSeam,   SizeToSeam,   MakeLengthsEqual, EmptyARow,
                           ChangePlane,  ChangePlane,  ChangeLengths,    ChangeLengths,
                           MoveDiagonal, ChangeWindow, ChangeFamily,     ChangeFamily,
                           ChangeSeed,   PoisonHidden, ToggleScoring,    ToggleHiding,
                           GoToExtremes, ChangeType,   ChangeLayout,     ChangeStorage};

}  // namespace

void MutateCase(Case& c, Draw& draw) {
  Case changed = c;
  kSteps[draw.Below(std::size(kSteps))](changed, draw);
  MendStorage(changed);
  if (!Validate(changed)) c = std::move(changed);
}

}  // namespace attest
