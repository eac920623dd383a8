// Bytes from elsewhere than whole files: a store of one's own, a range, chunks, streams.
//
// Prints:
//   a store: 3 lines
//   a range of a file: 2 lines
//   chunk 1 of 3: 2 records
//   two pipes together: 5 lines
//   a stream that is opened again: 4 lines, closed: 1
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// A file of a store of one's own: here in memory. Several threads read it at once.
class StoredText final : public rf::Source {
 public:
  std::string name() const override { return "store:lines.txt"; }
  std::uint64_t Size() const override { return text_.size(); }
  // Its index may be kept as long as this stays the same (OpenOptions::index_folder).
  std::string Version() const override { return "1"; }
  rf::Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                    std::size_t* bytes_read) override {
    *bytes_read = std::min<std::uint64_t>(buffer.size(), text_.size() - offset);
    std::memcpy(buffer.data(), text_.data() + offset, *bytes_read);
    return {};
  }

 private:
  const std::string text_ = "one\ntwo\nthree\n";
};

std::size_t Count(rf::Reader records) {
  rf::RecordBlock block;
  std::size_t count = 0;
  while (records.TryReadBlock(&block) == rf::ReadResult::kRecord) count += block.size();
  if (!records.status().ok()) throw rf::Error(records.status());
  return count;
}

/// What a program writes into a pipe, as a stream of lines.
std::unique_ptr<rf::StreamSource> PipeOf(const std::string& name, const std::string& lines) {
  int ends[2];
  if (pipe(ends) != 0) throw rf::Error(rf::StatusFromErrno(errno, "pipe"));
  const auto written = write(ends[1], lines.data(), lines.size());  // fits into the pipe
  close(ends[1]);
  if (written < 0) throw rf::Error(rf::StatusFromErrno(errno, "write"));
  return rf::OpenDescriptor(ends[0], name, true);
}

/// A stream of one's own, such as a decoder: bytes that come in order, here the same twice.
class Repeated final : public rf::StreamSource {
 public:
  explicit Repeated(bool* closed) : closed_(closed) {}
  std::string name() const override { return "repeated"; }
  rf::Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token) override {
    *bytes_read = std::min(buffer.size(), text_.size() - place_);
    std::memcpy(buffer.data(), text_.data() + place_, *bytes_read);
    place_ += *bytes_read;
    return {};
  }
  rf::Status Reopen(std::stop_token) override { return place_ = 0, rf::Status(); }
  void Close() override { *closed_ = true; }
  bool ComesOnce() const override { return false; }

 private:
  const std::string text_ = "one\ntwo\n";
  std::size_t place_ = 0;
  bool* const closed_;
};

void Chunks() {
  const auto opened = rf::OpenRecordWriter("six.recordio", "recordio");
  for (int record = 0; record < 6; ++record) {
    rf::Status status = opened.writer->Write(std::as_bytes(std::span("record", 6)));
    if (status.ok() && record % 2 == 1) status = opened.writer->Flush();  // ends a chunk
    if (!status.ok()) throw rf::Error(status);
  }
  if (const rf::Status status = opened.writer->Close(); !status.ok()) throw rf::Error(status);
  const rf::RecordIoIndex index = rf::LoadRecordIoIndex("six.recordio");
  if (!index.status.ok()) throw rf::Error(index.status);
  const rf::RecordIoChunkPlace& second = index.chunks.at(1);
  if (Count(rf::OpenSources({rf::OpenRecordIoChunks("six.recordio", 1, 1)})) != second.records) {
    throw std::runtime_error("a chunk has other records than its header says");
  }
  std::cout << "chunk 1 of " << index.chunks.size() << ": " << second.records << " records\n";
}

int main() try {
  std::cout << "a store: " << Count(rf::OpenSources({std::make_shared<StoredText>()}))
            << " lines\n";
  std::ofstream("lines.txt") << "one\ntwo\nthree\n";
  auto end_of_file = rf::OpenFileRange("lines.txt", 4, rf::kToEnd);
  std::vector<std::shared_ptr<rf::Source>> sources = {std::move(end_of_file)};
  std::cout << "a range of a file: " << Count(rf::OpenSources(sources, {.format = "lines"}))
            << " lines\n";
  Chunks();
  // stdin, FIFOs and sockets have names (OpenStream); OpenFiles takes these names, too.
  if (!rf::IsStreamName("tcp:localhost:7000") || rf::OpenStream("-")->name().empty()) return 1;
  const rf::OpenOptions lines = {.format = "lines"};
  std::vector<rf::Reader> streams = {
      rf::OpenStreamSource(PipeOf("first", "one\ntwo\n"), lines),
      rf::OpenStreamSource(PipeOf("second", "three\nfour\nfive\n"), lines)};
  std::cout << "two pipes together: " << Count(rf::Multiplex(streams)) << " lines\n";
  bool closed = false;
  rf::Reader twice = rf::OpenStreamSource(std::make_unique<Repeated>(&closed),
                                          {.format = "lines", .reopen_limit = 1});
  const std::size_t count = Count(twice);
  twice.Close();
  std::cout << "a stream that is opened again: " << count << " lines, closed: " << closed << "\n";
} catch (const std::exception& error) {
  std::cerr << "sources: " << error.what() << "\n";
  return 1;
}
