// What a source of the user's says of its bytes, and how its failures pass.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// A store with a version, that fails its next reads and counts the bytes that it gives.
class VersionedSource final : public MemorySource {
 public:
  VersionedSource(std::vector<std::byte> bytes, std::string version, int failures = 0)
      : MemorySource("s3://bucket/train.tfrecord", std::move(bytes)),
        version_(std::move(version)),
        failures_(failures) {}

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    if (failures_.fetch_sub(1) > 0) return Status(StatusCode::kIoError, "the store is busy");
    Status status = MemorySource::ReadAt(offset, buffer, bytes_read);
    given_ += *bytes_read;
    return status;
  }
  std::string Version() const override { return version_; }
  std::uint64_t given() const { return given_; }

 private:
  const std::string version_;
  std::atomic<int> failures_;
  std::atomic<std::uint64_t> given_ = 0;
};

class SourceVersionTest : public PipelineTest {
 protected:
  static constexpr std::uint64_t kRecords = 3000;

  static std::vector<std::byte> Data(std::uint64_t seed = 1) {
    return MakeTfRecords(0, RandomSizes(seed, kRecords, 100, 100)).bytes;
  }
  Drained ReadGlobally(const std::shared_ptr<Source>& source, const std::string& folder) {
    OpenOptions options = Options();
    options.index_folder = folder;
    Reader reader = Batches(
        Shuffle(OpenSources({source}, options), {.seed = 4, .mode = ShuffleMode::kGlobal}), 50);
    return Drain(reader);
  }
};

TEST_F(SourceVersionTest, ItsIndexIsKeptAndUsedAgain) {
  const std::string folder = directory_.File("indexes");
  std::filesystem::create_directory(folder);
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.push_back(entry.path().filename());
    }
    return names;
  };
  const auto first = std::make_shared<VersionedSource>(Data(), "1");
  const Drained found = ReadGlobally(first, folder);
  EXPECT_EQ(Sorted(found.ids), Numbers(kRecords));
  ASSERT_EQ(files().size(), 1u);
  EXPECT_TRUE(files()[0].starts_with("train.tfrecord-"));

  const auto again = std::make_shared<VersionedSource>(Data(), "1");
  EXPECT_TRUE(ReadGlobally(again, folder) == found);
  EXPECT_LT(again->given() + Data().size() / 2, first->given());

  // Another version: the index is made anew, whatever else is equal.
  const auto other = std::make_shared<VersionedSource>(Data(), "2");
  EXPECT_TRUE(ReadGlobally(other, folder) == found);
  EXPECT_GE(other->given() + Data().size() / 4, first->given());
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(SourceVersionTest, AnIndexFolderWithoutAVersionIsRefused) {
  try {
    (void)ReadGlobally(std::make_shared<VersionedSource>(Data(), ""), directory_.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Version()"), std::string::npos) << error.what();
  }
}

TEST_F(SourceVersionTest, AnIoErrorIsTriedAgain) {
  for (const int failures : {3, 1000}) {
    OpenOptions options = Options();
    options.format = "tfrecord";
    options.io.retries = 3;
    const auto source = std::make_shared<VersionedSource>(Data(), "", failures);
    Reader reader = Batches(OpenSources({source}, options), 50);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.ids.size(), failures == 3 ? kRecords : 0u);
    EXPECT_EQ(found.status.code(), failures == 3 ? StatusCode::kOk : StatusCode::kIoError);
  }
}

}  // namespace
}  // namespace ringfeed
