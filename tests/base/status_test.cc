#include "ringfeed/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace ringfeed {
namespace {

TEST(Status, OkIsTheDefaultAndCarriesNothing) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.ToString(), "ok");
}

TEST(Status, FailureNamesItsPlace) {
  const Status status(StatusCode::kDamaged, "checksum", {"a.tfrecord", 12, 3});
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.ToString(), "damaged: a.tfrecord: offset 12: record 3: checksum");
}

TEST(Status, WithPlaceFillsOnlyWhatIsUnknown) {
  const Status status(StatusCode::kDamaged, "checksum", {"", 12, -1});
  const Status placed = status.WithPlace({"b", 99, 7});
  EXPECT_EQ(placed.place().file, "b");
  EXPECT_EQ(placed.place().offset, 12);
  EXPECT_EQ(placed.place().record, 7);
}

TEST(Status, ErrnoBecomesACode) {
  EXPECT_EQ(StatusFromErrno(ENOENT, "open x").code(), StatusCode::kNotFound);
  EXPECT_EQ(StatusFromErrno(EPERM, "io_uring_setup").code(), StatusCode::kPermissionDenied);
  EXPECT_NE(StatusFromErrno(ENOENT, "open x").message().find("open x"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed
