#include "tools/stdout_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ringfeed::tools {
namespace {

namespace fs = std::filesystem;

// A whole number of chunks of Fluid's writer, so that they are as those of a file.
constexpr std::uint64_t kPieceRecords = 16 * 1000;
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;
constexpr std::size_t kCopyBytes = 256 * 1024;
constexpr std::array<std::string_view, 4> kJoinable = {"recordio", "tfrecord", "ofrecord", "lines"};

Status WriteToStdout(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return StatusFromErrno(errno, "write to stdout");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status CopyToStdout(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return StatusFromErrno(errno, "open " + path);
  std::vector<std::byte> buffer(kCopyBytes);
  Status status;
  ssize_t got = 1;
  while (status.ok() && got > 0) {
    got = read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      got = 1;
    } else if (got < 0) {
      status = StatusFromErrno(errno, "read " + path);
    } else {
      status = WriteToStdout(std::span(buffer).first(static_cast<std::size_t>(got)));
    }
  }
  close(descriptor);
  return status;
}

}  // namespace

StdoutWriter::StdoutWriter(std::string format) : format_(std::move(format)) {
  const std::string family = format_.substr(0, format_.find(':'));
  if (std::find(kJoinable.begin(), kJoinable.end(), family) == kJoinable.end()) {
    throw Error(Status(StatusCode::kUnsupported,
                       "a file of format " + format_ + " cannot be written to stdout: name one"));
  }
  if (isatty(STDOUT_FILENO) == 1) {
    throw Error(Status(StatusCode::kInvalidArgument,
                       "records are no text for a terminal: name an output file, or redirect"));
  }
  folder_ = (fs::temp_directory_path() / "ringfeed-XXXXXX").string();
  if (mkdtemp(folder_.data()) == nullptr) {
    throw Error(StatusFromErrno(errno, "make the temporary folder " + folder_));
  }
  piece_path_ = folder_ + "/piece";
}

StdoutWriter::~StdoutWriter() {
  piece_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

Status StdoutWriter::Write(std::span<const std::byte> record) {
  if (!status_.ok()) return status_;
  if (piece_ == nullptr) {
    RecordWriterResult opened = OpenRecordWriter(piece_path_, format_);
    if (!opened.status.ok()) return status_ = opened.status;
    piece_ = std::move(opened.writer);
  }
  status_ = piece_->Write(record);
  if (!status_.ok()) return status_;
  ++records_;
  bytes_ += record.size();
  return records_ == kPieceRecords || bytes_ >= kPieceBytes ? EndPiece() : Status();
}

Status StdoutWriter::EndPiece() {
  status_ = piece_->Close();
  piece_.reset();
  records_ = 0;
  bytes_ = 0;
  if (status_.ok()) status_ = CopyToStdout(piece_path_);
  return status_;
}

Status StdoutWriter::Close() {
  if (!status_.ok() || piece_ == nullptr) return status_;
  return EndPiece();
}

}  // namespace ringfeed::tools
