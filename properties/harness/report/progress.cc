#include "properties/harness/report/progress.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

namespace attest {
namespace {

constexpr std::chrono::milliseconds kInterval{100};  // faster than people read, too slow to cost

}  // namespace

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  Clear();
}

void ProgressLine::OnCase(const Property& property, int64_t done, int64_t of) {
  OnModelCase(property.id, done, of);
}

void ProgressLine::OnModelCase(std::string_view property, int64_t done, int64_t of) {
  if (is_terminal_) Show(property, fmt::format("case {} of {}", done, of));
}

void ProgressLine::OnShrink(const Property& property, int64_t tries) {
  if (is_terminal_) Show(property.id, fmt::format("fails; shrinking, {} tries", tries));
}

void ProgressLine::Show(std::string_view property, const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  is_shown_ = true;
  // Back to the first column, and clear to the end of the line.
  const std::string line = fmt::format("\r{}  {}  {}\x1b[K", kernel_, property, what);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

void ProgressLine::Clear() {
  if (!is_shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  is_shown_ = false;
}

}  // namespace attest
