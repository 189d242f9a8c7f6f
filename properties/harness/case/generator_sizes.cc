// Sizes: seams of tiles and vectors first, small cases mostly, all within a budget of work.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "properties/harness/case/generator_internal.h"

namespace attest {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 20;

// One, two, three, every power of two and its neighbours, and head dimensions of real models.
constexpr std::array<int64_t, 35> kSeams = {
    1,  2,  3,  4,  5,   7,   8,   9,   15,  16,  17,  24,  31,  32,  33,   48,   63,  64,
    65, 72, 80, 96, 127, 128, 129, 160, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025};

int64_t Limit(int64_t limit) {
  return limit > 0 ? limit : kNoLimit;
}

// A seam of at most `cap` mostly, else any size from 1.
int64_t DrawSeam(Draw& draw, int64_t cap) {
  if (cap <= 1) return 1;
  if (draw.Percent(30)) return draw.Between(1, cap);
  const auto end = std::ranges::upper_bound(kSeams, cap);
  return kSeams[static_cast<size_t>(draw.Below(end - kSeams.begin()))];
}

int64_t DrawMultiple(Draw& draw, int64_t cap, int64_t multiple) {
  if (multiple <= 1) return DrawSeam(draw, cap);
  return multiple * DrawSeam(draw, std::max<int64_t>(cap / multiple, 1));
}

enum class Style { kOrdinary, kLong, kWide };

struct Caps {
  Style style = Style::kOrdinary;
  int64_t batch, kv_heads, q_heads, q_len, kv_len, head_dim;
  int64_t work = 0;
};

// How much work an ordinary case may be: most are tiny, since thousands a second find more than a
// few big ones.
int64_t DrawBudget(Draw& draw, int size) {
  const int64_t roll = draw.Below(100);
  const int64_t budget = roll < 30 ? 4000 : roll < 65 ? 30000 : roll < 90 ? 90000 : 200000;
  return std::max<int64_t>(budget * (size + 10) / 110, 500);
}

Style DrawStyle(Draw& draw, int size) {
  const int64_t roll = draw.Below(64);
  if (size < 10 || roll > 2) return Style::kOrdinary;
  return roll < 2 ? Style::kLong : Style::kWide;
}

Caps DrawCaps(Draw& draw, int size, const Contract& contract, const GeneratorOptions& options) {
  const auto scaled = [&](int64_t most) { return std::max<int64_t>(most * size / 100, 3); };
  Caps caps{DrawStyle(draw, size), 4, 3, 6, 0, 0, 0, 0};
  caps.work = DrawBudget(draw, size);
  caps.q_len = caps.kv_len = std::min(scaled(options.max_len), options.max_len);
  caps.head_dim = std::min(scaled(options.max_dim), options.max_dim);
  if (caps.style != Style::kOrdinary) {
    caps.batch = caps.kv_heads = caps.q_heads = 2;
    caps.q_len = caps.kv_len = 3;
    caps.head_dim = 4;
    caps.work = 400000;  // long or wide: everything else is small, so this is rarely met
  }
  if (caps.style == Style::kLong) caps.kv_len = options.max_long_len;
  if (caps.style == Style::kWide) caps.head_dim = std::min<int64_t>(257, options.max_long_len);
  const Limits& limits = contract.limits;
  caps.batch = std::min(caps.batch, Limit(limits.max_batch));
  caps.q_heads = std::min(caps.q_heads, Limit(limits.max_heads));
  caps.kv_heads = std::min(caps.kv_heads, caps.q_heads);
  caps.q_len = std::max<int64_t>(std::min(caps.q_len, Limit(limits.max_q_len)), 1);
  caps.kv_len = std::max<int64_t>(std::min(caps.kv_len, Limit(limits.max_kv_len)), 1);
  caps.head_dim = std::max<int64_t>(std::min(caps.head_dim, Limit(limits.max_head_dim)), 1);
  return caps;
}

void DrawHeads(Draw& draw, const Contract& contract, const Caps& caps, Problem& p) {
  const int64_t roll = draw.Below(100);
  p.kv_heads = std::min<int64_t>(roll < 40 ? 1 : roll < 80 ? 2 : 3, caps.kv_heads);
  int64_t ratio = 1;
  int64_t most = caps.q_heads / p.kv_heads;
  if (contract.Has(Feature::kGqa) && draw.Percent(45)) {
    ratio = draw.Between(2, 3);
    // Long and wide cases have no room for a group.
    if (caps.style == Style::kOrdinary && draw.OneIn(12)) {
      ratio = draw.Between(4, 8);
      most = Limit(contract.limits.max_heads) / p.kv_heads;
    }
  }
  ratio = std::min(ratio, std::max<int64_t>(most, 1));
  p.q_heads = p.kv_heads * ratio;
}

int64_t Work(const Problem& p) {
  return p.q_heads * p.batch * p.q_len * p.kv_len * (p.head_dim + p.value_dim);
}

int64_t NextSeamBelow(int64_t size) {
  const auto at = std::ranges::lower_bound(kSeams, size);
  return at == kSeams.begin() ? 1 : *(at - 1);
}

// Lowers one size to the next seam below; false when it is as small as it goes.
bool LowerOne(Draw& draw, int64_t multiple, bool same_dims, Problem& p) {
  const std::array<int64_t*, 6> sizes = {&p.q_len,     &p.kv_len, &p.head_dim,
                                         &p.value_dim, &p.batch,  &p.kv_heads};
  const size_t which = static_cast<size_t>(draw.Below(6));
  int64_t& target = *sizes[which];
  const bool is_dim = which == 2 || which == 3;
  const int64_t unit = is_dim ? multiple : 1;
  if (target <= unit) return false;
  const int64_t ratio = p.heads_per_kv_head();
  target = unit * NextSeamBelow(target / unit);
  if (is_dim && same_dims) p.head_dim = p.value_dim = target;
  p.q_heads = p.kv_heads * ratio;
  return true;
}

void FitBudget(Draw& draw, int64_t budget, int64_t multiple, bool same_dims, Problem& p) {
  // Each success lowers a size, so a few hundred tries end at the floor at the latest.
  for (int tries = 0; tries < 1000 && Work(p) > budget; ++tries) {
    LowerOne(draw, multiple, same_dims, p);
  }
}

void DrawZeroSizes(Draw& draw, bool same_dims, Problem& p) {
  const int64_t zeros = draw.OneIn(6) ? 2 : 1;
  for (int64_t n = 0; n < zeros; ++n) {
    switch (draw.Below(6)) {
      case 0:
        p.batch = 0;
        break;
      case 1:
        p.q_heads = p.kv_heads = 0;
        break;
      case 2:
        p.q_len = 0;
        break;
      case 3:
        p.kv_len = 0;
        break;
      case 4:
        p.head_dim = 0;
        break;
      default:
        p.value_dim = 0;
    }
  }
  if (same_dims) p.head_dim = p.value_dim = std::min(p.head_dim, p.value_dim);
}

// Sizes of real models, where kernels choose other tiles, splits and code paths: one group of sizes
// is large and the rest small, or a case would cost more than a thousand ordinary ones.
enum class Model { kTiles, kHeads, kBatch, kLong, kWide };
constexpr int kModelCount = 5;

void DrawModel(Draw& draw, const GeneratorOptions& options, Problem& p) {
  const auto pick = [&](std::initializer_list<int64_t> choices) {
    return draw.Pick(std::vector(choices));
  };
  const auto heads = [&](int64_t kv_heads, int64_t ratio) {
    p.kv_heads = kv_heads;
    p.q_heads = kv_heads * ratio;
  };
  p.batch = draw.Between(1, 2);
  p.q_len = DrawSeam(draw, 5);
  p.kv_len = DrawSeam(draw, 33);
  p.head_dim = DrawSeam(draw, 16);
  heads(draw.Between(1, 2), draw.Between(1, 2));
  switch (static_cast<Model>(draw.Below(kModelCount))) {
    case Model::kTiles:  // the second tile of queries and of keys, at the head_dim of a model
      p.batch = 1;
      heads(1, draw.OneIn(3) ? 2 : 1);
      p.q_len = pick({63, 64, 65, 127, 128, 129, 130});
      p.kv_len = pick({63, 64, 65, 127, 128, 129, 191, 257});
      p.head_dim = pick({32, 64, 80, 96, 128});
      break;
    case Model::kHeads:
      heads(pick({1, 2, 3, 4, 8}), draw.Between(1, 16));
      break;
    case Model::kBatch:
      p.batch = draw.Between(5, 17);
      break;
    case Model::kLong:
      p.q_len = draw.Between(1, 4);
      p.kv_len = draw.Between(std::max<int64_t>(options.max_long_len / 4, 1), options.max_long_len);
      break;
    case Model::kWide:
      p.head_dim = pick({64, 96, 127, 128, 129, 160, 192, 255, 256, 257, 320, 512});
      break;
  }
  p.value_dim = draw.Percent(70) ? p.head_dim : DrawSeam(draw, 257);
}

void ClampToContract(const Contract& contract, int64_t multiple, Problem& p) {
  const Limits& limits = contract.limits;
  p.batch = std::min(p.batch, Limit(limits.max_batch));
  p.q_len = std::min(p.q_len, Limit(limits.max_q_len));
  p.kv_len = std::min(p.kv_len, Limit(limits.max_kv_len));
  const int64_t largest = Limit(limits.max_head_dim) / multiple;
  for (int64_t* dim : {&p.head_dim, &p.value_dim}) {
    *dim = multiple * std::clamp<int64_t>(*dim / multiple, 1, std::max<int64_t>(largest, 1));
  }
  if (!contract.Has(Feature::kValueDim)) p.value_dim = p.head_dim;
  if (!contract.Has(Feature::kGqa)) p.q_heads = p.kv_heads;
  if (p.q_heads > Limit(limits.max_heads)) p.q_heads = p.kv_heads = 1;
}

void DrawModelSizes(Draw& draw, const Contract& contract, const GeneratorOptions& options,
                    int64_t multiple, Problem& p) {
  DrawModel(draw, options, p);
  ClampToContract(contract, multiple, p);
  // 2.2 million: 129 queries and keys at head_dim 64, some ten milliseconds.
  FitBudget(draw, 2200000, multiple, p.head_dim == p.value_dim, p);
}

// Kernels cut queries and keys into tiles of one of these, and hold a path of their own for a whole
// tile of queries, a last tile that is not full, a single query.
constexpr std::array<int64_t, 9> kTiles = {16, 32, 48, 64, 80, 96, 128, 192, 256};

// Some tiles long: exactly, a row less or more, or anywhere within the next tile.
int64_t DrawTiles(Draw& draw) {
  const int64_t tile = kTiles[static_cast<size_t>(draw.Below(kTiles.size()))];
  if (draw.Percent(80)) return tile + draw.Between(-1, 1);
  return tile + draw.Between(2, 31);
}

// Pairs of scores in a seam case, heads and batch items apart: 129 queries and as many keys fit.
constexpr int64_t kMostPairs = 20000;

// The edge of a tile in queries, in keys or in both; whatever else a case has is as small as it goes, so
// that a property that runs it five times takes no longer than an ordinary one.
void DrawSeamSizes(Draw& draw, const Contract& contract, int64_t multiple, Problem& p) {
  const int64_t roll = draw.Below(100);
  p.q_len = roll < 40 ? draw.Between(1, 5) : DrawTiles(draw);
  p.kv_len = roll >= 40 && roll < 80 ? draw.Between(1, 9) : DrawTiles(draw);
  if (p.q_len * p.kv_len > kMostPairs) p.kv_len = draw.Between(1, kMostPairs / p.q_len);
  const bool is_large = p.q_len * p.kv_len > 2000;
  p.batch = is_large || draw.Percent(70) ? 1 : 2;
  p.kv_heads = is_large || draw.Percent(70) ? 1 : 2;
  p.q_heads = p.kv_heads * (!is_large && draw.OneIn(4) ? 2 : 1);
  // 16 and more: lanes in whole vectors, without which a kernel may not take its tiled path.
  const auto draw_dim = [&] {
    return draw.Percent(70) ? draw.Between(1, 4) : draw.Pick<int64_t>({8, 16, 16, 32, 64});
  };
  p.head_dim = is_large ? draw.Between(1, 4) : draw_dim();
  p.value_dim = draw.Percent(50) ? p.head_dim : draw_dim();
  if (!contract.Has(Feature::kValueDim)) p.head_dim = draw_dim();
  ClampToContract(contract, multiple, p);
  FitBudget(draw, 400000 * multiple, multiple, p.head_dim == p.value_dim, p);
}

}  // namespace

SizeClass DrawSizes(Draw& draw, int size, const Contract& contract, const GeneratorOptions& options,
                    Problem& p) {
  const int64_t multiple = std::max<int64_t>(contract.limits.head_dim_multiple, 1);
  const int64_t chosen = size >= 10 ? draw.Below(options.ordinary_per_model) : -1;
  if (chosen == 0) {
    DrawModelSizes(draw, contract, options, multiple, p);
    return SizeClass::kModel;
  }
  if (chosen > 0 && chosen <= options.seams_per_model) {
    DrawSeamSizes(draw, contract, multiple, p);
    return SizeClass::kSeam;
  }
  const Caps caps = DrawCaps(draw, size, contract, options);
  const bool same_dims = !contract.Has(Feature::kValueDim) || draw.Percent(50);
  const int64_t roll = draw.Below(100);
  p.batch = std::min<int64_t>(roll < 25 ? 1 : roll < 75 ? 2 : roll < 93 ? 3 : 4, caps.batch);
  DrawHeads(draw, contract, caps, p);
  p.q_len = DrawSeam(draw, caps.q_len);
  p.kv_len = draw.Percent(25) ? std::min(p.q_len, caps.kv_len) : DrawSeam(draw, caps.kv_len);
  if (caps.style == Style::kLong) p.kv_len = std::max(p.kv_len, (caps.kv_len + 1) / 2);
  p.head_dim = DrawMultiple(draw, caps.head_dim, multiple);
  p.value_dim = same_dims ? p.head_dim : DrawMultiple(draw, caps.head_dim, multiple);
  FitBudget(draw, caps.work, multiple, same_dims, p);
  // Where every head dimension must be a multiple, 0 is not what the kernel had in mind.
  const bool zero_sizes = contract.Has(Feature::kZeroSizes) && multiple == 1;
  if (zero_sizes && draw.OneIn(16)) DrawZeroSizes(draw, same_dims, p);
  return SizeClass::kOrdinary;
}

}  // namespace attest
