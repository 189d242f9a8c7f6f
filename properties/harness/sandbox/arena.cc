#include "properties/harness/sandbox/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/sandbox/strided.h"

namespace attest {
namespace {

// 16 small calls a round trip: beyond that the round trip is a small part of the time.
constexpr uint64_t kMaxFrames = 16;
// Frames of large calls are fewer, so that one long case does not claim gigabytes.
constexpr uint64_t kArenaTarget = uint64_t{64} << 20;
// Every slot has this much slack at least, beside what alignment takes.
constexpr uint64_t kMinSlack = 4096;
// Views of all frames: each takes kFarGapBytes of the worker's address space.
constexpr uint64_t kMostViews = 1024;
// A slot is cut down when it is this many times larger than the calls need.
constexpr uint64_t kExcess = 8;

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

uint64_t AlignmentOf(const Call& call, const CallTensor& tensor) {
  return std::max(static_cast<uint64_t>(call.min_alignment),
                  static_cast<uint64_t>(ByteSize(tensor.dtype)));
}

// What the calls need of each slot of a frame; bytes in powers of two pages: few sizes, few changes.
void RaiseNeeds(const Call& call, uint64_t page, std::vector<Capacity>* inputs,
                std::vector<Capacity>* outputs) {
  size_t next_input = 0, next_output = 0;
  for (const CallTensor& tensor : call.tensors) {
    auto& needs = tensor.is_output ? *outputs : *inputs;
    const size_t slot = tensor.is_output ? next_output++ : next_input++;
    if (needs.size() <= slot) needs.resize(slot + 1);
    const uint64_t bytes = tensor.image.size() + AlignmentOf(call, tensor) + kMinSlack;
    needs[slot].bytes = std::max(needs[slot].bytes, std::bit_ceil(RoundUp(bytes, page)));
    needs[slot].views = std::max(needs[slot].views, static_cast<uint64_t>(tensor.far_parts));
  }
}

// Adapts capacities to needs; the bytes of a slot that these calls do not use stay as they are, and views that they
// do not use harm nothing. True on a change.
bool Adapt(const std::vector<Capacity>& needs, std::vector<Capacity>* capacity) {
  bool changed = false;
  if (capacity->size() < needs.size()) capacity->resize(needs.size());
  for (size_t slot = 0; slot < needs.size(); ++slot) {
    const Capacity have = (*capacity)[slot], need = needs[slot];
    const bool fits = have.bytes >= need.bytes && have.bytes / kExcess <= need.bytes;
    if (fits && have.views >= need.views) continue;
    (*capacity)[slot] = need;
    changed = true;
  }
  return changed;
}

void KeepViews(const std::vector<Capacity>& needs, std::vector<Capacity>* capacity) {
  for (size_t slot = 0; slot < capacity->size(); ++slot)
    (*capacity)[slot].views = slot < needs.size() ? needs[slot].views : 1;
}

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
  std::vector<Capacity> inputs, outputs;
  for (const Call* call : calls) RaiseNeeds(*call, page_, &inputs, &outputs);
  const bool inputs_changed = Adapt(inputs, &inputs_);
  const bool outputs_changed = Adapt(outputs, &outputs_);
  const bool has_frames = frames_ > 0 && frames_ >= std::min(calls.size(), most_frames_);
  if (!inputs_changed && !outputs_changed && has_frames) return false;
  // Each view is a mapping, which takes the worker time: those left over from calls before go now.
  KeepViews(inputs, &inputs_);
  KeepViews(outputs, &outputs_);
  LayOut(calls.size());
  const uint64_t needed = slots_.empty() ? page_ : slots_.back().offset + slots_.back().bytes;
  if (auto resized = Resize(needed); !resized) {
    frames_ = 0;  // the next call of Fit starts afresh
    inputs_.clear();
    outputs_.clear();
    return tl::unexpected(resized.error());
  }
  return true;
}

void Arena::LayOut(size_t calls) {
  uint64_t frame_bytes = page_;
  uint64_t views = 1;
  for (const auto* slots : {&inputs_, &outputs_})
    for (const Capacity& slot : *slots) {
      frame_bytes += slot.bytes * slot.views;
      views += slot.views;
    }
  const uint64_t most = std::min(kArenaTarget / frame_bytes, kMostViews / views);
  most_frames_ = std::clamp<uint64_t>(most, 1, kMaxFrames);
  // No more than are used: each slot is a mapping, which takes the worker time.
  frames_ = std::min(std::bit_ceil(calls), most_frames_);
  slots_.clear();
  uint64_t offset = 2 * page_;  // the note, then a page that keeps slots apart
  const auto add = [&](const Capacity& slot, bool writable) {
    slots_.push_back({offset, slot.bytes, writable, slot.views});
    offset += slot.bytes + page_;
  };
  for (size_t frame = 0; frame < frames_; ++frame) {
    for (const Capacity& slot : inputs_) add(slot, false);
    for (const Capacity& slot : outputs_) add(slot, true);
  }
  kept_.assign(slots_.size(), {});
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
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (map == MAP_FAILED)
    return tl::unexpected(
        fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  if (base_ != nullptr) ::munmap(base_, file_bytes_);
  base_ = static_cast<std::byte*>(map);
  file_bytes_ = bytes;
  return {};
}

PlacedCall Arena::Place(const Call& call, size_t frame, std::byte fill) {
  PlacedCall placed{&call, fill, {}};
  placed.tensors.reserve(call.tensors.size());
  size_t input = frame * (inputs_.size() + outputs_.size());
  size_t output = input + inputs_.size();
  for (const CallTensor& tensor : call.tensors) {
    const size_t slot = tensor.is_output ? output++ : input++;
    placed.tensors.push_back({&tensor, slot, FileOffset(call, tensor, slots_[slot])});
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
  const Slot& slot = slots_[placed.slot];
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

}  // namespace attest
