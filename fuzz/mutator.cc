#include "fuzz/mutator.h"

#include <algorithm>
#include <array>

#include "properties/harness/case/generator.h"

namespace attest {
namespace {

struct Field {
  size_t at, size;
};

// Where version 2 has its fields (case/bytes.cc and bytes_features.cc; places are never moved). What
// only makes sense together is one field.
constexpr Field kFields[] = {{8, 1},                          // dtype
                             {10, 4},                         // window
                             {15, 1},                         // families
                             {16, 1},   {17, 1},   {18, 16},  // diagonal offsets
                             {34, 8},                         // key lengths
                             {42, 8},                         // seed
                             {50, 8},                         // scale
                             {58, 1},                         // mask, bias: form
                             {59, 1},   {63, 2},              // storage
                             {65, 3},                         // tiles of the block mask
                             {68, 8},                         // query lengths
                             {76, 8},                         // prefix lengths
                             {84, 8},                         // softcap
                             {92, 8},                         // probability
                             {100, 12},                       // scales of 8-bit numbers
                             {112, 32},                       // slopes
                             {144, 32},                       // sinks
                             {176, 2},                        // documents
                             {178, 2},                        // dropout
                             {180, 8},                        // block mask
                             {188, 24},                       // mask, bias: bits
                             {212, 16}, {228, 13},            // overrides
                             {242, 13}};
// The version, which says how large sizes may be, and the sizes, of which versions from 3 on have a part beside the overrides.
constexpr Field kSizes[] = {{0, 8}, {241, 1}, {255, 1}};
// Bytes whose bits are options of their own: flags, layouts, features, layouts and score mode.
constexpr size_t kBitFields[] = {9, 14, 60, 61, 62};

// Version 1's places for what version 2 has elsewhere.
struct Move {
  size_t from, to, size;
};
constexpr Move kMoves[] = {{64, 188, 24}, {152, 212, 16}, {200, 228, 28}};
constexpr size_t kCommonBytes = 60;

// The seeds of documents and dropout: to encode a case they are searched from 0, and 256 will do.
constexpr size_t kHighSeedBytes[] = {177, 179};

CaseRecord CanonicalWithSmallSeeds(CaseRecord record) {
  if (record[0] >= 2 && record[0] <= 4) {
    for (const size_t at : kHighSeedBytes) record[at] = 0;
  }
  return CanonicalRecord(record);
}

CaseRecord ChangedBytes(const CaseRecord& base, const MutatorSetting& setting) {
  CaseRecord record = base;
  setting.mutate_bytes(record.data(), record.size(), record.size());
  return CanonicalWithSmallSeeds(record);
}

CaseRecord Drawn(const CaseRecord& base, Draw& draw, const Contract& contract) {
  const auto size = static_cast<int>(draw.Between(5, 100));
  return EncodeCase(DrawCase(draw.Bits(), size, contract)).value_or(base);
}

CaseRecord Stepped(const CaseRecord& base, Draw& draw) {
  Case c = DecodeCase(base);
  for (int64_t steps = draw.Between(1, 3); steps > 0; --steps) MutateCase(c, draw);
  return EncodeCase(c).value_or(base);
}

CaseRecord Attempt(const CaseRecord& base, Draw& draw, const MutatorSetting& setting) {
  if (draw.OneIn(12)) return ChangedBytes(base, setting);
  if (draw.OneIn(16)) return Drawn(base, draw, setting.contract);
  return Stepped(base, draw);
}

}  // namespace

CaseRecord MutateRecord(std::span<const uint8_t> bytes, uint64_t seed,
                        const MutatorSetting& setting) {
  constexpr uint64_t kAttempts = 8;
  const CaseRecord base = CanonicalRecord(bytes);
  for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    Draw draw(MixIn(seed, attempt));
    const CaseRecord record = Attempt(base, draw, setting);
    if (record != base) return record;
  }
  Case c = DecodeCase(base);
  ++c.recipe.seed;
  return EncodeCase(c).value_or(base);
}

CaseRecord CrossRecords(std::span<const uint8_t> a, std::span<const uint8_t> b, uint64_t seed) {
  Draw draw(seed);
  CaseRecord mixed = InSharedPlaces(CanonicalRecord(a));
  const CaseRecord other = InSharedPlaces(CanonicalRecord(b));
  const bool other_sizes = draw.Percent(50);
  for (const Field& field : kSizes) {
    if (other_sizes) std::copy_n(&other[field.at], field.size, &mixed[field.at]);
  }
  for (const Field& field : kFields) {
    if (draw.Percent(50)) std::copy_n(&other[field.at], field.size, &mixed[field.at]);
  }
  for (const size_t at : kBitFields) {
    const auto from_other = static_cast<uint8_t>(draw.Bits());
    mixed[at] = static_cast<uint8_t>((mixed[at] & ~from_other) | (other[at] & from_other));
  }
  return CanonicalRecord(mixed);
}

CaseRecord RandomRecord(uint64_t seed) {
  Draw draw(seed);
  CaseRecord record;
  for (uint8_t& byte : record) byte = static_cast<uint8_t>(draw.Bits());
  record[0] = draw.OneIn(8) ? kNewestRecord : draw.Percent(50) ? 2 : 1;
  return CanonicalWithSmallSeeds(record);
}

CaseRecord CanonicalRecord(std::span<const uint8_t> bytes) {
  // Whatever decodes encodes; should it ever not, the smallest case is a start too.
  return EncodeCase(DecodeCase(bytes)).value_or(CaseRecord{1});
}

CaseRecord InSharedPlaces(const CaseRecord& record) {
  if (record[0] >= 2 && record[0] <= kNewestRecord) return record;
  CaseRecord moved{};
  std::copy_n(record.begin(), kCommonBytes, moved.begin());
  moved[0] = 2;
  for (const Move& move : kMoves) std::copy_n(&record[move.from], move.size, &moved[move.to]);
  return moved;
}

}  // namespace attest
