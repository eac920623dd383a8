#include "readers/index/manifest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "readers/engine/files/record_set.h"
#include "readers/index/manifest_writer.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/readers/index/made_manifest.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

std::vector<std::byte> BytesOf(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A store that has a version, and notes which pieces of it are read.
class CountingSource final : public MemorySource {
 public:
  CountingSource(std::string name, const std::string& bytes, std::string version)
      : MemorySource(std::move(name), BytesOf(bytes)), version_(std::move(version)) {}
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    if (fails_.exchange(false)) return Status(StatusCode::kIoError, "the store is busy");
    ++reads_;
    return MemorySource::ReadAt(offset, buffer, bytes_read);
  }
  std::string Version() const override { return version_; }
  int reads() const { return reads_; }
  void FailOnce() { fails_ = true; }

 private:
  const std::string version_;
  std::atomic<int> reads_ = 0;
  std::atomic<bool> fails_ = false;
};

class ManifestTest : public testing::Test {
 protected:
  std::string Lines(const std::string& name, std::size_t lines, const std::string& line = "line ") {
    std::string text;
    for (std::size_t i = 0; i < lines; ++i) text += line + std::to_string(i) + "\n";
    WriteText(folder_.File(name), text);
    return folder_.File(name);
  }
  static std::shared_ptr<const Manifest> Opened(const std::string& path) {
    std::shared_ptr<const Manifest> manifest;
    const Status status = Manifest::Open(path, &manifest);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return manifest;
  }
  static IndexedFile AsListed(const std::shared_ptr<const Manifest>& manifest, std::size_t entry) {
    const ExaminedFile examined = manifest->Examine(entry, nullptr, "", 1);
    IndexedFile file{examined.name, nullptr, examined.bytes, examined.format};
    file.manifest = manifest;
    file.entry = entry;
    return file;
  }
  RecordSet SetOf(const std::vector<std::string>& names,
                  const std::vector<std::shared_ptr<Source>>& sources = {}) const {
    RecordSet::Options options;
    options.stripe_bytes = 4096;
    options.index.manifest = Opened(path_);
    return RecordSet(names, sources, options);
  }
  /// Everything in it, looked at once. The failure, if there is one.
  Status LookAtAll(const std::string& bytes) const {
    std::shared_ptr<const Manifest> manifest;
    Status status = Manifest::Open(std::make_shared<CountingSource>(path_, bytes, ""), &manifest);
    for (std::size_t i = 0; status.ok() && i < manifest->files(); ++i) {
      ManifestEntry entry;
      status = manifest->Take(i, &entry);
      if (status.ok() && entry.index != nullptr) status = entry.index->CheckPages();
      if (status.ok() && entry.lengths != nullptr) status = entry.lengths->CheckAll();
    }
    return status;
  }

  const TestFolder folder_;
  const std::string path_ = folder_.File("all.manifest");
};

TEST_F(ManifestTest, HasTheIndexesOfItsFiles) {
  std::vector<std::string> names;
  std::vector<std::string> contents;
  for (const ScannedFile& scanned : ScannedFiles()) {
    if (scanned.format == "csv:header") continue;  // is detected as "csv"
    contents.push_back(scanned.bytes);
    const std::string ending = scanned.format == "lines" ? "txt" : scanned.format;
    names.push_back(folder_.File(std::to_string(names.size()) + "." + ending));
    WriteText(names.back(), scanned.bytes);
  }
  MakeManifest(path_, names);
  const auto manifest = Opened(path_);
  EXPECT_EQ(manifest->names(), names);
  EXPECT_TRUE(manifest->CheckWhole().ok());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const IndexedFile file = AsListed(manifest, i);
    const OpenedIndex opened = OpenRecordIndex(file);
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_EQ(opened.origin, IndexOrigin::kManifest);
    ExpectSameBothWays(file, contents[i], *opened.index);
    EXPECT_TRUE(CheckRecordIndex(file).ok());
    EXPECT_FALSE(std::filesystem::exists(IndexPlaceFor(names[i], {}).shared));
  }
}

TEST_F(ManifestTest, StandsForAThousandSmallFiles) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 1000; ++i) {
    names.push_back(Lines(std::to_string(i) + ".txt", i % 7 == 3 ? 0 : i % 40));
  }
  MakeManifest(path_, names);
  EXPECT_LT(std::filesystem::file_size(path_), 1000u * 512);
  const RecordSet by_manifest = SetOf(names);
  RecordSet::Options options;
  options.stripe_bytes = 4096;
  const RecordSet plain(names, {}, options);
  ASSERT_TRUE(by_manifest.status().ok()) << by_manifest.status().ToString();
  EXPECT_EQ(by_manifest.rows(), plain.rows());
  EXPECT_EQ(by_manifest.fingerprint(), plain.fingerprint());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(by_manifest.FirstRow(i), plain.FirstRow(i));
    EXPECT_EQ(by_manifest.stripes(i), plain.stripes(i));
  }
}

TEST_F(ManifestTest, AnyFlippedBitIsFound) {
  std::string broken = PlainFile(SomePayloads());
  broken[broken.size() / 2] ^= 1;
  WriteText(folder_.File("broken.tfrecord"), broken);
  MakeManifest(path_, {Lines("a.txt", 20), folder_.File("broken.tfrecord"), Lines("c.txt", 0)}, {},
               "raw");
  const std::string good = ReadBytes(path_);
  ASSERT_TRUE(LookAtAll(good).ok());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] ^= static_cast<char>(1 << i % 8);
    const Status status = LookAtAll(flipped);
    ASSERT_FALSE(status.ok()) << "byte " << i << " of " << good.size();
    EXPECT_NE(status.ToString().find(path_), std::string::npos) << status.ToString();
  }
  for (std::size_t bytes = 0; bytes < good.size(); bytes += 7) {
    EXPECT_FALSE(LookAtAll(good.substr(0, bytes)).ok()) << bytes;
  }
  EXPECT_FALSE(LookAtAll(good + "x").ok());
}

TEST_F(ManifestTest, TellsThatAFileHasChangedAndWhatToDo) {
  const std::string name = Lines("a.txt", 3000);
  MakeManifest(path_, {name});
  const std::string good = ReadBytes(name);
  struct stat facts {};
  ASSERT_EQ(stat(name.c_str(), &facts), 0);
  const auto keep_time = [&] {
    const timespec times[2] = {facts.st_mtim, facts.st_mtim};
    ASSERT_EQ(utimensat(AT_FDCWD, name.c_str(), times, 0), 0);
  };
  const auto expect_refused = [&](const std::string& why) {
    const RecordSet set = SetOf({name});
    EXPECT_EQ(set.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(set.file(0).unfit);
    const std::string text = set.status().ToString();
    for (const std::string& part : {why, name, "ringfeed index FILES --manifest " + path_}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  };
  WriteText(name, good + "one more\n");
  keep_time();
  expect_refused("bytes and has");
  WriteText(name, good);
  expect_refused("it was written");
  std::string other = good;
  other[0] = 'L';
  WriteText(name, other);
  keep_time();
  expect_refused("its contents are others");
  // A copy that keeps the time is the same.
  std::filesystem::remove(name);
  WriteText(name, good);
  keep_time();
  EXPECT_TRUE(SetOf({name}).status().ok());
  std::filesystem::remove(name);
  EXPECT_EQ(SetOf({name}).status().code(), StatusCode::kNotFound);
}

TEST_F(ManifestTest, OfAnotherFormatOrLimitItIsRefused) {
  const std::string name = Lines("a.txt", 30);
  MakeManifest(path_, {name});
  RecordSet::Options options;
  options.index.manifest = Opened(path_);
  options.format = "csv";
  const RecordSet as_csv({name}, {}, options);
  EXPECT_EQ(as_csv.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(as_csv.status().message().find("format \"lines\""), std::string::npos);
  options.format = "";
  options.max_record_bytes = 3;
  const RecordSet with_limit({name}, {}, options);
  EXPECT_NE(with_limit.status().message().find("max_record_bytes"), std::string::npos);
}

TEST_F(ManifestTest, PartsInAnyOrderMakeTheBytesOfOneRun) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 5; ++i) names.push_back(Lines(std::to_string(i) + ".txt", 400 * i));
  MakeManifest(path_, names, {}, "raw");
  const auto part = [&](const std::string& name) { return folder_.File("parts/" + name); };
  std::filesystem::create_directory(folder_.File("parts"));
  MakeManifest(part("a"), names, {0, 3}, "raw");
  MakeManifest(part("b"), names, {4}, "raw");
  MakeManifest(part("c"), names, {2, 1}, "raw");
  const std::string merged = folder_.File("merged");
  ASSERT_TRUE(MergeManifests({part("c"), part("a"), part("b")}, merged).ok());
  EXPECT_EQ(ReadBytes(merged), ReadBytes(path_));
  ASSERT_TRUE(MergeManifests({merged}, merged).ok());
  EXPECT_EQ(ReadBytes(merged), ReadBytes(path_));

  const auto refusal = [&](const std::vector<std::string>& parts) {
    const Status status = MergeManifests(parts, folder_.File("none"));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.ToString();
  };
  EXPECT_NE(refusal({part("a"), part("b")}).find("file 1 of the list"), std::string::npos);
  EXPECT_NE(refusal({part("a"), part("c"), part("a")}).find("so has"), std::string::npos);
  MakeManifest(part("d"), names, {4}, "another");
  EXPECT_NE(refusal({part("a"), part("c"), part("d")}).find("another list"), std::string::npos);
  EXPECT_NE(Opened(part("a"))->CheckWhole().message().find("--merge"), std::string::npos);
  std::string bytes = ReadBytes(part("b"));
  bytes.back() ^= 1;
  WriteText(part("b"), bytes);
  EXPECT_EQ(MergeManifests({part("a"), part("c"), part("b")}, merged).code(), StatusCode::kDamaged);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("none")));
  EXPECT_EQ(ReadBytes(merged), ReadBytes(path_));
}

TEST_F(ManifestTest, NamesGoWithItsFolder) {
  const auto there_and_back = [](const std::string& path, const std::string& name) {
    return NameFromManifest(path, NameInManifest(path, name));
  };
  EXPECT_EQ(NameInManifest("data/x.manifest", "data/sub/a"), "sub/a");
  EXPECT_EQ(NameInManifest("x.manifest", "./data/a"), "data/a");
  EXPECT_EQ(there_and_back("data/x.manifest", "data/sub/a"), "data/sub/a");
  EXPECT_EQ(there_and_back("x.manifest", "a"), "a");
  EXPECT_EQ(there_and_back("/m/x.manifest", "/data/a"), "/data/a");
  EXPECT_EQ(there_and_back("m/x.manifest", "data/a"), std::filesystem::absolute("data/a"));
  EXPECT_EQ(NameInManifest("s3://b/k/x.manifest", "s3://b/k/sub/a"), "sub/a");
  for (const std::string name :
       {"s3://b/k/sub/a", "s3://b/other", "s3://b/k//a", "https://h/a?q=/"}) {
    EXPECT_EQ(there_and_back("s3://b/k/x.manifest", name), name);
    EXPECT_EQ(there_and_back("data/x.manifest", name), name);
  }
  EXPECT_EQ(NameFromManifest("https://h/k/x.manifest?secret/=1", "a"), "https://h/k/a");

  const std::string name = Lines("a.txt", 30);
  MakeManifest(path_, {name});
  std::filesystem::create_directory(folder_.File("moved"));
  std::filesystem::rename(path_, folder_.File("moved/all.manifest"));
  std::filesystem::rename(name, folder_.File("moved/a.txt"));
  const auto moved = Opened(folder_.File("moved/all.manifest"));
  EXPECT_EQ(moved->names(), std::vector{folder_.File("moved/a.txt")});
  EXPECT_TRUE(OpenRecordIndex(AsListed(moved, 0)).status.ok());
}

TEST_F(ManifestTest, FromAfarItNamesNoFileOfThisMachine) {
  MakeManifest(folder_.File("all.manifest"), {Lines("a.txt", 3)});
  std::filesystem::create_directory(folder_.File("away"));
  MakeManifest(folder_.File("away/all.manifest"), {folder_.File("a.txt")});
  std::shared_ptr<const Manifest> manifest;
  const auto open = [&](const std::string& path) {
    return Manifest::Open(
        std::make_shared<CountingSource>("s3://bucket/x?secret", ReadBytes(path), "1"), &manifest);
  };
  ASSERT_TRUE(open(folder_.File("all.manifest")).ok());
  EXPECT_EQ(manifest->names(), std::vector<std::string>{"s3://bucket/a.txt"});
  const Status refused = open(folder_.File("away/all.manifest"));
  EXPECT_EQ(refused.code(), StatusCode::kDamaged);
  EXPECT_EQ(refused.ToString().find("secret"), std::string::npos);
}

TEST_F(ManifestTest, OfASourceOnlyWhatIsNeededIsRead) {
  const std::string name = Lines("a.txt", 1'200'000, "");
  const std::string few = Lines("b.txt", 10);
  MakeManifest(path_, {name, few}, {}, "raw");
  const auto source = std::make_shared<CountingSource>("x.manifest", ReadBytes(path_), "1");
  const std::size_t pieces = source->Size() / FetchedBytes::kPieceBytes + 1;
  ASSERT_GE(pieces, 8u);
  std::shared_ptr<const Manifest> manifest;
  ASSERT_TRUE(Manifest::Open(source, &manifest).ok());
  EXPECT_EQ(source->reads(), 1);
  const auto local = Opened(path_);
  IndexedFile file = AsListed(local, 0);
  std::shared_ptr<const PagedIndex> index;
  std::shared_ptr<const PagedIndex> known;
  ASSERT_TRUE(manifest->OpenIndex(0, file, &index).ok());
  ASSERT_TRUE(local->OpenIndex(0, file, &known).ok());
  EXPECT_EQ(source->reads(), 1);
  std::uint64_t record = 0;
  const auto find = [&](const PagedIndex& of) {
    RecordUnit unit;
    const Status status = of.Find({&record, 1}, {&unit, 1});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::pair(unit.offset, unit.bytes);
  };
  for (record = 600'000; record < 600'100; ++record) EXPECT_EQ(find(*index), find(*known));
  EXPECT_EQ(source->reads(), 2);
  EXPECT_TRUE(index->CheckPages().ok());
  std::shared_ptr<const LengthColumn> column;
  ASSERT_TRUE(
      manifest->OpenLengths(0, {"raw", {}, 1'200'000, file.max_record_bytes}, &column).ok());
  EXPECT_TRUE(column->CheckAll().ok());
  EXPECT_LE(source->reads(), static_cast<int>(pieces));
  EXPECT_EQ(
      manifest->OpenLengths(0, {"other", {}, 1'200'000, file.max_record_bytes}, &column).code(),
      StatusCode::kNotFound);
}

TEST_F(ManifestTest, SourcesOfItsVersionsAreNotReadToBeOpened) {
  const std::vector<std::string> names{Lines("a.txt", 3000), Lines("b.txt", 10)};
  const auto sources = [&](const std::string& version) {
    std::vector<std::shared_ptr<Source>> made;
    for (const std::string& name : names) {
      made.push_back(std::make_shared<CountingSource>(name, ReadBytes(name), version));
    }
    return made;
  };
  const std::vector<std::shared_ptr<Source>> then = sources("1");
  std::vector<ManifestEntry> entries;
  for (std::size_t i = 0; i < 2; ++i) entries.push_back(MadeEntry(i, names[i], "", then[i]));
  ASSERT_TRUE(WriteManifest(path_, ListOf(names, ""), std::move(entries)).ok());
  const std::vector<std::shared_ptr<Source>> now = sources("1");
  const RecordSet set = SetOf(names, now);
  ASSERT_TRUE(set.status().ok()) << set.status().ToString();
  EXPECT_EQ(set.rows(), 3010u);
  for (const auto& source : now) EXPECT_EQ(static_cast<CountingSource&>(*source).reads(), 0);
  EXPECT_EQ(set.fingerprint(), RecordSet(names, {}, {}).fingerprint());
  EXPECT_NE(SetOf(names, sources("2")).status().message().find("ETag"), std::string::npos);
  // Fetched to this machine, and stores that tell no version: by size and sample.
  EXPECT_TRUE(SetOf(names).status().ok());
  EXPECT_TRUE(SetOf(names, sources("")).status().ok());
}

TEST(FetchedBytesTest, APieceIsReadOnceByAllAndAgainAfterAFailure) {
  const std::string bytes(3 * FetchedBytes::kPieceBytes + 2000, 'x');
  const auto source = std::make_shared<CountingSource>("far", bytes, "");
  std::shared_ptr<const FetchedBytes> fetched;
  ASSERT_TRUE(FetchedBytes::Open(source, &fetched).ok());
  source->FailOnce();
  EXPECT_EQ(fetched->Need(fetched->bytes().first(1)).code(), StatusCode::kIoError);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = 0; at < bytes.size(); at += 1000) {
          const auto wanted =
              fetched->bytes().subspan(at, std::min<std::size_t>(9, bytes.size() - at));
          ASSERT_TRUE(fetched->Need(wanted).ok());
          ASSERT_EQ(wanted.back(), std::byte{'x'});
        }
      });
    }
  }
  EXPECT_EQ(source->reads(), 4);
}

TEST(CheckListableTest, AnAddressWithAQueryIsRefusedAndNotShown) {
  const std::vector<std::string> listable = {"a.rec", "a?b=c", "s3://bucket/date=1/part-?.rec",
                                             "https://host/a", "https://host"};
  EXPECT_TRUE(CheckListable(listable).ok());
  std::vector<std::string> names = listable;
  names.push_back("https://host/b?X-Amz-Signature=SECRET");
  const Status status = CheckListable(names);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.place().file, "https://host/b");
  EXPECT_EQ(status.ToString().find("SECRET"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find("s3://"), std::string::npos) << "no way out";
}

}  // namespace
}  // namespace ringfeed
