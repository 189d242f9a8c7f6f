#include "properties/harness/sandbox/digest.h"

#include <array>

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(Digest, ChangesWithEveryByteAndTheirNumber) {
  std::array<std::byte, 21> bytes{};
  const uint64_t digest = DigestOf(bytes);
  EXPECT_TRUE(IsDigest(digest));
  for (std::byte& byte : bytes) {
    byte = std::byte{1};
    EXPECT_NE(DigestOf(bytes), digest);
    byte = std::byte{0};
  }
  EXPECT_EQ(DigestOf(bytes), digest);
  EXPECT_NE(DigestOf(std::span(bytes).first(16)), digest);
}

TEST(Digest, OfNothingIsOneToo) {
  EXPECT_TRUE(IsDigest(DigestOf({})));
}

TEST(Digest, IsNotWhatIsWrittenOverIt) {
  for (const uint64_t word : {uint64_t{0}, ~uint64_t{0}, 0xA5A5A5A5A5A5A5A5u, 0x5555555555555555u})
    EXPECT_FALSE(IsDigest(word));
}

}  // namespace
}  // namespace attest
