#include "properties/harness/sandbox/arena.h"

#include <set>
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
  return *arena.Place(call, fill);
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

// How many copies of the call find slots at once, after Fit has seen so many; `changed` is what that said.
size_t CountPlaced(Arena& arena, const Call& call, size_t copies, bool* changed) {
  const std::vector<const Call*> calls(copies, &call);
  const auto fitted = arena.Fit(calls);
  EXPECT_TRUE(fitted);
  *changed = fitted.value_or(false);
  size_t placed = 0;
  while (placed < copies && arena.Place(call, std::byte{0xFF})) ++placed;
  return placed;
}

TEST(Arena, ThereAreSlotsForAllCallsAsFarAsThereMayBe) {
  const auto arena = std::move(*Arena::Create());
  const Call call = MakeCall(10, Placement::kEnd, 0xFF);
  bool changed = false;
  EXPECT_EQ(CountPlaced(*arena, call, 1, &changed), 1u);
  EXPECT_TRUE(changed);
  EXPECT_EQ(CountPlaced(*arena, call, 3, &changed), 3u);
  EXPECT_TRUE(changed);
  EXPECT_EQ(CountPlaced(*arena, call, 2, &changed), 2u);
  EXPECT_FALSE(changed);
  EXPECT_EQ(CountPlaced(*arena, call, 100, &changed), 16u);
  EXPECT_TRUE(changed);
  EXPECT_EQ(CountPlaced(*arena, call, 100, &changed), 16u);
  EXPECT_FALSE(changed);
}

TEST(Arena, SlotsStayWhateverSizesComeInBetween) {
  const auto arena = std::move(*Arena::Create());
  bool changed = false;
  for (int round = 0; round < 3; ++round)
    for (const int64_t elements : {10, 100000, 3000}) {
      const Call call = MakeCall(elements, Placement::kEnd, 0xFF);
      EXPECT_EQ(CountPlaced(*arena, call, 2, &changed), 2u);
      EXPECT_EQ(changed, round == 0) << elements;
    }
}

TEST(Arena, AlthoughLargeCallsHaveComeATensorsGuardIsNear) {
  const auto arena = std::move(*Arena::Create());
  PlaceAlone(*arena, MakeCall(100000, Placement::kEnd, 0xFF), std::byte{0xFF});
  const Call call = MakeCall(10, Placement::kEnd, 0xFF);
  const PlacedCall placed = PlaceAlone(*arena, call, std::byte{0xFF});
  for (const PlacedTensor& one : placed.tensors)
    EXPECT_LE(arena->slots()[one.slot].bytes, uint64_t{16} << 10);
}

TEST(Arena, OfLargeCallsFewArePlacedAtOnceAndOneAlways) {
  const auto arena = std::move(*Arena::Create());
  bool changed = false;
  EXPECT_EQ(CountPlaced(*arena, MakeCall(1 << 20, Placement::kEnd, 0xFF), 16, &changed), 4u);
  EXPECT_EQ(CountPlaced(*arena, MakeCall(1 << 23, Placement::kEnd, 0xFF), 2, &changed), 1u);
  EXPECT_TRUE(changed);
  EXPECT_EQ(CountPlaced(*arena, MakeCall(1 << 23, Placement::kEnd, 0xFF), 2, &changed), 1u);
  EXPECT_FALSE(changed);
}

TEST(Arena, TheTensorsOfCallsThatArePlacedTogetherLieInSlotsOfTheirOwn) {
  const auto arena = std::move(*Arena::Create());
  const Call call = MakeCall(10, Placement::kEnd, 0xFF);
  const std::vector<const Call*> calls(5, &call);
  ASSERT_TRUE(arena->Fit(calls));
  std::set<size_t> slots;
  for (size_t n = 0; n < calls.size(); ++n) {
    const auto placed = arena->Place(call, std::byte{0xFF});
    ASSERT_TRUE(placed);
    for (const PlacedTensor& one : placed->tensors) {
      EXPECT_TRUE(slots.insert(one.slot).second);
      EXPECT_EQ(arena->slots()[one.slot].writable, one.tensor->is_output);
    }
  }
}

}  // namespace
}  // namespace attest
