#include "fuzz/status.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kInterval{2};
constexpr int64_t kLookEvery = 16;  // inputs between looks at the clock

const Clock::time_point start = Clock::now();
Clock::time_point next_write = start + kInterval;

// JSON has no infinities; a ratio that large is as good as one.
double Finite(double ratio) {
  constexpr double kMost = 1e300;
  return std::isfinite(ratio) ? ratio : kMost;
}

}  // namespace

FuzzFigures& Figures() {
  static FuzzFigures figures;
  return figures;
}

std::string StatusJson() {
  const FuzzFigures& figures = Figures();
  return fmt::format(
      "{{\"executions\":{},\"seconds\":{:.3f},\"bins\":{},\"worst_ratio\":{},"
      "\"worst_lse_ratio\":{},\"findings\":{}}}\n",
      figures.executions, std::chrono::duration<double>(Clock::now() - start).count(), figures.bins,
      Finite(figures.worst_ratio), Finite(figures.worst_lse_ratio), figures.findings);
}

void CountExecution() {
  static const bool kWritesAtExit = std::atexit(WriteStatus) == 0;
  if (++Figures().executions % kLookEvery != 0 || !kWritesAtExit || Clock::now() < next_write)
    return;
  next_write = Clock::now() + kInterval;
  WriteStatus();
}

void WriteStatus() {
  const char* path = std::getenv("ATTEST_FUZZ_STATUS");
  if (path != nullptr && *path != '\0') ReplaceFile(path, StatusJson());
}

bool ReplaceFile(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path written = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  std::ofstream file(written, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(written, path, error);
  if (file && !error) return true;
  std::filesystem::remove(written, error);
  return false;
}

}  // namespace attest
