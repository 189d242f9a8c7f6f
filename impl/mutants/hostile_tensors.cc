// Misdeeds that abuse the tensors of a call, and the memory they lie in.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "impl/mutants/hostile_acts.h"

namespace attest::hostile {
namespace {

// The descriptor of the arena; see PROTOCOL.md.
constexpr int kArena = 4;
constexpr int64_t kFar = 10000;

const DLTensor* Find(const attest_call& call, int32_t role) {
  for (uint32_t i = 0; i < call.num_arguments; ++i)
    if (call.arguments[i].role == role) return call.arguments[i].tensor;
  return nullptr;
}

// The tensor to abuse: the one that the option names, else `role`; nullptr where the call has none.
const DLTensor* Victim(const attest_call& call, const HostileState& state, int32_t role) {
  return Find(call, state.role == 0 ? role : state.role);
}

int64_t ElementBytes(const DLTensor& tensor) {
  return tensor.dtype.bits / 8;
}

int64_t Elements(const DLTensor& tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  return count;
}

std::byte* Begin(const DLTensor& tensor) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

// Just past the element at the highest address.
std::byte* End(const DLTensor& tensor) {
  if (Elements(tensor) == 0) return Begin(tensor);
  int64_t last = 0;
  for (int32_t d = 0; d < tensor.ndim; ++d) last += (tensor.shape[d] - 1) * tensor.strides[d];
  return Begin(tensor) + (last + 1) * ElementBytes(tensor);
}

volatile std::byte g_sink;

void Read(const std::byte* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) g_sink = static_cast<const volatile std::byte*>(at)[i];
}
void Write(std::byte* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) static_cast<volatile std::byte*>(at)[i] = std::byte{0x3C};
}

// Row 1 of the first head of a tensor of rank 4, or row 0 where there is one only. Empty where there
// is none.
struct RowBytes {
  std::byte* begin = nullptr;
  int64_t lanes = 0, stride = 0, size = 0;  // strides and sizes in bytes
};

RowBytes SomeRow(const DLTensor* out) {
  if (out == nullptr || out->ndim != 4 || Elements(*out) == 0) return {};
  const int64_t size = ElementBytes(*out);
  const int64_t row = out->shape[2] > 1 ? out->strides[2] * size : 0;
  return {Begin(*out) + row, out->shape[3], out->strides[3] * size, size};
}

// What the thread of WriteLater writes to. It lives as long as the process: the thread does.
struct LateWriter {
  std::atomic<std::byte*> target{nullptr};
};

void WriteFromTimeToTime(LateWriter& writer) {
  for (uint8_t value = 0;; ++value) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (std::byte* target = writer.target.load()) *target = std::byte{value};
  }
}

// All of the arena from `from` on, or its first page.
void Smear(off_t from, bool all) {
  struct stat status {};
  if (::fstat(kArena, &status) != 0) return;
  const auto bytes = static_cast<size_t>(all ? status.st_size - from : 64);
  if (bytes == 0) return;
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kArena, from);
  if (map == MAP_FAILED) return;
  std::memset(map, 0x5A, bytes);
  ::munmap(map, bytes);
}

}  // namespace

void ReadPast(attest_call& call, HostileState& state) {
  if (const DLTensor* t = Victim(call, state, ATTEST_ROLE_K)) Read(End(*t), ElementBytes(*t));
}

void ReadFarPast(attest_call& call, HostileState& state) {
  const DLTensor* t = Victim(call, state, ATTEST_ROLE_K);
  if (t != nullptr) Read(End(*t) + (kFar - 1) * ElementBytes(*t), ElementBytes(*t));
}

void ReadBefore(attest_call& call, HostileState& state) {
  const DLTensor* t = Victim(call, state, ATTEST_ROLE_K);
  if (t != nullptr) Read(Begin(*t) - ElementBytes(*t), ElementBytes(*t));
}

void WritePast(attest_call& call, HostileState& state) {
  if (const DLTensor* t = Victim(call, state, ATTEST_ROLE_OUT)) Write(End(*t), ElementBytes(*t));
}

void WriteBefore(attest_call& call, HostileState& state) {
  const DLTensor* t = Victim(call, state, ATTEST_ROLE_OUT);
  if (t != nullptr) Write(Begin(*t) - ElementBytes(*t), ElementBytes(*t));
}

void WriteInput(attest_call& call, HostileState& state) {
  const DLTensor* t = Victim(call, state, ATTEST_ROLE_K);
  if (t != nullptr && Elements(*t) > 0) Write(End(*t) - ElementBytes(*t), ElementBytes(*t));
}

void ForceInput(attest_call& call, HostileState& state) {
  const DLTensor* t = Victim(call, state, ATTEST_ROLE_K);
  if (t == nullptr || Elements(*t) == 0) return;
  std::byte* last = End(*t) - ElementBytes(*t);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(last) & ~(page - 1));
  if (::mprotect(begin, page, PROT_READ | PROT_WRITE) == 0) *last ^= std::byte{0x11};
}

void WriteGap(attest_call& call, HostileState& state) {
  const DLTensor* t = Victim(call, state, ATTEST_ROLE_OUT);
  // a gap behind each row: rows lie farther apart than they are long
  if (t == nullptr || t->ndim != 4 || Elements(*t) == 0 || t->strides[3] != 1) return;
  const bool has_gap =
      t->strides[2] > t->shape[3] && t->shape[2] > 1 && t->strides[1] > t->strides[2];
  if (has_gap) Write(Begin(*t) + t->shape[3] * ElementBytes(*t), ElementBytes(*t));
}

void KeepRow(attest_call& call, HostileState& state) {
  const RowBytes row = SomeRow(Victim(call, state, ATTEST_ROLE_OUT));
  state.kept.clear();
  for (int64_t lane = 0; lane < row.lanes; ++lane) {
    const std::byte* element = row.begin + lane * row.stride;
    state.kept.insert(state.kept.end(), element, element + row.size);
  }
}

void RestoreRow(attest_call& call, HostileState& state) {
  const RowBytes row = SomeRow(Victim(call, state, ATTEST_ROLE_OUT));
  for (int64_t lane = 0; lane < row.lanes; ++lane)
    std::memcpy(row.begin + lane * row.stride, state.kept.data() + lane * row.size,
                static_cast<size_t>(row.size));
}

void SkipOutputs(attest_call&, HostileState& state) {
  state.answer = ATTEST_OK;
}

void WriteLater(attest_call& call, HostileState& state) {
  const DLTensor* out = Victim(call, state, ATTEST_ROLE_OUT);
  if (out == nullptr || Elements(*out) == 0) return;
  if (state.own == nullptr) {
    auto writer = std::make_shared<LateWriter>();
    state.own = writer;
    std::thread([writer] { WriteFromTimeToTime(*writer); }).detach();
  }
  // The first call's memory: it is written to while the calls behind it are computed.
  auto& target = static_cast<LateWriter*>(state.own.get())->target;
  if (target.load() == nullptr || state.calls % 2 == 1) target.store(Begin(*out));
}

void WritePrevious(attest_call& call, HostileState& state) {
  if (state.own != nullptr) Write(*static_cast<std::byte**>(state.own.get()), 1);
  const DLTensor* out = Victim(call, state, ATTEST_ROLE_OUT);
  const bool is_there = out != nullptr && Elements(*out) > 0;
  state.own = is_there ? std::make_shared<std::byte*>(Begin(*out)) : nullptr;
}

void Scribble(attest_call&, HostileState&) {
  Smear(0, /*all=*/true);
}

void ScribbleNote(attest_call&, HostileState&) {
  Smear(0, /*all=*/false);
}

void ShrinkArena(attest_call&, HostileState&) {
  (void)!::ftruncate(kArena, 0);
}

void GrowArena(attest_call&, HostileState&) {
  (void)!::ftruncate(kArena, off_t{64} << 30);
}

#if defined(__x86_64__)
void LoadMisaligned(attest_call& call, HostileState&) {
  const DLTensor* q = Find(call, ATTEST_ROLE_Q);
  if (q == nullptr || Elements(*q) * ElementBytes(*q) < 32) return;
  __asm__ volatile("movaps %0, %%xmm0" : : "m"(Begin(*q)[4]) : "xmm0");
}
#else
void LoadMisaligned(attest_call&, HostileState&) {}
#endif

void ChangeALittle(attest_call& call, HostileState& state) {
  static const auto start = std::chrono::steady_clock::now().time_since_epoch().count();
  const DLTensor* out = Find(call, ATTEST_ROLE_OUT);
  if (out == nullptr || Elements(*out) == 0) return;
  // Its last three bits: another change in each call, and in each process.
  *Begin(*out) ^= static_cast<std::byte>((start / 100 + state.calls) % 8);
}

void RememberOutput(attest_call& call, HostileState& state) {
  const DLTensor* out = Find(call, ATTEST_ROLE_OUT);
  if (out == nullptr || Elements(*out) == 0) return;
  const auto size = static_cast<size_t>(ElementBytes(*out));
  std::vector<std::byte> own(Begin(*out), Begin(*out) + size);
  if (state.kept.size() == size) std::memcpy(Begin(*out), state.kept.data(), size);
  state.kept = std::move(own);
}

}  // namespace attest::hostile
