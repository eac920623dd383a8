#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/direct/cufile_library.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/reader.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {

/// Devices and a cuFile that reads into their memory: a stand-in over emulated ones, or NVIDIA's.
struct DirectRig {
  std::string name;
  /// Null, with the reason in *why_not, where there is none: then the tests skip.
  std::function<std::shared_ptr<DeviceBackend>(std::string* why_not)> open;
  std::function<std::shared_ptr<CuFileLibrary>()> library;
};
inline std::ostream& operator<<(std::ostream& out, const DirectRig& rig) { return out << rig.name; }

/// What came onto the device, and how.
struct DirectOutcome {
  std::vector<std::string> batches;  ///< shapes and bytes
  std::string end;                   ///< "", or the failure
  std::uint64_t damaged = 0;
  std::vector<std::string> losses;
  DeviceFeedStats stats;

  /// The same came, and the same was said of it.
  friend bool operator==(const DirectOutcome& a, const DirectOutcome& b) {
    return a.batches == b.batches && a.end == b.end && a.damaged == b.damaged &&
           a.losses == b.losses;
  }
};
std::ostream& operator<<(std::ostream& out, const DirectOutcome& outcome);

/// Feeds to the end, and compares what devices said with what they may say.
class DirectTest : public PipelineTest, public testing::WithParamInterface<DirectRig> {
 protected:
  static constexpr std::size_t kRowBytes = 24'008;

  void SetUp() override;
  DirectOutcome Feed(const Reader& reader, TransferPlan transfer, FeedOptions options = {});
  /// The same of `chain` by the CPU and directly.
  void ExpectTheSame(const std::function<Reader()>& chain, const FeedOptions& options = {});
  /// A feed by cuFile that ends after its first batch.
  void TakeOneDirectly(const Reader& reader);
  /// Batches come without a feed, up to the end.
  static void ExpectMore(Reader* reader);

  OpenOptions Fresh(const std::string& format) const;
  /// Rows of an i64 and bytes, no two alike.
  std::string Rows(std::size_t rows, std::size_t row_bytes = kRowBytes);
  static std::shared_ptr<const Parser> RowParser(std::size_t row_bytes = kRowBytes);
  static Reader Globally(Reader reader);
  /// Rows of a file in a global order, in batches of six.
  Reader RowChain(const std::string& path, OnDamage on_damage = OnDamage::kFail) const;

  std::shared_ptr<DeviceBackend> backend_;
  std::shared_ptr<CuFileLibrary> library_;
};

}  // namespace ringfeed
