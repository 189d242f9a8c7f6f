#include "properties/harness/sandbox/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/sandbox/digest.h"
#include "properties/harness/sandbox/strided.h"

namespace attest {
namespace {

uint64_t FileOffset(const Call& call, const CallTensor& tensor, const Slot& slot) {
  const uint64_t end = slot.offset + slot.bytes;
  if (tensor.image.empty()) return end;  // whatever is read there is caught
  if (call.placement == Placement::kBegin) return slot.offset;
  const uint64_t alignment = AlignmentOf(call, tensor);
  return (end - tensor.image.size()) / alignment * alignment;
}

}  // namespace

tl::expected<std::unique_ptr<Arena>, std::string> Arena::Create() {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  FileDescriptor file(::memfd_create("attest-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid())
    return tl::unexpected(fmt::format("cannot create shared memory: {}", std::strerror(errno)));
  // A kernel that shrank the file would kill the harness with SIGBUS.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return tl::unexpected(fmt::format("cannot seal shared memory: {}", std::strerror(errno)));
  std::unique_ptr<Arena> arena(new Arena(std::move(file), page));
  if (auto resized = arena->Resize(page); !resized) return tl::unexpected(resized.error());
  return arena;
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, file_bytes_);
}

tl::expected<bool, std::string> Arena::Fit(std::span<const Call* const> calls) {
  if (!pool_.Fit(calls)) return false;
  if (auto resized = Resize(pool_.end()); !resized) {
    pool_.Clear();  // the next call of Fit starts afresh
    return tl::unexpected(resized.error());
  }
  kept_.assign(slots().size(), {});
  return true;
}

tl::expected<void, std::string> Arena::Resize(uint64_t bytes) {
  if (bytes <= file_bytes_) return {};
  struct stat status {};
  // A kernel may have made it longer, and it cannot be cut.
  const bool is_long_enough =
      ::fstat(file_.get(), &status) == 0 && static_cast<uint64_t>(status.st_size) >= bytes;
  if (!is_long_enough && ::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
    return tl::unexpected(
        fmt::format("cannot grow shared memory to {} bytes: {}", bytes, std::strerror(errno)));
  // Moved with its pages, which would have to be found anew one by one.
  void* map = base_ == nullptr
                  ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0)
                  : ::mremap(base_, file_bytes_, bytes, MREMAP_MAYMOVE);
  if (map == MAP_FAILED)
    return tl::unexpected(
        fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  base_ = static_cast<std::byte*>(map);
  file_bytes_ = bytes;
  return {};
}

std::optional<PlacedCall> Arena::Place(const Call& call, std::byte fill) {
  taken_.clear();
  if (!pool_.Take(call, &taken_)) return std::nullopt;
  PlacedCall placed{&call, fill, {}};
  placed.tensors.reserve(call.tensors.size());
  for (size_t n = 0; n < taken_.size(); ++n) {
    const CallTensor& tensor = call.tensors[n];
    placed.tensors.push_back({&tensor, taken_[n], FileOffset(call, tensor, slots()[taken_[n]])});
    const std::byte slack = tensor.is_output ? fill : std::byte{call.poison};
    Fill(placed.tensors.back(), slack, fill);
  }
  return placed;
}

void Arena::Fill(const PlacedTensor& placed, std::byte slack, std::byte fill) {
  const CallTensor& tensor = *placed.tensor;
  const SlackRange range = SlackOf(placed);
  const uint64_t end = placed.offset + tensor.image.size();
  const Filled kept = std::exchange(kept_[placed.slot], {});
  FillSlack(range.first, placed.offset, slack, kept);
  FillSlack(end, range.last, slack, kept);
  if (tensor.image.empty()) return;
  if (tensor.is_output)
    std::memset(base_ + placed.offset, std::to_integer<int>(fill), tensor.image.size());
  else
    std::memcpy(base_ + placed.offset, tensor.image.data(), tensor.image.size());
}

void Arena::FillSlack(uint64_t first, uint64_t last, std::byte slack, const Filled& known) {
  const auto fill = [&](uint64_t from, uint64_t to) {
    from = std::max(from, first);
    to = std::min(to, last);
    if (from < to) std::memset(base_ + from, std::to_integer<int>(slack), to - from);
  };
  if (known.fill != slack || known.first == known.last) return fill(first, last);
  fill(first, known.first);
  fill(known.tensor, known.end);
  fill(known.last, last);
}

void Arena::KeepSlack(const PlacedCall& placed) {
  for (const PlacedTensor& one : placed.tensors) {
    const SlackRange range = SlackOf(one);
    const std::byte fill = one.tensor->is_output ? placed.fill : std::byte{placed.call->poison};
    kept_[one.slot] = {range.first, one.offset, one.offset + one.tensor->image.size(), range.last,
                       fill};
  }
}

SlackRange Arena::SlackOf(const PlacedTensor& placed) const {
  const Slot& slot = slots()[placed.slot];
  const uint64_t end = placed.offset + placed.tensor->image.size();
  return {placed.offset - std::min(kMarginBytes, placed.offset - slot.offset),
          end + std::min(kMarginBytes, slot.offset + slot.bytes - end)};
}

CrashNote Arena::note() const {
  CrashNote note;
  std::memcpy(&note, base_, sizeof note);
  return note;
}

void Arena::ClearNote() {
  std::memset(base_, 0, sizeof(CrashNote));
}

void Arena::BeginRequest() {
  std::memset(base_ + offsetof(CrashNote, computed), 0, sizeof(CrashNote::computed));
  std::memset(base_ + offsetof(CrashNote, digests), 0, sizeof(CrashNote::digests));
}

uint64_t Arena::DigestOfOutput(size_t number) const {
  uint64_t digest = 0;
  if (number < kMostDigests)
    std::memcpy(&digest, base_ + offsetof(CrashNote, digests) + number * sizeof digest,
                sizeof digest);
  return IsDigest(digest) ? digest : 0;
}

}  // namespace attest
