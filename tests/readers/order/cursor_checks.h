#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "readers/order/row_cursor.h"
#include "tests/readers/order/fake_layout.h"
#include "tests/readers/order/slow_order.h"

namespace ringfeed {

/// Reads on in pieces of random sizes, at most `most` rows.
inline Rows ReadOn(RowCursor& cursor, Random& random, std::uint64_t most) {
  Rows rows;
  while (rows.size() < most) {
    Rows some(std::min<std::uint64_t>(1 + Below(random, 300), most - rows.size()));
    std::size_t count = 0;
    const Status status = cursor.Next(some, &count);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) break;
    rows.insert(rows.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
    if (count < some.size()) break;
  }
  return rows;
}

/// The cursor gives these passes, from their beginnings and from any place on.
inline void ExpectPasses(RowCursor& cursor, const std::vector<Rows>& passes, Random& random) {
  for (std::uint64_t pass = 0; pass < passes.size(); ++pass) {
    ASSERT_EQ(cursor.Places(pass), passes[pass].size()) << "pass " << pass;
    ASSERT_TRUE(cursor.Seek(pass, 0).ok());
    ASSERT_EQ(ReadOn(cursor, random, passes[pass].size() + 10), passes[pass]) << "pass " << pass;
  }
  for (int i = 0; i < 12; ++i) {
    const std::uint64_t pass = Below(random, passes.size());
    const Rows& all = passes[pass];
    const std::uint64_t place = i == 0 ? all.size() : Below(random, all.size() + 1);
    ASSERT_TRUE(cursor.Seek(pass, place).ok());
    const std::uint64_t most = Below(random, 2) == 0 ? all.size() + 1 : 1 + Below(random, 50);
    const Rows expected(all.begin() + static_cast<std::ptrdiff_t>(place),
                        all.begin() + static_cast<std::ptrdiff_t>(
                                          std::min<std::uint64_t>(all.size(), place + most)));
    ASSERT_EQ(ReadOn(cursor, random, most), expected) << "pass " << pass << " place " << place;
  }
}

}  // namespace ringfeed
