#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "io/timed_stop.h"
#include "ringfeed/source.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

void Write(int descriptor, const std::string& text) {
  ASSERT_EQ(write(descriptor, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

/// One Read as text; "<end>" at the end, the code's name on failure.
std::string ReadText(StreamSource* stream, std::stop_token stop = {}) {
  std::array<std::byte, 64> buffer{};
  std::size_t bytes = 0;
  const Status status = stream->Read(buffer, &bytes, std::move(stop));
  if (!status.ok()) return std::string(StatusCodeName(status.code()));
  if (bytes == 0) return "<end>";
  return {reinterpret_cast<const char*>(buffer.data()), bytes};
}

TEST(Stream, PassesShortReadsOnAndEndsWithItsWriter) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::unique_ptr<StreamSource> stream = OpenDescriptor(ends[0], "pipe", true);
  EXPECT_EQ(stream->name(), "pipe");
  Write(ends[1], "abc");
  EXPECT_EQ(ReadText(stream.get()), "abc");
  Write(ends[1], "d");
  close(ends[1]);
  EXPECT_EQ(ReadText(stream.get()), "d");
  EXPECT_EQ(ReadText(stream.get()), "<end>");
  EXPECT_EQ(ReadText(stream.get()), "<end>");
}

TEST(Stream, ClosesOnlyADescriptorThatItOwns) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  OpenDescriptor(ends[0], "pipe", false).reset();
  EXPECT_NE(fcntl(ends[0], F_GETFD), -1);
  OpenDescriptor(ends[0], "pipe", true).reset();
  EXPECT_EQ(fcntl(ends[0], F_GETFD), -1);
  close(ends[1]);
}

TEST(Stream, AStopEndsAReadThatWaits) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::unique_ptr<StreamSource> stream = OpenDescriptor(ends[0], "pipe", true);
  for (int round = 0; round < 50; ++round) {
    std::stop_source stop;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
      stop.request_stop();
    });
    EXPECT_EQ(ReadText(stream.get(), stop.get_token()), "cancelled");
    EXPECT_EQ(ReadText(stream.get(), stop.get_token()), "cancelled");
    stopper.join();
  }
  // A stop of an earlier call does not end a later one that has another token.
  Write(ends[1], "after");
  std::stop_source unused;
  EXPECT_EQ(ReadText(stream.get(), unused.get_token()), "after");
  close(ends[1]);
}

TEST(Stream, AFifoWithoutAWriterYetIsNotAtItsEnd) {
  const TempDir directory;
  const std::string fifo = directory.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(IsStreamName(fifo));
  const std::unique_ptr<StreamSource> stream = OpenStream(fifo);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(30));
    stop.request_stop();
  });
  EXPECT_EQ(ReadText(stream.get(), stop.get_token()), "cancelled");
  std::jthread writer([&] {
    std::this_thread::sleep_for(milliseconds(30));
    const int end = open(fifo.c_str(), O_WRONLY);
    std::this_thread::sleep_for(milliseconds(30));
    Write(end, "late");
    close(end);
  });
  EXPECT_EQ(ReadText(stream.get()), "late");
  EXPECT_EQ(ReadText(stream.get()), "<end>");
}

TEST(Stream, AFifoWhoseWriterWritesNothingEnds) {
  const TempDir directory;
  const std::string fifo = directory.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::unique_ptr<StreamSource> stream = OpenStream(fifo);
  std::jthread writer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    close(open(fifo.c_str(), O_WRONLY));
  });
  EXPECT_EQ(ReadText(stream.get()), "<end>");
}

/// Listens at `address`, sends "hello" to whoever connects and closes.
std::jthread Greet(int listener) {
  return std::jthread([listener] {
    const int peer = accept(listener, nullptr, nullptr);
    Write(peer, "hello");
    close(peer);
    close(listener);
  });
}

TEST(Stream, AWriterThatComesAndGoesWhileAFifoIsOpenedAgainHasItsBytesAndItsEnd) {
  const TempDir directory;
  const std::string fifo = directory.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto stream = OpenStream(fifo);
  const auto send = [&](const std::string& text) {
    const int descriptor = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(write(descriptor, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(descriptor);
  };
  // The stream is not opened again before the next writer has gone.
  for (const std::string text : {"first", "second", "third"}) {
    send(text);
    if (text != "first") {
      ASSERT_TRUE(stream->Reopen({}).ok());
    }
    EXPECT_EQ(ReadText(stream.get()), text);
    const TimedStop patience({}, std::chrono::seconds(20));
    EXPECT_EQ(ReadText(stream.get(), patience.token()), "<end>") << text;
  }
  ASSERT_TRUE(stream->Reopen({}).ok());
  send("a later one");
  EXPECT_EQ(ReadText(stream.get()), "a later one");
}

TEST(Stream, ReadsFromASocketOfThisMachine) {
  const TempDir directory;
  const std::string path = directory.File("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  const std::jthread greeter = Greet(listener);
  const std::unique_ptr<StreamSource> stream = OpenStream("unix:" + path);
  EXPECT_EQ(ReadText(stream.get()), "hello");
  EXPECT_EQ(ReadText(stream.get()), "<end>");
}

TEST(Stream, ReadsFromATcpPeer) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t bytes = sizeof(address);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    GTEST_SKIP() << "no loopback interface here";
  }
  const std::jthread greeter = Greet(listener);
  const std::unique_ptr<StreamSource> stream =
      OpenStream("tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  EXPECT_EQ(ReadText(stream.get()), "hello");
  EXPECT_EQ(ReadText(stream.get()), "<end>");
}

TEST(Stream, ANameThatCannotBeOpenedThrows) {
  const TempDir directory;
  EXPECT_THROW(OpenStream(directory.File("missing")), Error);
  EXPECT_THROW(OpenStream(directory.path()), Error);
  EXPECT_THROW(OpenStream("unix:" + directory.File("missing")), Error);
  EXPECT_THROW(OpenStream("unix:" + std::string(200, 'x')), Error);
  EXPECT_THROW(OpenStream("tcp:nothing"), Error);
  EXPECT_THROW(OpenStream("tcp::80"), Error);
  for (const char* const port : {"65536", "99999", "0", "18446744073709551696", "080000"}) {
    try {
      OpenStream(std::string("tcp:127.0.0.1:") + port);
      ADD_FAILURE() << port;
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument) << port;
    }
  }
}

TEST(Stream, TellsStreamsFromFilesByName) {
  const TempDir directory;
  WritePatternFile(directory.File("data"), 10);
  EXPECT_TRUE(IsStreamName("-"));
  EXPECT_TRUE(IsStreamName("/dev/stdin"));
  EXPECT_TRUE(IsStreamName("unix:/run/x"));
  EXPECT_TRUE(IsStreamName("tcp:host:1"));
  EXPECT_FALSE(IsStreamName(directory.File("data")));
  EXPECT_FALSE(IsStreamName(directory.File("missing")));
}

}  // namespace
}  // namespace ringfeed
