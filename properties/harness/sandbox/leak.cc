#include "properties/harness/sandbox/leak.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace attest {
namespace {

// Fewer calls show nothing: the first ones load, plan and allocate.
constexpr int64_t kCallsToSuspect = 64;
// Memory comes from the system in steps of some 128 KiB: a block must grow by several of them.
constexpr uint64_t kBlockGrowth = 512 * 1024;
constexpr int64_t kLeastCalls = 64, kMostCalls = 4096;
constexpr size_t kBlocks = 3;
// Allocators, thread arenas and plan caches were seen to grow evenly for a hundred calls and then never
// again. So the last word has a run of a thousand calls, or as many as grow by a gibibyte.
constexpr int64_t kLongRun = 1024;
constexpr uint64_t kLongGrowth = uint64_t{1} << 30;

// Whether each block has grown, and none twice as much as another.
bool IsSteady(const std::array<uint64_t, kBlocks>& growth) {
  const auto [least, most] = std::minmax_element(growth.begin(), growth.end());
  return *least >= kBlockGrowth && *most <= 2 * *least;
}

}  // namespace

void LeakDetector::Follow(pid_t worker) {
  const std::string path = fmt::format("/proc/{}/statm", worker);
  statm_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  first_bytes_.reset();
}

// Private memory that can be written to, touched or not.
std::optional<uint64_t> LeakDetector::Bytes() const {
  constexpr int kField = 5;  // of those that single spaces part
  std::array<char, 256> text{};
  const ssize_t size = statm_.valid() ? ::pread(statm_.get(), text.data(), text.size(), 0) : -1;
  if (size <= 0) return std::nullopt;
  const char *field = text.data(), *end = field + size;
  for (int n = 0; n < kField && field != end; ++n) field = std::find(field, end - 1, ' ') + 1;
  uint64_t pages = 0;
  if (std::from_chars(field, end, pages).ec != std::errc{}) return std::nullopt;
  static const auto kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return pages * kPage;
}

bool LeakDetector::Suspects(int64_t calls) {
  if (convicted_) return false;
  const auto bytes = Bytes();
  if (!bytes) return false;
  if (!first_bytes_) {
    first_bytes_ = bytes;
    first_calls_ = calls;
  }
  calls_ = calls - first_calls_;
  return calls_ >= kCallsToSuspect && *bytes > *first_bytes_ + suspicious_bytes_;
}

std::optional<Fault> LeakDetector::Examine(const std::function<bool(int64_t)>& repeat) {
  // So many that a leak as large as the suspicion grows by a mebibyte a block.
  const auto times =
      std::clamp(calls_ * (int64_t{1} << 20) / static_cast<int64_t>(suspicious_bytes_), kLeastCalls,
                 kMostCalls);
  suspicious_bytes_ *= 2;
  if (!repeat(times)) return std::nullopt;  // whatever the call makes grow once has grown now
  auto before = Bytes();
  std::array<uint64_t, kBlocks> growth{};
  for (uint64_t& grown : growth) {
    const bool went_well = repeat(times);
    const auto after = Bytes();
    if (!went_well || !before || !after || *after <= *before) return std::nullopt;
    grown = *after - *before;
    before = after;
  }
  if (!IsSteady(growth)) return std::nullopt;
  const uint64_t a_call =
      (growth[0] + growth[1] + growth[2]) / (kBlocks * static_cast<uint64_t>(times));
  const auto more = std::clamp(static_cast<int64_t>(kLongGrowth / std::max<uint64_t>(a_call, 1)),
                               4 * kLeastCalls, std::max(kLongRun, 2 * times));
  const bool went_well = repeat(more);
  const auto after = Bytes();
  if (!went_well || !after || *after < *before + a_call * static_cast<uint64_t>(more) / 2) {
    return std::nullopt;
  }
  convicted_ = true;
  return Fault{FaultKind::kLeak,
               0,
               {},
               0,
               fmt::format("uses more memory with each call: {} bytes a call, over {} calls alike",
                           a_call, static_cast<int64_t>(kBlocks) * times + more)};
}

}  // namespace attest
