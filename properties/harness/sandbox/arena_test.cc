#include "properties/harness/sandbox/arena.h"

#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "properties/harness/sandbox/inspect.h"

namespace attest {
namespace {

CallTensor Tensor(int32_t role, bool is_output, int64_t elements) {
  CallTensor tensor;
  tensor.role = role;
  tensor.is_output = is_output;
  tensor.shape = {elements};
  tensor.strides = {1};
  tensor.image.assign(static_cast<size_t>(elements) * ByteSize(tensor.dtype), std::byte{7});
  return tensor;
}

Call MakeCall(int64_t elements, Placement placement, uint8_t poison) {
  Call call;
  call.placement = placement;
  call.poison = poison;
  call.tensors = {Tensor(1, false, elements), Tensor(64, true, elements / 2)};
  return call;
}

PlacedCall PlaceAlone(Arena& arena, const Call& call, std::byte fill) {
  const Call* const calls[] = {&call};
  EXPECT_TRUE(arena.Fit(calls));
  return arena.Place(call, /*frame=*/0, fill);
}

std::byte* Writable(const Arena& arena, uint64_t offset) {
  return const_cast<std::byte*>(arena.At(offset));
}

TEST(Arena, SlackIsAsItShouldBeWhateverWasThereBefore) {
  const auto arena = std::move(*Arena::Create());
  int n = 0;
  for (const int64_t elements : {100, 3, 2000, 0, 40, 1, 5000, 7, 12000, 2}) {
    for (const Placement placement : {Placement::kEnd, Placement::kBegin}) {
      const auto poison = static_cast<uint8_t>(++n % 3 == 0 ? 0 : 0xFF);
      const Call call = MakeCall(elements, placement, poison);
      const PlacedCall placed = PlaceAlone(*arena, call, std::byte(n % 2 == 0 ? 0xA5 : 0xFF));
      EXPECT_FALSE(FindChangedInput(*arena, placed)) << n;
      EXPECT_FALSE(FindStrayWrite(*arena, placed)) << n;
      if (n % 5 != 0) arena->KeepSlack(placed);
    }
  }
}

TEST(Arena, SlackThatWasKeptAndThenChangedIsNoticedInTheNextCall) {
  const auto arena = std::move(*Arena::Create());
  const Call call = MakeCall(10, Placement::kEnd, 0xFF);
  const PlacedCall first = PlaceAlone(*arena, call, std::byte{0xFF});
  arena->KeepSlack(first);
  *Writable(*arena, first.tensors[1].offset - 100) = std::byte{1};
  const PlacedCall second = PlaceAlone(*arena, call, std::byte{0xFF});
  const auto fault = FindStrayWrite(*arena, second);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->distance_bytes, -100);
}

TEST(Arena, SlackThatWasNotKeptIsFilledAgain) {
  const auto arena = std::move(*Arena::Create());
  const Call call = MakeCall(10, Placement::kEnd, 0xFF);
  const PlacedCall first = PlaceAlone(*arena, call, std::byte{0xFF});
  *Writable(*arena, first.tensors[1].offset - 100) = std::byte{1};
  EXPECT_FALSE(FindStrayWrite(*arena, PlaceAlone(*arena, call, std::byte{0xFF})));
}

TEST(Arena, ThereAreFramesForAllCallsAsFarAsThereMayBe) {
  const auto arena = std::move(*Arena::Create());
  const Call call = MakeCall(10, Placement::kEnd, 0xFF);
  const std::vector<const Call*> many(100, &call);
  ASSERT_TRUE(arena->Fit(std::span(many).first(1)));
  EXPECT_EQ(arena->frames(), 1u);
  EXPECT_TRUE(*arena->Fit(std::span(many).first(3)));
  EXPECT_EQ(arena->frames(), 4u);
  EXPECT_FALSE(*arena->Fit(std::span(many).first(2)));
  EXPECT_TRUE(*arena->Fit(many));
  EXPECT_EQ(arena->frames(), 16u);
  EXPECT_FALSE(*arena->Fit(many));
}

}  // namespace
}  // namespace attest
