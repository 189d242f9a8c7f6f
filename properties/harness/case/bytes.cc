// The record: what the versions share. Zero bytes mean the plain choice: sizes of one, nothing
// hidden, no options.
#include "properties/harness/case/bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "properties/harness/case/bytes_features.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/tensor_shape.h"

namespace attest {
namespace {

// Where each field stands, the same in all versions. Never moved: a corpus outlives the code.
// Bytes not named here are spare in version 1; version 2's own fields are in bytes_features.cc.
enum Place : size_t {
  kAtVersion = 0,
  kAtBatch = 1,
  kAtKvHeads = 2,
  kAtRatio = 3,
  kAtQLen = 4,
  kAtKvLen = 5,
  kAtHeadDim = 6,
  kAtValueDim = 7,
  kAtDType = 8,
  kAtFlags = 9,
  kAtWindow = 10,    // left, right: two 16-bit numbers, 0 = open, else the side plus one
  kAtLayouts = 14,   // two bits a tensor
  kAtFamilies = 15,  // scores, values, bias
  kAtOffsets = 18,   // 8 signed 16-bit numbers
  kAtLengths = 34,   // 8 bytes: keys that are missing from kv_len
  kAtSeed = 42,      // 8 bytes
  kAtScale = 50,     // a double
  kAtMask = 58,      // present, broadcast extents, rank
  kAtBias = 59,
  // Version 3: what of a size is above its byte, in spare bytes of the overrides.
  kAtHighLengths = 241,  // q_len: two bits, kv_len: four
  kAtHighDims = 255,     // head_dim, value_dim: two bits each
};
constexpr size_t kOverrideBytes = 14;  // of a slot; the last is spare

// The largest sizes that a version holds.
struct Most {
  int64_t ratio, q_len, kv_len, dim;
};
constexpr Most kSmall = {4, 40, 255, 40}, kLarge = {16, 1023, 4095, 512};

// What has another place or size in each version.
struct Version {
  uint8_t number;
  HiddenBits mask, bias;
  size_t overrides_at, override_slots;
  Most most;
  int layouts, storages;  // so many kinds; those that came later have no number
};
constexpr Version kOne = {1, {64, 88 * 8}, {152, 48 * 8}, 200, 4, kSmall, 4, 1};
constexpr Version kTwo = {2, {188, 24 * 8}, {212, 16 * 8}, 228, 2, kSmall, 6, 5};
constexpr Version kThree = {3,      kTwo.mask, kTwo.bias, kTwo.overrides_at, kTwo.override_slots,
                            kLarge, 6,         5};
constexpr Version kFour = {4,      kTwo.mask, kTwo.bias, kTwo.overrides_at, kTwo.override_slots,
                           kLarge, 8,         5};
constexpr Version kFive = {kNewestRecord,       kTwo.mask, kTwo.bias, kTwo.overrides_at,
                           kTwo.override_slots, kLarge,    8,         7};
static_assert(kFive.layouts == kLayoutCount, "a new layout needs a new version");
constexpr const Version* kVersions[] = {&kOne, &kTwo, &kThree, &kFour, &kFive};
static_assert(kOne.overrides_at + kOne.override_slots * kOverrideBytes == kCaseBytes);
static_assert(kTwo.overrides_at + kTwo.override_slots * kOverrideBytes == kCaseBytes);

enum Flags : uint8_t {
  kCausalFlag = 1,
  kLseFlag = 2,
  kWeightsFlag = 4,
  kBeginFlag = 8,
  kLengthsFlag = 16,
  kScaleFlag = 32,
  kOffsetsFlag = 64,
};

constexpr int64_t kMaxBatch = 8, kMaxKvHeads = 8;
// Families that came later have no byte: every byte means one of these already.
constexpr int kRecordValueFamilies = 10, kRecordBiasFamilies = 5;
// Multiply-adds of a case: a fuzzer wants thousands of cases a second.
constexpr int64_t kMaxWork = int64_t{1} << 18;

int64_t Work(const Problem& p) {
  const auto at_least_one = [](int64_t size) { return std::max<int64_t>(size, 1); };
  return at_least_one(p.batch) * at_least_one(p.q_heads) * at_least_one(p.q_len) *
         at_least_one(p.kv_len) * at_least_one(p.head_dim + p.value_dim);
}

// Where a size stands: a byte, and in version 3 some bits above it.
struct SizeField {
  const char* name;
  int64_t Problem::*member;
  size_t at;
  int64_t most;
  size_t high_at = 0;  // 0: the byte is all
  int shift = 0, bits = 0;
};

std::array<SizeField, 6> SizeFields(const Most& most) {
  return {{{"batch", &Problem::batch, kAtBatch, kMaxBatch},
           {"kv_heads", &Problem::kv_heads, kAtKvHeads, kMaxKvHeads},
           {"q_len", &Problem::q_len, kAtQLen, most.q_len, kAtHighLengths, 0, 2},
           {"kv_len", &Problem::kv_len, kAtKvLen, most.kv_len, kAtHighLengths, 2, 4},
           {"head_dim", &Problem::head_dim, kAtHeadDim, most.dim, kAtHighDims, 0, 2},
           {"value_dim", &Problem::value_dim, kAtValueDim, most.dim, kAtHighDims, 2, 2}}};
}

// A size of 0..most; the number 0 is the size 1, so that an empty input is a small case and not an
// empty one.
int64_t DecodeSize(const CaseRecord& r, const SizeField& field) {
  int64_t number = r[field.at];
  const bool has_more = field.most > UINT8_MAX;
  if (has_more) number += ((r[field.high_at] >> field.shift) & ((1 << field.bits) - 1)) << 8;
  return (number + 1) % (field.most + 1);
}

void EncodeSize(int64_t size, const SizeField& field, CaseRecord& r) {
  const int64_t number = (size + field.most) % (field.most + 1);
  r[field.at] = static_cast<uint8_t>(number);
  if (field.most > UINT8_MAX)
    r[field.high_at] |= static_cast<uint8_t>((number >> 8) << field.shift);
}

// Halves the largest factor until the work is bearable. Leaves what already is alone, so that a
// record made from a case decodes to it.
void ClampWork(Problem& p) {
  while (Work(p) > kMaxWork) {
    int64_t* largest = &p.kv_len;
    for (int64_t* size : {&p.q_len, &p.head_dim, &p.value_dim, &p.batch, &p.kv_heads}) {
      if (*size > *largest) largest = size;
    }
    const int64_t ratio = p.heads_per_kv_head();
    *largest = (*largest + 1) / 2;
    p.q_heads = p.kv_heads * ratio;
  }
}

void DecodeSizes(const CaseRecord& r, const Most& most, Problem& p) {
  for (const SizeField& field : SizeFields(most)) p.*field.member = DecodeSize(r, field);
  p.q_heads = p.kv_heads * (1 + r[kAtRatio] % most.ratio);
  ClampWork(p);
}

std::optional<int64_t> DecodeSide(const CaseRecord& r, size_t at) {
  const uint64_t value = LoadField(r, at, 2);
  if (value == 0) return std::nullopt;
  return static_cast<int64_t>(value) - 1;
}

double DecodeScale(const CaseRecord& r) {
  const double scale = std::bit_cast<double>(LoadField(r, kAtScale, 8));
  return std::isfinite(scale) ? scale : 1.0;
}

void DecodeOptions(const CaseRecord& r, Problem& p) {
  const uint8_t flags = r[kAtFlags];
  p.dtype = static_cast<DType>(r[kAtDType] % 4);
  p.causal = (flags & kCausalFlag) != 0;
  p.want_lse = (flags & kLseFlag) != 0;
  p.want_weights = (flags & kWeightsFlag) != 0;
  if ((flags & kScaleFlag) != 0) p.scale = DecodeScale(r);
  p.window.left = DecodeSide(r, kAtWindow);
  p.window.right = DecodeSide(r, kAtWindow + 2);
  const auto batch = static_cast<size_t>(p.batch);
  for (size_t b = 0; b < batch && (flags & kOffsetsFlag) != 0; ++b) {
    p.diagonal_offset.push_back(static_cast<int16_t>(LoadField(r, kAtOffsets + 2 * b, 2)));
  }
  if ((flags & kLengthsFlag) == 0) return;
  p.key_lengths.emplace();
  for (size_t b = 0; b < batch; ++b) {
    p.key_lengths->push_back(p.kv_len - r[kAtLengths + b] % (p.kv_len + 1));
  }
}

// Bit 0: there is a plane. Bits 1 to 4: extents broadcast to one. Bits 5 and 6: how much rank falls
// short of 4, as far as the shape allows.
std::optional<BitPlane> DecodePlane(const CaseRecord& r, const Problem& p, size_t at,
                                    const HiddenBits& hidden) {
  if ((r[at] & 1) == 0) return std::nullopt;
  BitPlane plane;
  plane.shape = p.WeightsShape();
  for (size_t axis = 0; axis < 4; ++axis) {
    if (((r[at] >> (axis + 1)) & 1) != 0) plane.shape[axis] = 1;
  }
  const int least = plane.shape[0] != 1 ? 4 : plane.shape[1] != 1 ? 3 : 2;
  plane.rank = std::max(4 - ((r[at] >> 5) & 3), least);
  LoadHidden(r, hidden, plane);
  return plane;
}

void DecodeOverride(const CaseRecord& r, size_t at, Case& c) {
  if ((r[at] & 0x80) == 0) return;
  Override o;
  o.tensor = static_cast<DataTensor>(r[at] & 3);
  const Shape4 shape = ShapeOf(c.problem, o.tensor);
  if (ElementCount(shape) == 0) return;
  for (size_t axis = 0; axis < 4; ++axis) o.index[axis] = r[at + 1 + axis] % shape[axis];
  o.value = std::bit_cast<double>(LoadField(r, at + 5, 8));
  if (std::isnan(o.value)) o.value = std::numeric_limits<double>::quiet_NaN();
  c.overrides.push_back(o);
  // What cannot stand (a hidden bias, an overflow) is left out; the rest was valid before.
  if (Validate(c)) c.overrides.pop_back();
}

Layouts DecodeLayouts(uint8_t byte) {
  const auto part = [&](int shift) { return static_cast<Layout>((byte >> shift) & 3); };
  return Layouts{part(0), part(2), part(4), part(6)};
}

uint8_t EncodeLayouts(const Layouts& l) {
  return static_cast<uint8_t>(static_cast<int>(l.q) | static_cast<int>(l.k) << 2 |
                              static_cast<int>(l.v) << 4 | static_cast<int>(l.out) << 6);
}

Refusal EncodeSizes(const Problem& p, const Most& most, CaseRecord& r) {
  for (const SizeField& field : SizeFields(most)) {
    const int64_t size = p.*field.member;
    if (size > field.most) return fmt::format("{} {} exceeds {}", field.name, size, field.most);
    EncodeSize(size, field, r);
  }
  const int64_t ratio = p.heads_per_kv_head();
  if (ratio < 1 || ratio > most.ratio) {
    return fmt::format("{} query heads a kv head are outside 1..{}", ratio, most.ratio);
  }
  r[kAtRatio] = static_cast<uint8_t>(ratio - 1);
  if (Work(p) > kMaxWork) return fmt::format("the work {} exceeds {}", Work(p), kMaxWork);
  return std::nullopt;
}

Refusal EncodeWindow(const Window& window, CaseRecord& r) {
  size_t at = kAtWindow;
  for (const auto& side : {window.left, window.right}) {
    if (side && *side > 65534) return fmt::format("window side {} exceeds 65534", *side);
    StoreField(r, at, 2, side ? static_cast<uint64_t>(*side) + 1 : 0);
    at += 2;
  }
  return std::nullopt;
}

Refusal EncodeOptions(const Case& c, CaseRecord& r) {
  const Problem& p = c.problem;
  r[kAtDType] = static_cast<uint8_t>(p.dtype);
  r[kAtFlags] = static_cast<uint8_t>(
      (p.causal ? kCausalFlag : 0) | (p.want_lse ? kLseFlag : 0) |
      (p.want_weights ? kWeightsFlag : 0) | (c.placement == Placement::kBegin ? kBeginFlag : 0) |
      (p.key_lengths ? kLengthsFlag : 0) | (p.scale ? kScaleFlag : 0) |
      (p.diagonal_offset.empty() ? 0 : kOffsetsFlag));
  if (p.scale) StoreField(r, kAtScale, 8, std::bit_cast<uint64_t>(*p.scale));
  for (size_t b = 0; b < p.diagonal_offset.size(); ++b) {
    const int64_t offset = p.diagonal_offset[b];
    if (offset < INT16_MIN || offset > INT16_MAX) {
      return fmt::format("diagonal_offset {} exceeds 16 bits", offset);
    }
    StoreField(r, kAtOffsets + 2 * b, 2, static_cast<uint64_t>(offset));
  }
  for (size_t b = 0; p.key_lengths && b < p.key_lengths->size(); ++b) {
    const int64_t missing = p.kv_len - (*p.key_lengths)[b];
    if (auto refusal = StoreByte("keys missing", missing, kAtLengths + b, r)) return refusal;
  }
  return EncodeWindow(p.window, r);
}

Refusal EncodePlane(const char* name, const Problem& p, const std::optional<BitPlane>& plane,
                    size_t at, const HiddenBits& hidden, CaseRecord& r) {
  if (!plane) return std::nullopt;
  const Shape4 full = p.WeightsShape();
  int header = 1 | (4 - plane->rank) << 5;
  for (size_t axis = 0; axis < 4; ++axis) {
    if (plane->shape[axis] != full[axis]) header |= 2 << axis;
  }
  r[at] = static_cast<uint8_t>(header);
  return StoreHidden(name, *plane, hidden, r);
}

Refusal EncodeData(const Case& c, const Version& version, CaseRecord& r) {
  if (!c.literals.empty()) return "literal tensors do not fit";
  if (c.overrides.size() > version.override_slots) {
    return fmt::format("{} overrides do not fit in {} slots", c.overrides.size(),
                       version.override_slots);
  }
  if (static_cast<int>(c.recipe.values) >= kRecordValueFamilies ||
      static_cast<int>(c.recipe.bias) >= kRecordBiasFamilies) {
    return fmt::format("no byte stands for the families {} and {}", Name(c.recipe.values),
                       Name(c.recipe.bias));
  }
  r[kAtFamilies] = static_cast<uint8_t>(c.recipe.scores);
  r[kAtFamilies + 1] = static_cast<uint8_t>(c.recipe.values);
  r[kAtFamilies + 2] = static_cast<uint8_t>(c.recipe.bias);
  StoreField(r, kAtSeed, 8, c.recipe.seed);
  size_t at = version.overrides_at;
  for (const Override& o : c.overrides) {
    r[at] = static_cast<uint8_t>(0x80 | static_cast<int>(o.tensor));
    for (size_t axis = 0; axis < 4; ++axis) {
      if (auto refusal = StoreByte("index", o.index[axis], at + 1 + axis, r)) return refusal;
    }
    StoreField(r, at + 5, 8, std::bit_cast<uint64_t>(o.value));
    at += kOverrideBytes;
  }
  return std::nullopt;
}

Refusal Encode(const Case& c, const Version& version, CaseRecord& r) {
  const Problem& p = c.problem;
  r[kAtVersion] = version.number;
  if (auto refusal = EncodeSizes(p, version.most, r)) return refusal;
  if (auto refusal = EncodeOptions(c, r)) return refusal;
  if (auto refusal = EncodePlane("mask", p, p.mask, kAtMask, version.mask, r)) return refusal;
  if (auto refusal = EncodePlane("bias", p, p.bias, kAtBias, version.bias, r)) return refusal;
  if (auto refusal = EncodeData(c, version, r)) return refusal;
  if (version.number > kOne.number) return EncodeFeatures(c, r);
  r[kAtLayouts] = EncodeLayouts(c.layouts);
  return std::nullopt;
}

const Version& VersionOf(const CaseRecord& r) {
  for (const Version* version : {&kTwo, &kThree, &kFour, &kFive}) {
    if (r[kAtVersion] == version->number) return *version;
  }
  return kOne;
}

tl::expected<CaseRecord, std::string> EncodeAs(const Case& c, const Version& version) {
  CaseRecord record{};
  if (const auto refusal = Encode(c, version, record)) return tl::unexpected(*refusal);
  // The proof that the record says what was meant.
  if (!SameCase(DecodeCase(record), c)) {
    return tl::unexpected<std::string>("no record decodes to it");
  }
  return record;
}

}  // namespace

Case DecodeCase(std::span<const uint8_t> bytes) {
  CaseRecord r{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), r.size()), r.begin());
  // Version 1 was the first and took every byte 0 for its own; each later one takes a value away.
  const Version& version = VersionOf(r);
  Case c;
  Problem& p = c.problem;
  DecodeSizes(r, version.most, p);
  DecodeOptions(r, p);
  p.mask = DecodePlane(r, p, kAtMask, version.mask);
  p.bias = DecodePlane(r, p, kAtBias, version.bias);
  c.recipe.scores = static_cast<ScoreFamily>(r[kAtFamilies] % kScoreFamilyCount);
  c.recipe.values = static_cast<ValueFamily>(r[kAtFamilies + 1] % kRecordValueFamilies);
  c.recipe.bias = static_cast<BiasFamily>(r[kAtFamilies + 2] % kRecordBiasFamilies);
  c.recipe.seed = LoadField(r, kAtSeed, 8);
  c.layouts = DecodeLayouts(r[kAtLayouts]);
  if (version.number > kOne.number) DecodeFeatures(r, {version.layouts, version.storages}, c);
  c.placement = (r[kAtFlags] & kBeginFlag) != 0 ? Placement::kBegin : Placement::kEnd;
  for (size_t slot = 0; slot < version.override_slots; ++slot) {
    DecodeOverride(r, version.overrides_at + slot * kOverrideBytes, c);
  }
  return c;
}

tl::expected<CaseRecord, std::string> EncodeCase(const Case& c) {
  if (auto error = Validate(c)) return tl::unexpected("not a valid case: " + *error);
  // What version 2 hides by a shorter pattern may be none of version 1's.
  tl::expected<CaseRecord, std::string> record;
  for (const Version* version : kVersions) {
    if (version == &kOne && HasNewFeatures(c)) continue;
    record = EncodeAs(c, *version);
    if (record) break;
  }
  return record;
}

std::optional<Case> WithSizesOf(const Case& c, const Case& sizes) {
  for (const Version* version : kVersions) {
    if (version == &kOne && HasNewFeatures(c)) continue;
    const auto wanted = EncodeAs(sizes, *version);
    auto record = EncodeAs(c, *version);
    if (!wanted || !record) continue;
    record->at(kAtRatio) = wanted->at(kAtRatio);
    for (const SizeField& field : SizeFields(version->most)) {
      record->at(field.at) = wanted->at(field.at);
      if (field.most > UINT8_MAX) record->at(field.high_at) = wanted->at(field.high_at);
    }
    return DecodeCase(*record);
  }
  return std::nullopt;
}

}  // namespace attest
