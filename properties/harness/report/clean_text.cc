#include "properties/harness/report/clean_text.h"

#include <algorithm>
#include <cstdint>

namespace attest {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";

struct Sequence {
  uint32_t code = 0;
  size_t length = 0;  // 0 = no UTF-8
};

// How many bytes a sequence has by its first byte; 0 where none begins so.
size_t LengthBy(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

Sequence FirstOf(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = LengthBy(byte(0));
  if (length == 0 || length > text.size()) return {};
  uint32_t code = length == 1 ? byte(0) : byte(0) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool is_overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (is_overlong || is_surrogate || code > 0x10ffff) return {};
  return {code, length};
}

bool IsWanted(uint32_t code) {
  if (code < 0x20) return code == '\n' || code == '\t';
  if (code >= 0x7f && code < 0xa0) return false;
  const bool turns = code == 0x061c || (code >= 0x200b && code <= 0x200f) ||
                     (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f);
  return !turns && code != 0xfeff && (code & 0xfffe) != 0xfffe;
}

}  // namespace

std::string CleanText(std::string_view text, size_t longest) {
  std::string clean;
  while (!text.empty()) {
    const Sequence next = FirstOf(text);
    const size_t taken = std::max<size_t>(next.length, 1);
    if (clean.size() + kReplacement.size() + 1 > longest) return clean.append(kEllipsis);
    clean.append(next.length > 0 && IsWanted(next.code) ? text.substr(0, taken) : kReplacement);
    text.remove_prefix(taken);
  }
  return clean;
}

}  // namespace attest
