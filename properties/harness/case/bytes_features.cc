// Version 2's fields for what version 1 does not know. Where thousands of numbers would be needed a
// seed stands for them (seeded.h); numbers of heads repeat after eight.
#include "properties/harness/case/bytes_features.h"

#include <bit>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/seeded.h"
#include "properties/harness/case/storage.h"

namespace attest {
namespace {

// Never moved.
enum Place : size_t {
  kAtLayoutLow = 14,      // version 1's layouts: the two low bits of each
  kAtFeatures = 60,       // 16 flags
  kAtLayoutHigh = 62,     // a third bit for each layout, then two bits of score mode
  kAtStorageKind = 63,    // see StorageKind
  kAtStorageAmount = 64,  // past, or the page size less one
  kAtBlocks = 65,         // broadcast extents; rows and keys of a tile, less one
  kAtQueryLengths = 68,   // 8 bytes: rows that are missing from q_len
  kAtPrefixLengths = 76,  // 8 bytes
  kAtSoftcap = 84,        // a double
  kAtProbability = 92,    // a double
  kAtFp8Scales = 100,     // 3 floats
  kAtSlopes = 112,        // 8 floats
  kAtSinks = 144,         // 8 floats
  kAtDocuments = 176,     // a 16-bit seed
  kAtKeep = 178,          // a 16-bit seed
  kAtHiddenBlocks = 180,  // 8 bytes
};
constexpr HiddenBits kHiddenBlocks = {kAtHiddenBlocks, 64};
constexpr size_t kHeadSlots = 8;

enum Flags : unsigned {
  kSoftcapFlag = 1u << 0,
  kSlopesFlag = 1u << 1,
  kSinksFlag = 1u << 2,
  kDocumentsFlag = 1u << 3,
  kPrefixFlag = 1u << 4,
  kBlocksFlag = 1u << 5,
  kDropoutFlag = 1u << 6,
  kQueryLengthsFlag = 1u << 7,
  kFp8Flag = 1u << 8,
  kE5M2Flag = 1u << 9,
  kBiasF32Flag = 1u << 10,
  kScoresFlag = 1u << 11,
  kWithoutPresentFlag = 1u << 12,
};

enum StorageKind : uint8_t { kPlain, kPast, kPages, kRing, kPacked, kPastAbsent, kPastEmpty };

double LoadFloat(const CaseRecord& r, size_t at) {
  return std::bit_cast<float>(static_cast<uint32_t>(LoadField(r, at, 4)));
}

// False where the value is no float.
bool StoreFloat(CaseRecord& r, size_t at, double value) {
  if (RoundTo(DType::kF32, value) != value) return false;
  StoreField(r, at, 4, std::bit_cast<uint32_t>(static_cast<float>(value)));
  return true;
}

// --- Numbers of heads ---

std::vector<double> DecodePerHead(const CaseRecord& r, const Problem& p, size_t at) {
  std::vector<double> values;
  for (int64_t h = 0; h < p.q_heads; ++h) {
    const double value = LoadFloat(r, at + 4 * (static_cast<size_t>(h) % kHeadSlots));
    values.push_back(std::isfinite(value) ? value : 0.0);
  }
  return values;
}

Refusal EncodePerHead(const char* name, const std::optional<std::vector<double>>& values, size_t at,
                      CaseRecord& r) {
  for (size_t h = 0; values && h < values->size(); ++h) {
    const double value = (*values)[h];
    if (h < kHeadSlots ? !StoreFloat(r, at + 4 * h, value)
                       : std::bit_cast<uint64_t>(value) !=
                             std::bit_cast<uint64_t>((*values)[h % kHeadSlots])) {
      return fmt::format("{} of {} heads do not fit in {} floats", name, values->size(),
                         kHeadSlots);
    }
  }
  return std::nullopt;
}

// --- Lengths ---

void DecodeLengths(const CaseRecord& r, unsigned flags, Problem& p) {
  const auto batch = static_cast<size_t>(p.batch);
  if ((flags & kQueryLengthsFlag) != 0) p.query_lengths.emplace();
  if ((flags & kPrefixFlag) != 0) p.prefix_lengths.emplace();
  for (size_t b = 0; b < batch; ++b) {
    if (p.query_lengths) {
      p.query_lengths->push_back(p.q_len - r[kAtQueryLengths + b] % (p.q_len + 1));
    }
    if (p.prefix_lengths) p.prefix_lengths->push_back(r[kAtPrefixLengths + b] % (p.kv_len + 1));
  }
}

Refusal EncodeLengths(const Problem& p, CaseRecord& r) {
  for (size_t b = 0; b < static_cast<size_t>(p.batch); ++b) {
    const int64_t missing = p.query_lengths ? p.q_len - (*p.query_lengths)[b] : 0;
    if (auto refusal = StoreByte("queries missing", missing, kAtQueryLengths + b, r))
      return refusal;
    const int64_t prefix = p.prefix_lengths ? (*p.prefix_lengths)[b] : 0;
    if (auto refusal = StoreByte("prefix_lengths", prefix, kAtPrefixLengths + b, r)) return refusal;
  }
  return std::nullopt;
}

// --- Block mask and dropout ---

void DecodeBlocks(const CaseRecord& r, Problem& p) {
  BlockMask& mask = p.block_mask.emplace();
  mask.block_q = int64_t{r[kAtBlocks + 1]} + 1;
  mask.block_k = int64_t{r[kAtBlocks + 2]} + 1;
  mask.plane.shape = {
      (r[kAtBlocks] & 1) != 0 ? 1 : p.batch, (r[kAtBlocks] & 2) != 0 ? 1 : p.q_heads,
      (p.q_len + mask.block_q - 1) / mask.block_q, (p.kv_len + mask.block_k - 1) / mask.block_k};
  LoadHidden(r, kHiddenBlocks, mask.plane);
}

Refusal EncodeBlocks(const Problem& p, CaseRecord& r) {
  if (!p.block_mask) return std::nullopt;
  const BlockMask& mask = *p.block_mask;
  if (mask.block_q > 256 || mask.block_k > 256) {
    return fmt::format("tiles of {} x {} exceed 256", mask.block_q, mask.block_k);
  }
  r[kAtBlocks] = static_cast<uint8_t>((mask.plane.shape[0] != p.batch ? 1 : 0) |
                                      (mask.plane.shape[1] != p.q_heads ? 2 : 0));
  r[kAtBlocks + 1] = static_cast<uint8_t>(mask.block_q - 1);
  r[kAtBlocks + 2] = static_cast<uint8_t>(mask.block_k - 1);
  return StoreHidden("block_mask", mask.plane, kHiddenBlocks, r);
}

// Far from what an f32 rounds to 1, where the kept weights would be infinite.
constexpr double kMostProbable = 1 - 0x1p-10;

double DecodeProbability(const CaseRecord& r) {
  const double p = std::bit_cast<double>(LoadField(r, kAtProbability, 8));
  return p >= 0 && p <= kMostProbable ? p : 0.5;
}

Refusal EncodeSeeds(const Problem& p, CaseRecord& r) {
  if (p.documents) {
    const auto seed = FindDocumentsSeed(p);
    if (!seed) return "no seed makes these documents";
    StoreField(r, kAtDocuments, 2, *seed);
  }
  if (!p.dropout) return std::nullopt;
  if (p.dropout->probability > kMostProbable) {
    return fmt::format("the probability {} exceeds {}", p.dropout->probability, kMostProbable);
  }
  const auto seed = FindKeepSeed(p);
  if (!seed) return "no seed makes this dropout mask";
  StoreField(r, kAtKeep, 2, *seed);
  StoreField(r, kAtProbability, 8, std::bit_cast<uint64_t>(p.dropout->probability + 0.0));
  return std::nullopt;
}

// --- Numbers of the whole problem ---

// Nearly every double is too small or too large for an f32; beyond these no kernel is put to the
// test.
constexpr double kLeastSoftcap = 0x1p-20, kMostSoftcap = 0x1p20;

double DecodeSoftcap(const CaseRecord& r) {
  const double softcap = std::bit_cast<double>(LoadField(r, kAtSoftcap, 8));
  return softcap >= kLeastSoftcap && softcap <= kMostSoftcap ? softcap : 1;
}

Refusal EncodeSoftcap(double softcap, CaseRecord& r) {
  if (softcap == 0) return std::nullopt;
  if (softcap < kLeastSoftcap || softcap > kMostSoftcap) {
    return fmt::format("softcap {} is outside {}..{}", softcap, kLeastSoftcap, kMostSoftcap);
  }
  StoreField(r, kAtSoftcap, 8, std::bit_cast<uint64_t>(softcap));
  return std::nullopt;
}

Fp8 DecodeFp8(const CaseRecord& r, unsigned flags) {
  const auto scale = [&](size_t n) {
    const double value = LoadFloat(r, kAtFp8Scales + 4 * n);
    return value >= 0x1p-60 && value <= 0x1p60 ? value : 1.0;
  };
  return {(flags & kE5M2Flag) != 0 ? DType::kE5M2 : DType::kE4M3, scale(0), scale(1), scale(2)};
}

void EncodeFp8(const Fp8& fp8, CaseRecord& r) {
  size_t at = kAtFp8Scales;
  for (const double scale : {fp8.q_scale, fp8.k_scale, fp8.v_scale}) {
    StoreFloat(r, at, scale);  // a valid problem's scales are floats
    at += 4;
  }
}

unsigned FlagsOf(const Case& c) {
  const Problem& p = c.problem;
  const auto flag = [](bool on, unsigned bit) { return on ? bit : 0u; };
  return flag(p.softcap > 0, kSoftcapFlag) | flag(p.alibi_slopes.has_value(), kSlopesFlag) |
         flag(p.sinks.has_value(), kSinksFlag) | flag(p.documents.has_value(), kDocumentsFlag) |
         flag(p.prefix_lengths.has_value(), kPrefixFlag) |
         flag(p.block_mask.has_value(), kBlocksFlag) | flag(p.dropout.has_value(), kDropoutFlag) |
         flag(p.query_lengths.has_value(), kQueryLengthsFlag) | flag(p.fp8.has_value(), kFp8Flag) |
         flag(p.fp8 && p.fp8->format == DType::kE5M2, kE5M2Flag) |
         flag(p.bias_dtype.has_value(), kBiasF32Flag) |
         flag(p.want_scores.has_value(), kScoresFlag) |
         flag(c.storage.without_present, kWithoutPresentFlag);
}

// --- Layouts and storage ---

constexpr Layout Layouts::*kTensors[] = {&Layouts::q, &Layouts::k, &Layouts::v, &Layouts::out};

void DecodeLayouts(const CaseRecord& r, int known, Layouts& layouts) {
  for (unsigned n = 0; n < 4; ++n) {
    const int low = (r[kAtLayoutLow] >> (2 * n)) & 3, high = (r[kAtLayoutHigh] >> n) & 1;
    layouts.*kTensors[n] = static_cast<Layout>((low + 4 * high) % known);
  }
}

void EncodeLayouts(const Layouts& layouts, CaseRecord& r) {
  for (unsigned n = 0; n < 4; ++n) {
    const int layout = static_cast<int>(layouts.*kTensors[n]);
    r[kAtLayoutLow] |= static_cast<uint8_t>((layout & 3) << (2 * n));
    r[kAtLayoutHigh] |= static_cast<uint8_t>((layout >> 2) << n);
  }
}

Storage DecodeStorage(const CaseRecord& r, int known, const Problem& p) {
  Storage s;
  const int64_t amount = r[kAtStorageAmount];
  switch (r[kAtStorageKind] % known) {
    case kPast:
      s.past = amount % (p.kv_len + 1);
      break;
    case kPages:
      s.page_size = amount + 1;
      break;
    case kRing:
      s.ring = true;
      break;
    case kPacked:
      s.packed = true;
      break;
    case kPastAbsent:
      s.first_call = FirstCall::kPastAbsent;
      break;
    case kPastEmpty:
      s.first_call = FirstCall::kPastEmpty;
      break;
  }
  return s;
}

Refusal EncodeStorage(const Storage& s, CaseRecord& r) {
  if (s.page_size > 256) return fmt::format("page_size {} exceeds 256", s.page_size);
  r[kAtStorageKind] = s.past > 0                               ? kPast
                      : s.page_size > 0                        ? kPages
                      : s.ring                                 ? kRing
                      : s.packed                               ? kPacked
                      : s.first_call == FirstCall::kPastAbsent ? kPastAbsent
                      : s.first_call == FirstCall::kPastEmpty  ? kPastEmpty
                                                               : kPlain;
  const int64_t amount = s.past > 0 ? s.past : std::max<int64_t>(s.page_size - 1, 0);
  return StoreByte("past", amount, kAtStorageAmount, r);
}

}  // namespace

Refusal StoreByte(const char* name, int64_t value, size_t at, CaseRecord& r) {
  if (value < 0 || value > UINT8_MAX) return fmt::format("{}: {} exceeds 255", name, value);
  r[at] = static_cast<uint8_t>(value);
  return std::nullopt;
}

void LoadHidden(const CaseRecord& r, const HiddenBits& hidden, BitPlane& plane) {
  const auto count = static_cast<size_t>(ElementCount(plane.shape));
  plane.bits.reserve(count);
  for (size_t n = 0; n < count; ++n) {
    const size_t bit = n % hidden.count;
    plane.bits.push_back(((r[hidden.at + bit / 8] >> (bit % 8)) & 1) != 0 ? 0 : 1);
  }
}

Refusal StoreHidden(const char* name, const BitPlane& plane, const HiddenBits& hidden,
                    CaseRecord& r) {
  for (size_t n = 0; n < plane.bits.size(); ++n) {
    const bool hides = plane.bits[n] == 0;
    const size_t bit = n % hidden.count;
    const auto one = static_cast<uint8_t>(1 << (bit % 8));
    uint8_t& byte = r[hidden.at + bit / 8];
    if (n < hidden.count && hides) byte |= one;
    if (((byte & one) != 0) != hides) {
      return fmt::format("{} of {} bits does not fit in {}", name, plane.bits.size(), hidden.count);
    }
  }
  return std::nullopt;
}

bool HasNewFeatures(const Case& c) {
  const auto is_new = [](Layout layout) { return layout > Layout::kTransposed; };
  const Layouts& l = c.layouts;
  return FlagsOf(c) != 0 || c.storage != Storage{} || is_new(l.q) || is_new(l.k) || is_new(l.v) ||
         is_new(l.out);
}

void DecodeFeatures(const CaseRecord& r, KnownKinds known, Case& c) {
  Problem& p = c.problem;
  const auto flags = static_cast<unsigned>(LoadField(r, kAtFeatures, 2));
  const auto on = [&](unsigned flag) { return (flags & flag) != 0; };
  if (on(kSoftcapFlag)) p.softcap = DecodeSoftcap(r);
  if (on(kSlopesFlag)) p.alibi_slopes = DecodePerHead(r, p, kAtSlopes);
  if (on(kSinksFlag)) p.sinks = DecodePerHead(r, p, kAtSinks);
  if (on(kDocumentsFlag)) {
    p.documents = SeededDocuments(static_cast<uint16_t>(LoadField(r, kAtDocuments, 2)), p);
  }
  if (on(kBlocksFlag)) DecodeBlocks(r, p);
  if (on(kDropoutFlag)) {
    p.dropout = Dropout{DecodeProbability(r),
                        SeededKeep(static_cast<uint16_t>(LoadField(r, kAtKeep, 2)), p)};
  }
  DecodeLengths(r, flags, p);
  if (on(kFp8Flag)) p.fp8 = DecodeFp8(r, flags);
  if (on(kBiasF32Flag)) p.bias_dtype = DType::kF32;
  if (on(kScoresFlag)) p.want_scores = static_cast<ScoreMode>((r[kAtLayoutHigh] >> 4) & 3);
  DecodeLayouts(r, known.layouts, c.layouts);
  c.storage = DecodeStorage(r, known.storages, p);
  c.storage.without_present = on(kWithoutPresentFlag);  // MendStorage drops it without a past
  MendStorage(c);
}

Refusal EncodeFeatures(const Case& c, CaseRecord& r) {
  const Problem& p = c.problem;
  StoreField(r, kAtFeatures, 2, FlagsOf(c));
  if (auto refusal = EncodeLengths(p, r)) return refusal;
  if (p.fp8) EncodeFp8(*p.fp8, r);
  EncodeLayouts(c.layouts, r);
  if (p.want_scores)
    r[kAtLayoutHigh] |= static_cast<uint8_t>(static_cast<int>(*p.want_scores) << 4);
  if (auto refusal = EncodeSoftcap(p.softcap, r)) return refusal;
  if (auto refusal = EncodePerHead("alibi_slopes", p.alibi_slopes, kAtSlopes, r)) return refusal;
  if (auto refusal = EncodePerHead("sinks", p.sinks, kAtSinks, r)) return refusal;
  if (auto refusal = EncodeBlocks(p, r)) return refusal;
  if (auto refusal = EncodeStorage(c.storage, r)) return refusal;
  return EncodeSeeds(p, r);
}

}  // namespace attest
