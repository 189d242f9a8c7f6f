#include "impl/abi/row_threads.h"

#include <gtest/gtest.h>

#include <new>
#include <set>
#include <vector>

namespace attest {
namespace {

TEST(RowThreadsTest, EveryRowIsInOnePart) {
  for (const int threads : {0, 1, 2, 3, 7}) {
    for (const int64_t count : {0, 1, 2, 6, 7, 20}) {
      std::vector<int> times(static_cast<size_t>(count));
      ForEachPart(count, threads, [&](int64_t first, int64_t last) {
        for (int64_t n = first; n < last; ++n) ++times[static_cast<size_t>(n)];
      });
      EXPECT_EQ(times, std::vector<int>(static_cast<size_t>(count), 1)) << threads;
    }
  }
}

TEST(RowThreadsTest, PartsHaveThreadsOfTheirOwn) {
  std::vector<std::thread::id> ids(3);
  ForEachPart(3, 3, [&](int64_t first, int64_t) {
    ids[static_cast<size_t>(first)] = std::this_thread::get_id();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 3u);
}

TEST(RowThreadsTest, AnExceptionOfAnyPartComesOut) {
  EXPECT_THROW(ForEachPart(4, 2,
                           [](int64_t first, int64_t) {
                             if (first > 0) throw std::bad_alloc();
                           }),
               std::bad_alloc);
}

}  // namespace
}  // namespace attest
