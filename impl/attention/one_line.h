// Errors are one line each, whatever text of others' they quote. Callers: what reads contracts and plug-ins.
#ifndef ATTEST_ATTENTION_ONE_LINE_H_
#define ATTEST_ATTENTION_ONE_LINE_H_

#include <algorithm>
#include <string>

namespace attest {

// The text with spaces for control characters, and none at the end.
inline std::string OneLine(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace attest

#endif  // ATTEST_ATTENTION_ONE_LINE_H_
