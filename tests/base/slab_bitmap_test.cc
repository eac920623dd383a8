#include "base/memory/slab_bitmap.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

TEST(SlabBitmap, TakesTheLowestRunThatFits) {
  SlabBitmap bitmap(10);
  EXPECT_EQ(bitmap.Take(3, 1), 0u);
  EXPECT_EQ(bitmap.Take(2, 1), 3u);
  EXPECT_EQ(bitmap.Take(5, 1), 5u);
  EXPECT_EQ(bitmap.Take(1, 1), SlabBitmap::kNone);
  EXPECT_TRUE(bitmap.Give(0, 3));
  EXPECT_EQ(bitmap.Take(4, 1), SlabBitmap::kNone);
  EXPECT_TRUE(bitmap.Give(5, 5));
  EXPECT_EQ(bitmap.Take(4, 1), 5u);
  EXPECT_EQ(bitmap.Take(1, 1), 0u);
}

TEST(SlabBitmap, AlignsWhereItIsAsked) {
  SlabBitmap bitmap(64);
  EXPECT_EQ(bitmap.Take(1, 1), 0u);
  EXPECT_EQ(bitmap.Take(4, 4), 4u);
  EXPECT_EQ(bitmap.Take(1, 1), 1u);
  EXPECT_EQ(bitmap.Take(2, 2), 2u);
  EXPECT_EQ(bitmap.Take(16, 16), 16u);
}

TEST(SlabBitmap, RefusesWhatIsNotTaken) {
  SlabBitmap bitmap(130);
  EXPECT_EQ(bitmap.Take(70, 1), 0u);
  EXPECT_FALSE(bitmap.Give(69, 2));
  EXPECT_FALSE(bitmap.Give(129, 2));
  EXPECT_EQ(bitmap.taken(), 70u);
  EXPECT_TRUE(bitmap.Give(10, 60));
  EXPECT_FALSE(bitmap.Give(10, 1));
  EXPECT_EQ(bitmap.taken(), 10u);
}

/// The same operations on a vector of flags.
class PlainBitmap {
 public:
  explicit PlainBitmap(std::size_t slabs) : taken_(slabs, false) {}
  std::size_t Take(std::size_t count, std::size_t align) {
    for (std::size_t first = 0; first + count <= taken_.size(); first += align) {
      if (FreeFrom(first, count)) {
        Set(first, count, true);
        return first;
      }
    }
    return SlabBitmap::kNone;
  }
  bool TakeAt(std::size_t first, std::size_t count) {
    if (first + count > taken_.size() || !FreeFrom(first, count)) return false;
    Set(first, count, true);
    return true;
  }
  void Set(std::size_t first, std::size_t count, bool value) {
    for (std::size_t slab = first; slab < first + count; ++slab) taken_[slab] = value;
  }

 private:
  bool FreeFrom(std::size_t first, std::size_t count) const {
    for (std::size_t slab = first; slab < first + count; ++slab) {
      if (taken_[slab]) return false;
    }
    return true;
  }
  std::vector<bool> taken_;
};

TEST(SlabBitmap, AgreesWithAPlainOne) {
  std::mt19937_64 random(7);
  for (const std::size_t slabs : {1u, 63u, 64u, 65u, 200u, 1000u}) {
    SlabBitmap bitmap(slabs);
    PlainBitmap plain(slabs);
    std::vector<std::pair<std::size_t, std::size_t>> runs;
    for (int step = 0; step < 3000; ++step) {
      if (random() % 2 == 0 && !runs.empty()) {
        std::swap(runs[random() % runs.size()], runs.back());
        ASSERT_TRUE(bitmap.Give(runs.back().first, runs.back().second));
        plain.Set(runs.back().first, runs.back().second, false);
        runs.pop_back();
        continue;
      }
      const std::size_t count = 1 + random() % (random() % 8 == 0 ? 150 : 9);
      if (random() % 4 == 0) {
        const std::size_t wanted = random() % (slabs + 2);
        const bool taken = plain.TakeAt(wanted, count);
        ASSERT_EQ(bitmap.TakeAt(wanted, count), taken) << count << " at " << wanted;
        if (taken) runs.emplace_back(wanted, count);
        continue;
      }
      const std::size_t align = std::size_t{1} << (random() % 4);
      const std::size_t first = bitmap.Take(count, align);
      ASSERT_EQ(first, plain.Take(count, align)) << count << " of " << slabs;
      if (first != SlabBitmap::kNone) runs.emplace_back(first, count);
    }
  }
}

}  // namespace
}  // namespace ringfeed
