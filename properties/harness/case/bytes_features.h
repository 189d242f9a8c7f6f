// The fields of a record beyond those that every version has, for bytes.cc alone.
#ifndef ATTEST_HARNESS_CASE_BYTES_FEATURES_H_
#define ATTEST_HARNESS_CASE_BYTES_FEATURES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "properties/harness/case/bytes.h"

namespace attest {

// A number that has one byte in the record, however large it may be in a case.
std::optional<std::string> StoreByte(const char* name, int64_t value, size_t at, CaseRecord& r);

using Refusal = std::optional<std::string>;

inline uint64_t LoadField(const CaseRecord& r, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t n = 0; n < bytes; ++n) value |= uint64_t{r[at + n]} << (8 * n);
  return value;
}

inline void StoreField(CaseRecord& r, size_t at, size_t bytes, uint64_t value) {
  for (size_t n = 0; n < bytes; ++n) r[at + n] = static_cast<uint8_t>(value >> (8 * n));
}

// Bits of a plane, 1 = hidden, that lie at a byte and are repeated where the plane has more.
struct HiddenBits {
  size_t at;
  size_t count;
};

// Fills a plane whose shape is set.
void LoadHidden(const CaseRecord& r, const HiddenBits& hidden, BitPlane& plane);
// Refuses a plane of more bits that do not repeat. `name` is for the message.
Refusal StoreHidden(const char* name, const BitPlane& plane, const HiddenBits& hidden,
                    CaseRecord& r);

// True where a case asks for anything that version 1 has no field for.
bool HasNewFeatures(const Case& c);

// How many kinds of each the record's version knows.
struct KnownKinds {
  int layouts, storages;
};

// Version 2's own fields: bytes 60 to 187, beside layouts at byte 14. The case's sizes, options and
// masks must be there already.
void DecodeFeatures(const CaseRecord& r, KnownKinds known, Case& c);
Refusal EncodeFeatures(const Case& c, CaseRecord& r);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_BYTES_FEATURES_H_
