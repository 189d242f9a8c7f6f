// What lies beyond masks, lengths and diagonals: softcap, ALiBi, sinks, documents, prefixes, block
// masks, dropout, query lengths, 8-bit inputs and storage. Values are those of published models,
// and the edges: zero, far below and far above every score, longer than the sequence.
#include <algorithm>
#include <bit>
#include <cmath>

#include "properties/harness/case/generator_internal.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/seeded.h"

namespace attest {
namespace {

bool IsOn(const std::vector<Flag>& flags, Flag flag) {
  return std::ranges::find(flags, flag) != flags.end();
}

uint16_t DrawSeed(Draw& draw) {
  return static_cast<uint16_t>(draw.Bits() >> 48);
}

// 2^(-8 / heads) for a power of two, by square roots alone, which are correctly rounded everywhere.
double SlopeBase(int64_t heads) {
  double base = 0x1p-8;
  for (; heads > 1; heads /= 2) base = std::sqrt(base);
  return base;
}

void AppendSlopes(double base, int64_t step, int64_t count, std::vector<double>& slopes) {
  double slope = base;
  for (int64_t n = 0; n < count; ++n) {
    slopes.push_back(RoundTo(DType::kF32, slope));
    for (int64_t s = 0; s < step; ++s) slope *= base;
  }
}

// Press, Smith and Lewis, "Train Short, Test Long": 2^(-8 i / n), i = 1..n, for powers of two;
// other numbers of heads take those of the power below, then every second one of the power above.
std::vector<double> PublishedSlopes(int64_t heads) {
  std::vector<double> slopes;
  if (heads == 0) return slopes;
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  AppendSlopes(SlopeBase(power), 1, power, slopes);
  AppendSlopes(SlopeBase(2 * power), 2, heads - power, slopes);
  return slopes;
}

// 2^17 lies above every chosen score but the hugest.
std::vector<double> DrawSinks(Draw& draw, int64_t heads) {
  const std::vector<double> choices = {0.0, 1.0, -1.0, 4.5, 0x1p17, -0x1p17};
  const bool all_alike = draw.Percent(30);
  std::vector<double> sinks(static_cast<size_t>(heads), draw.Pick(choices));
  for (double& sink : sinks) {
    if (!all_alike) sink = draw.Pick(choices);
  }
  return sinks;
}

// The largest is a number in f16, too: a kernel may hold its cap in the tensors' type, as the function
// body of ONNX's Attention does.
double DrawSoftcap(Draw& draw) {
  return draw.Pick<double>({1, 5, 30, 50, 0.0625, 32768});
}

std::vector<int64_t> DrawLengths(Draw& draw, const Problem& p, int64_t most) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < p.batch; ++b) lengths.push_back(DrawLength(draw, most));
  return lengths;
}

// One case in eight has numbers that differ in their upper 32 bits alone.
Documents DrawDocuments(Draw& draw, const Problem& p) {
  Documents documents = SeededDocuments(DrawSeed(draw), p);
  if (!draw.OneIn(8)) return documents;
  for (auto* ids : {&documents.query, &documents.key}) {
    for (int64_t& id : *ids) id = id * (int64_t{1} << 32) + 1;
  }
  return documents;
}

BlockMask DrawBlockMask(Draw& draw, const Problem& p) {
  const auto block = [&](int64_t len) { return draw.Pick<int64_t>({1, 2, 3, 16, len + 1}); };
  BlockMask mask;
  mask.block_q = block(p.q_len);
  mask.block_k = block(p.kv_len);
  const auto tiles = [](int64_t len, int64_t size) { return (len + size - 1) / size; };
  mask.plane.shape = {draw.Percent(50) ? 1 : p.batch, draw.Percent(50) ? 1 : p.q_heads,
                      tiles(p.q_len, mask.block_q), tiles(p.kv_len, mask.block_k)};
  const int64_t eighths = draw.Between(2, 7);
  for (int64_t n = ElementCount(mask.plane.shape); n > 0; --n) {
    mask.plane.bits.push_back(draw.Below(8) < eighths ? 1 : 0);
  }
  return mask;
}

enum class Kind { kPast, kFirstCall, kPages, kRing, kPacked };

std::vector<Kind> OfferedKinds(const Contract& c, const Problem& p) {
  std::vector<Kind> kinds;
  // All keys past leaves a tensor of no new ones.
  const int64_t least_keys = c.Has(Feature::kZeroSizes) ? 1 : 2;
  if (c.Has(Feature::kPast) && p.kv_len >= least_keys) kinds.push_back(Kind::kPast);
  if (!OfferedFirstCalls(c).empty()) kinds.push_back(Kind::kFirstCall);
  if (c.Has(Feature::kPages)) kinds.push_back(Kind::kPages);
  if (c.Has(Feature::kRing)) kinds.push_back(Kind::kRing);
  if (c.Has(Feature::kPacked)) kinds.push_back(Kind::kPacked);
  return kinds;
}

// Unequal lengths, with now and then an item of nothing at all, and one item of full length: what a
// kernel takes for q_len and kv_len is the longest.
void DrawPackedLengths(Draw& draw, Problem& p) {
  p.query_lengths = DrawLengths(draw, p, p.q_len);
  p.key_lengths = DrawLengths(draw, p, p.kv_len);
  if (p.batch == 0) return;
  const auto set = [&](int64_t item, int64_t queries, int64_t keys) {
    (*p.query_lengths)[static_cast<size_t>(item)] = queries;
    (*p.key_lengths)[static_cast<size_t>(item)] = keys;
  };
  if (draw.Percent(40)) set(draw.Below(p.batch), 0, 0);
  set(draw.Below(p.batch), p.q_len, p.kv_len);
}

}  // namespace

int64_t DrawLength(Draw& draw, int64_t most) {
  const int64_t roll = draw.Below(100);
  if (roll < 25) return most;
  if (roll < 40) return std::max<int64_t>(most - 1, 0);
  if (roll < 52) return std::min<int64_t>(1, most);
  if (roll < 62) return 0;
  return draw.Between(0, most);
}

void DrawStorage(Draw& draw, const Contract& contract, std::vector<Flag>& flags, Case& c) {
  Problem& p = c.problem;
  const std::vector<Kind> kinds = OfferedKinds(contract, p);
  if (!IsOn(flags, Flag::kStorage) || kinds.empty()) return;
  switch (draw.Pick(kinds)) {
    case Kind::kPast:
      c.storage.past = draw.Between(1, p.kv_len - (contract.Has(Feature::kZeroSizes) ? 0 : 1));
      c.storage.without_present = contract.Has(Feature::kPresent) && draw.Percent(50) &&
                                  !contract.Excludes(Exclusion::kPastWithoutPresent);
      if (draw.Percent(30))
        p.q_len = std::min<int64_t>(p.q_len, 1);  // decoding is what pasts are for
      break;
    case Kind::kFirstCall:
      c.storage.first_call = draw.Pick(OfferedFirstCalls(contract));
      break;
    case Kind::kPages:
      c.storage.page_size = draw.Pick<int64_t>({1, 2, 3, 4, 5, 8, 16, 32, 64});
      if (contract.Has(Feature::kKeyLengths)) flags.push_back(Flag::kKeyLengths);
      break;
    case Kind::kRing:
      c.storage.ring = true;
      break;
    case Kind::kPacked:
      c.storage.packed = true;
      if (draw.OneIn(4)) p.q_len = std::min<int64_t>(p.q_len, 1);  // a step of decoding
      std::erase_if(flags, [](Flag flag) {
        return flag == Flag::kMask || flag == Flag::kBias || flag == Flag::kDocuments ||
               flag == Flag::kBlockMask || flag == Flag::kDropout || flag == Flag::kQueryLengths ||
               flag == Flag::kKeyLengths;
      });
      DrawPackedLengths(draw, p);
      break;
  }
}

void DrawFeatures(Draw& draw, const Contract& contract, const std::vector<Flag>& flags,
                  Problem& p) {
  const auto on = [&](Flag flag) { return IsOn(flags, flag); };
  if (on(Flag::kQueryLengths)) p.query_lengths = DrawLengths(draw, p, p.q_len);
  if (on(Flag::kPrefix) && p.causal) p.prefix_lengths = DrawLengths(draw, p, p.kv_len);
  if (on(Flag::kDocuments)) p.documents = DrawDocuments(draw, p);
  if (on(Flag::kBlockMask)) p.block_mask = DrawBlockMask(draw, p);
  if (on(Flag::kSoftcap)) p.softcap = DrawSoftcap(draw);
  if (on(Flag::kSinks)) p.sinks = DrawSinks(draw, p.q_heads);
  if (on(Flag::kDropout)) {
    p.dropout = Dropout{draw.Pick<double>({0.0, 0.1, 0.5}), SeededKeep(DrawSeed(draw), p)};
  }
  if (on(Flag::kFp8)) {
    const auto scale = [&] { return draw.Pick<double>({1, 1, 0.5, 2, 0.0625, 0x1.99999ap-4}); };
    const std::vector<DType> formats(contract.fp8.begin(), contract.fp8.end());
    p.fp8 = Fp8{draw.Pick(formats), scale(), scale(), scale()};
  }
}

std::vector<double> DrawAlibi(Draw& draw, const Problem& p) {
  if (draw.Percent(50)) return PublishedSlopes(p.q_heads);
  std::vector<double> slopes;
  for (int64_t h = 0; h < p.q_heads; ++h) {
    slopes.push_back(draw.Pick<double>({0.0, 1.0, 0.5, 0.125, -0.25, 3.0, -1.0}));
  }
  return slopes;
}

}  // namespace attest
