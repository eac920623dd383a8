#include "io/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "io/file_mapping.h"
#include "io/guarded_sources.h"
#include "io/page_cache.h"
#include "io/read_engine.h"
#include "tests/support/pattern_file.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kLarge = 8u << 20;

class InputFileTest : public testing::Test {
 protected:
  std::string NewFile(std::uint64_t bytes, const std::string& name = "data") const {
    const std::string path = directory_.File(name);
    WritePatternFile(path, bytes);
    return path;
  }
  static std::unique_ptr<InputFile> Open(const std::string& path, IoPath how = IoPath::kAuto,
                                         bool may_map = false) {
    IoOptions options;
    options.path = how;
    OpenInputResult result = OpenInput(path, options, {.may_map = may_map});
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    return std::move(result.file);
  }
  /// A file that was in the page cache before it was opened and still is; null where the kernel
  /// keeps none.
  static std::unique_ptr<InputFile> OpenWarm(const std::string& path, bool may_map = false) {
    for (int tried = 0; tried < 5; ++tried) {
      if (!MakeWarm(path)) continue;
      std::unique_ptr<InputFile> file = Open(path, IoPath::kAuto, may_map);
      if (CachedShare(path) == 1) return file;
    }
    return nullptr;
  }
  static StatusCode FailureOf(const std::string& path, IoPath how = IoPath::kAuto) {
    IoOptions options;
    options.path = how;
    const OpenInputResult result = OpenInput(path, options);
    EXPECT_EQ(result.file, nullptr);
    EXPECT_NE(result.status.ToString().find(path), std::string::npos) << result.status.ToString();
    return result.status.code();
  }

  const TempDir directory_;
};

TEST_F(InputFileTest, AFileInThePageCacheIsReadInline) {
  const std::string path = NewFile(kLarge);
  const std::unique_ptr<InputFile> file = OpenWarm(path);
  if (file == nullptr) GTEST_SKIP() << kKeepsNoFiles;
  EXPECT_EQ(file->choice().path, IoPath::kPread);
  EXPECT_TRUE(file->choice().resident);
  EXPECT_FALSE(file->choice().direct);
  EXPECT_EQ(file->alignment(), 1u);
  EXPECT_EQ(file->choice().file, path);
}

TEST_F(InputFileTest, AFileInThePageCacheIsMappedWhereItWillBeReadAgain) {
  const std::string path = NewFile(kLarge);
  const std::unique_ptr<InputFile> file = OpenWarm(path, true);
  if (file == nullptr) GTEST_SKIP() << kKeepsNoFiles;
  EXPECT_EQ(file->choice().path, IoPath::kMmap);
  EXPECT_EQ(file->descriptor(), -1);
  ASSERT_EQ(file->mapping().size(), kLarge);
  EXPECT_EQ(FirstDifference(file->mapping(), 0), kLarge);
}

TEST_F(InputFileTest, AColdLargeFileComesByTheRingOrThePool) {
  const std::string path = NewFile(kLarge);
  if (!MakeCold(path)) GTEST_SKIP() << kDropsNoFiles;
  const std::unique_ptr<InputFile> file = Open(path, IoPath::kAuto, true);
  const UringProbe& probe = ProbeUring();
  EXPECT_EQ(file->choice().path, probe.available ? IoPath::kUring : IoPath::kPread);
  EXPECT_FALSE(file->choice().resident);
  if (!probe.available) {
    EXPECT_NE(file->choice().reason.find(probe.reason), std::string::npos) << file->choice().reason;
  }
  if (file->choice().direct) {
    EXPECT_GE(file->alignment(), 512u);
  }
}

TEST_F(InputFileTest, AColdLargeFileThatMayBeLoadedFillsThePageCacheAsItIsRead) {
  const std::string path = NewFile(3 * kLarge + 1001);
  if (!MakeCold(path)) GTEST_SKIP() << kDropsNoFiles;
  std::uint64_t asked = 0;
  const auto may_load = [&](std::uint64_t bytes) {
    asked = bytes;
    return true;
  };
  OpenInputResult opened = OpenInput(path, IoOptions(), {.may_load = may_load});
  ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
  InputFile* const file = opened.file.get();
  EXPECT_EQ(asked, 3 * kLarge + 1001);
  EXPECT_TRUE(file->loads_ahead());
  EXPECT_EQ(file->choice().path, IoPath::kPread);
  EXPECT_FALSE(file->choice().direct);
  EXPECT_FALSE(file->choice().resident);
  AlignedBuffer buffer(1 << 20);
  for (std::uint64_t offset = 0; offset < file->size(); offset += buffer.span().size()) {
    std::size_t bytes = 0;
    ASSERT_TRUE(file->ReadAt(offset, buffer.span(), &bytes).ok());
    ASSERT_EQ(bytes, std::min<std::uint64_t>(buffer.span().size(), file->size() - offset));
    ASSERT_EQ(FirstDifference(buffer.span().first(bytes), offset), bytes);
  }
  if (CachedShare(path) < 1) GTEST_SKIP() << kKeepsNoFiles;
  EXPECT_TRUE(Open(path)->choice().resident);
}

TEST_F(InputFileTest, OnlyOfAColdLargeFileOfNoForcedPathIsAskedWhetherItMayBeLoaded) {
  const auto asks = [&](const std::string& path, IoPath how, bool answer) {
    bool asked = false;
    const auto may_load = [&](std::uint64_t) {
      asked = true;
      return answer;
    };
    const OpenInputResult opened = OpenInput(path, {.path = how}, {.may_load = may_load});
    EXPECT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_EQ(opened.file->loads_ahead(), asked && answer);
    return asked;
  };
  const std::string small = NewFile(10001, "small");
  MakeCold(small);
  EXPECT_FALSE(asks(small, IoPath::kAuto, true));
  const std::string path = NewFile(kLarge);
  if (!MakeCold(path)) GTEST_SKIP() << kDropsNoFiles;
  EXPECT_FALSE(asks(path, IoPath::kPread, true));
  EXPECT_TRUE(asks(path, IoPath::kAuto, false));
  if (!MakeWarm(path)) GTEST_SKIP() << kKeepsNoFiles;
  EXPECT_FALSE(asks(path, IoPath::kAuto, true));
}

TEST_F(InputFileTest, LookingAtAColdFileDoesNotWarmIt) {
  const std::string path = NewFile(kLarge);
  if (!MakeCold(path)) GTEST_SKIP() << kDropsNoFiles;
  for (int round = 0; round < 3; ++round) EXPECT_FALSE(Open(path)->choice().resident);
}

TEST_F(InputFileTest, ASmallColdFileIsReadInline) {
  const std::string path = NewFile(10001);
  MakeCold(path);
  const std::unique_ptr<InputFile> file = Open(path);
  EXPECT_EQ(file->choice().path, IoPath::kPread);
  EXPECT_FALSE(file->choice().direct);
  AlignedBuffer buffer(10001);
  std::size_t bytes = 0;
  EXPECT_TRUE(file->ReadAt(0, buffer.span(), &bytes).ok());
  EXPECT_EQ(bytes, 10001u);
  EXPECT_EQ(FirstDifference(buffer.span(), 0), bytes);
}

TEST_F(InputFileTest, ReadAtStopsAtTheEnd) {
  const std::string path = NewFile(10001);
  for (const IoPath how : {IoPath::kPread, IoPath::kMmap}) {
    const std::unique_ptr<InputFile> file = Open(path, how);
    AlignedBuffer buffer(4096);
    std::size_t bytes = 0;
    EXPECT_TRUE(file->ReadAt(8192, buffer.span(), &bytes).ok());
    EXPECT_EQ(bytes, 1809u);
    EXPECT_TRUE(file->ReadAt(20000, buffer.span(), &bytes).ok());
    EXPECT_EQ(bytes, 0u);
  }
}

TEST_F(InputFileTest, EachPathCanBeForced) {
  const std::string path = NewFile(kLarge);
  for (const bool warm : {false, true}) {
    warm ? MakeWarm(path) : MakeCold(path);
    EXPECT_EQ(Open(path, IoPath::kPread)->choice().path, IoPath::kPread);
    EXPECT_EQ(Open(path, IoPath::kMmap)->choice().path, IoPath::kMmap);
    if (ProbeUring().available) {
      EXPECT_EQ(Open(path, IoPath::kUring)->choice().path, IoPath::kUring);
    } else {
      // A lack of memory that may be locked may pass.
      const StatusCode why = FailureOf(path, IoPath::kUring);
      EXPECT_TRUE(why == StatusCode::kUnsupported || why == StatusCode::kResourceExhausted);
    }
  }
}

TEST_F(InputFileTest, AnEmptyFileOpensOnEveryPath) {
  const std::string path = NewFile(0);
  for (const IoPath how : {IoPath::kAuto, IoPath::kPread, IoPath::kMmap}) {
    const std::unique_ptr<InputFile> file = Open(path, how, true);
    EXPECT_EQ(file->size(), 0u);
    EXPECT_TRUE(file->mapping().empty());
    EXPECT_FALSE(file->damaged());
  }
}

TEST_F(InputFileTest, WhatIsNoReadableFileIsNamedInAnError) {
  EXPECT_EQ(FailureOf(directory_.File("missing")), StatusCode::kNotFound);
  EXPECT_EQ(FailureOf(directory_.path()), StatusCode::kInvalidArgument);
  const std::string fifo = directory_.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(FailureOf(fifo), StatusCode::kInvalidArgument);
  EXPECT_EQ(FailureOf("/dev/null"), StatusCode::kInvalidArgument);
}

TEST_F(InputFileTest, AFileWithoutPermissionIsAnError) {
  const std::string path = NewFile(100);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const ChildResult child = RunInChild([&](std::string* text) {
    if (!DropPrivileges()) return 2;
    const OpenInputResult result = OpenInput(path, IoOptions());
    *text = result.status.ToString();
    return result.status.code() == StatusCode::kPermissionDenied ? 0 : 1;
  });
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST_F(InputFileTest, RunningOutOfDescriptorsIsAnError) {
  const std::string path = NewFile(100);
  const ChildResult child = RunInChild([&](std::string* text) {
    const rlimit few{16, 16};
    setrlimit(RLIMIT_NOFILE, &few);
    std::vector<std::unique_ptr<InputFile>> files;
    OpenInputResult result;
    do {
      result = OpenInput(path, IoOptions());
      if (result.file != nullptr) files.push_back(std::move(result.file));
    } while (result.status.ok() && files.size() < 100);
    *text = result.status.ToString();
    if (result.status.code() != StatusCode::kResourceExhausted) return 1;
    // Closing one gives its descriptor back.
    files.pop_back();
    return OpenInput(path, IoOptions()).status.ok() ? 0 : 3;
  });
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST_F(InputFileTest, MappedFilesTakeNoDescriptor) {
  const ChildResult child = RunInChild([&](std::string* text) {
    const rlimit few{32, 32};
    setrlimit(RLIMIT_NOFILE, &few);
    IoOptions options;
    options.path = IoPath::kMmap;
    std::vector<std::unique_ptr<InputFile>> files;
    for (int number = 0; number < 100; ++number) {
      const std::string path = directory_.File(std::to_string(number));
      WritePatternFile(path, 1000);
      OpenInputResult result = OpenInput(path, options);
      *text = result.status.ToString();
      if (!result.status.ok()) return 1;
      files.push_back(std::move(result.file));
    }
    return 0;
  });
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST_F(InputFileTest, AMappingIsSharedUntilTheFileChangesAndEndsWithItsLastOwner) {
  const std::string path = NewFile(kLarge);
  const std::size_t before = FileMapping::Count();
  std::unique_ptr<InputFile> first = Open(path, IoPath::kMmap);
  // It is mapped: no need to be told that it will be read again.
  std::unique_ptr<InputFile> again = OpenWarm(path);
  if (again == nullptr) GTEST_SKIP() << kKeepsNoFiles;
  EXPECT_EQ(again->choice().path, IoPath::kMmap);
  EXPECT_EQ(again->mapping().data(), first->mapping().data());
  EXPECT_EQ(FileMapping::Count(), before + 1);
  first.reset();
  EXPECT_TRUE(IsMappedHere(path));
  again.reset();
  EXPECT_FALSE(IsMappedHere(path));
  EXPECT_EQ(FileMapping::Count(), before);
  const std::unique_ptr<InputFile> unmapped = OpenWarm(path);
  if (unmapped == nullptr) GTEST_SKIP() << kKeepsNoFiles;
  EXPECT_EQ(unmapped->choice().path, IoPath::kPread);
  const std::unique_ptr<InputFile> still = Open(path, IoPath::kMmap);
  WritePatternFile(path, kLarge + 1, 5);
  const std::unique_ptr<InputFile> changed = Open(path, IoPath::kMmap);
  EXPECT_EQ(FirstDifference(changed->mapping(), 0, 5), kLarge + 1);
}

TEST_F(InputFileTest, AMappedFileThatShrankReadsAsZerosAndIsMarked) {
  const std::string path = NewFile(kLarge);
  const std::unique_ptr<InputFile> file = Open(path, IoPath::kMmap);
  EXPECT_FALSE(file->damaged());
  std::filesystem::resize_file(path, 4096);
  const auto touch = [&](std::size_t offset) {
    return std::byte{static_cast<const volatile std::byte*>(file->mapping().data())[offset]};
  };
  EXPECT_EQ(touch(4095), PatternByte(4095));
  EXPECT_TRUE(file->damaged());  // also where nobody has touched what is gone
  EXPECT_EQ(touch(kLarge - 1), std::byte{0});
  EXPECT_TRUE(file->damaged());
  EXPECT_EQ(touch(4096), std::byte{0});
  // Another file of the same time is not confused with it.
  const std::unique_ptr<InputFile> anew = Open(path, IoPath::kMmap);
  EXPECT_FALSE(anew->damaged());
  EXPECT_EQ(anew->size(), 4096u);
}

TEST_F(InputFileTest, AFaultInSomebodyElsesMappingStillKills) {
  const std::string path = NewFile(kLarge);
  const ChildResult child = RunInChild([&](std::string* /*text*/) {
    signal(SIGBUS, SIG_DFL);  // a sanitizer's handler would report instead
    const std::unique_ptr<InputFile> ours = Open(path, IoPath::kMmap);
    const std::string other = directory_.File("other");
    WritePatternFile(other, 8192);
    const int descriptor = open(other.c_str(), O_RDONLY);
    const auto* const theirs = static_cast<const volatile std::byte*>(
        mmap(nullptr, 8192, PROT_READ, MAP_SHARED, descriptor, 0));
    std::filesystem::resize_file(other, 0);
    return theirs[5000] == std::byte{1} ? 1 : 2;
  });
  EXPECT_TRUE(child.signalled);
  EXPECT_EQ(child.status, SIGBUS);
}

/// Touches a page that the file no longer has; whether that was survived and seen.
bool SurvivesACut(const InputFile& file, const std::string& path) {
  usleep(1000);  // what was looked at just now is not looked at again
  AwaitSigbus();
  std::filesystem::resize_file(path, 0);
  const std::byte seen{static_cast<const volatile std::byte*>(file.mapping().data())[0]};
  return seen == std::byte{0} && file.damaged();
}

TEST_F(InputFileTest, AMappedFileThatShrankIsSurvivedWhereAllSignalsAreBlocked) {
  const std::string path = NewFile(kLarge);
  const ChildResult child = RunInChild([&](std::string* /*text*/) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    const std::unique_ptr<InputFile> file = Open(path, IoPath::kMmap);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    return SurvivesACut(*file, path) ? 0 : 1;
  });
  EXPECT_FALSE(child.signalled);
  EXPECT_EQ(child.status, 0);
}

struct sigaction replaced_by_late;
constinit std::atomic<int>* late_calls = nullptr;  // shared with the parent

// As Python's faulthandler.
void PassOnByRaising(int signal) {
  ++*late_calls;
  sigaction(SIGBUS, &replaced_by_late, nullptr);
  raise(signal);
}

void PassOnByCalling(int signal, siginfo_t* info, void* context) {
  ++*late_calls;
  if ((replaced_by_late.sa_flags & SA_SIGINFO) != 0) {
    replaced_by_late.sa_sigaction(signal, info, context);
  }
}

TEST_F(InputFileTest, AHandlerThatCameLaterGetsFaultsElsewhereOnceAndNoneOfOurs) {
  void* const shared =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (const bool raises : {true, false}) {
    late_calls = new (shared) std::atomic<int>(0);
    const std::string path = NewFile(kLarge);
    const std::string other = directory_.File("other");
    WritePatternFile(other, 8192);
    const ChildResult child = RunInChild([&](std::string* /*text*/) {
      alarm(20);  // a fault that goes round in circles
      signal(SIGBUS, SIG_DFL);
      const std::unique_ptr<InputFile> ours = Open(path, IoPath::kMmap);
      struct sigaction late {};
      if (raises) {
        late.sa_handler = PassOnByRaising;
      } else {
        late.sa_sigaction = PassOnByCalling;
        late.sa_flags = SA_SIGINFO;
      }
      sigaction(SIGBUS, &late, &replaced_by_late);
      if (!SurvivesACut(*ours, path) || *late_calls != 0) return 1;
      const int descriptor = open(other.c_str(), O_RDONLY);
      const auto* const theirs = static_cast<const volatile std::byte*>(
          mmap(nullptr, 8192, PROT_READ, MAP_SHARED, descriptor, 0));
      std::filesystem::resize_file(other, 0);
      return theirs[5000] == std::byte{1} ? 2 : 3;
    });
    EXPECT_TRUE(child.signalled) << child.status;
    EXPECT_EQ(child.status, SIGBUS);
    EXPECT_EQ(late_calls->load(), 1) << raises;
  }
  munmap(shared, 4096);
}

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::size_t claimed) : claimed_(claimed) {}
  std::string name() const override { return "memory"; }
  std::uint64_t Size() const override { return claimed_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    if (offset >= 3000) throw std::runtime_error("out of order");
    if (offset >= 2000) {
      *bytes_read = 0;
      return {};
    }
    *bytes_read = std::min<std::size_t>(buffer.size(), 100);
    for (std::size_t index = 0; index < *bytes_read; ++index) {
      buffer[index] = PatternByte(offset + index);
    }
    return {};
  }

 private:
  const std::size_t claimed_;
};

TEST(SourceInput, ReadsAProgramsOwnSourceThroughTheInlineAndPoolEngines) {
  const OpenInputResult opened = OpenInput(std::make_shared<MemorySource>(1999));
  ASSERT_TRUE(opened.status.ok());
  for (const auto& make : {MakeInlineEngine, MakePoolEngine}) {
    const std::unique_ptr<ReadEngine> engine = make(IoOptions());
    AlignedBuffer buffer(4096);
    ReadRequest request{opened.file.get(), 0, buffer.data(), 4096};
    ReadRequest* read = &request;
    ASSERT_EQ(engine->Submit({&read, 1}), 1u);
    ASSERT_EQ(engine->Reap({&read, 1}, std::chrono::steady_clock::time_point::max()), 1u);
    EXPECT_TRUE(request.status.ok()) << request.status.ToString();
    EXPECT_EQ(request.got, 1999u);
    EXPECT_EQ(FirstDifference(buffer.span().first(1999), 0), 1999u);
  }
}

TEST(SourceInput, FailuresOfTheSourceAreItsOwn) {
  const OpenInputResult opened = OpenInput(Guarded(std::make_shared<MemorySource>(5000)));
  AlignedBuffer buffer(1000);
  std::size_t bytes = 0;
  const Status early = opened.file->ReadAt(1500, buffer.span(), &bytes);
  EXPECT_EQ(early.code(), StatusCode::kTruncated) << early.ToString();
  EXPECT_EQ(bytes, 500u);
  const Status thrown = opened.file->ReadAt(3000, buffer.span(), &bytes);
  EXPECT_EQ(thrown.code(), StatusCode::kUserError);
  EXPECT_NE(thrown.message().find("out of order"), std::string::npos);
  EXPECT_EQ(OpenInput(std::shared_ptr<Source>()).status.code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringfeed
