#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "ringfeed/record.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "tools/base64.h"
#include "tools/command.h"
#include "tools/convert/output_names.h"
#include "tools/file_records.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 18;

/// A stream of lines that may be ended from outside. Then it ends after the last complete line, so
/// that no complete line is lost and no part of a line is taken for one. Lines are handed on as
/// soon as they are whole. One thread reads.
class LineStream final : public StreamSource {
 public:
  /// A stop request of `end`, from any thread, ends it.
  LineStream(std::unique_ptr<StreamSource> stream, std::stop_token end)
      : stream_(std::move(stream)), end_(std::move(end)) {}

  std::string name() const override { return stream_->name(); }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token stop) override {
    *bytes_read = 0;
    while (whole_ == 0 && !done_) {
      Status status = ReadMore(stop);
      if (!status.ok()) return status;
    }
    *bytes_read = std::min(buffer.size(), whole_);
    std::copy_n(held_.begin(), *bytes_read, buffer.begin());
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(*bytes_read));
    whole_ -= *bytes_read;
    return {};
  }
  void Close() override { stream_->Close(); }
  bool ComesOnce() const override { return true; }

 private:
  Status ReadMore(const std::stop_token& stop) {
    std::stop_source either;
    const auto request = [&either] { either.request_stop(); };
    const std::stop_callback by_reader(stop, request);
    const std::stop_callback by_end(end_, request);
    const std::size_t had = held_.size();
    held_.resize(had + kReadBytes);
    std::size_t got = 0;
    Status status = stream_->Read(std::span(held_).subspan(had), &got, either.get_token());
    held_.resize(had + got);
    if (!status.ok()) {
      if (stop.stop_requested() || !end_.stop_requested()) return status;
      held_.resize(whole_);  // the rest of the present line is unknown
      done_ = true;
      return {};
    }
    if (got == 0) {
      whole_ = held_.size();  // the last line may have no end
      done_ = true;
      return {};
    }
    const auto last = std::find(held_.rbegin(), held_.rbegin() + static_cast<std::ptrdiff_t>(got),
                                std::byte{'\n'});
    if (last != held_.rbegin() + static_cast<std::ptrdiff_t>(got)) {
      whole_ = static_cast<std::size_t>(std::distance(last, held_.rend()));
    }
    return {};
  }

  const std::unique_ptr<StreamSource> stream_;
  const std::stop_token end_;
  std::vector<std::byte> held_;  ///< bytes read and not handed on
  std::size_t whole_ = 0;        ///< of these, up to and with the last end of a line
  bool done_ = false;
};

constexpr char kEncodeHelp[] =
    "Lines of base64 to records: each line (RFC 4648, padded) becomes one, an empty line an empty "
    "one.\nThe other way round is `ringfeed decode`; both are installed as recordio_encode and "
    "recordio_decode too.\n\n"
    "Into a pipe a chunk goes when it is full, or when its first record is --flush-ms old and no "
    "line waits.\nCtrl-C, SIGTERM and SIGHUP end a stream after the last whole line: what came is "
    "written.\nOf a file (--input), which can be read again, they leave no output, and the exit "
    "status is 1.\n\n"
    "  some-program | ringfeed encode records.recordio\n"
    "  ringfeed encode --input lines.txt --to recordio:go,gzip records.recordio\n"
    "  ringfeed decode a.recordio | grep -v '^$' | ringfeed encode > not-empty.recordio";

class EncodeCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("encode", kEncodeHelp);
    sub->add_option("OUTPUT", output_,
                    "the file, which appears when it is complete; default: stdout, in pieces");
    sub->add_option("--input", input_, "file of lines")->default_str("-, stdin");
    sub->add_option("--to", to_, "recordio[:fluid|go][,none|snappy|gzip], tfrecord, …")
        ->capture_default_str();
    sub->add_option("--flush-ms", flush_ms_,
                    "so long a record may wait for others before it goes into a pipe; 0: until the "
                    "chunk is full")
        ->check(CLI::Range(0, 86'400'000))
        ->capture_default_str();
    AddDamageOption(sub, &on_damage_,
                    "fail: a line that is no base64 ends it, and there is no output file; skip: it "
                    "is counted and left out");
    return sub;
  }

  int Run() override {
    const std::unique_ptr<RecordWriter> writer = OpenOutput();
    std::stop_source end;
    FileRecords lines = OpenLines(end.get_token());
    Status status;
    {
      const Interrupt interrupt([&] {
        end.request_stop();
        if (!IsStreamName(input_)) lines.Close();
      });
      status = Encode(&lines, writer.get());
      // What came by a stream would be lost. A file can be read again, and half of it is no
      // success.
      if (interrupt.requested() && IsStreamName(input_)) {
        std::fprintf(stderr, "ringfeed: interrupted: what came until then is written\n");
        if (status.code() == StatusCode::kCancelled) status = Status();
      } else if (interrupt.requested() && status.code() == StatusCode::kCancelled) {
        status = Status(StatusCode::kCancelled, "interrupted");
      }
      if (status.ok()) status = writer->Close();
    }
    if (!status.ok()) {
      TellFailure(status);
      return ExitStatusOf(status);
    }
    if (bad_lines_ == 0) return kExitFine;
    std::fprintf(stderr, "ringfeed: skipped %llu bad lines, the first: %s\n",
                 static_cast<unsigned long long>(bad_lines_), first_bad_.c_str());
    return kExitData;
  }

 private:
  bool to_stdout() const { return output_.empty() || output_ == "-"; }

  FileRecords OpenLines(std::stop_token end) const {
    OpenOptions options;
    options.format = "lines";
    options.on_damage = on_damage_;
    if (!IsStreamName(input_)) return {input_, options};
    return {std::make_unique<LineStream>(OpenStream(input_), std::move(end)), options};
  }

  std::unique_ptr<RecordWriter> OpenOutput() const {
    if (to_stdout()) {
      if (isatty(STDOUT_FILENO) == 1) {
        throw Refuse("records are no text for a terminal: name an output file, or redirect");
      }
      // If the reader ends early, that must be reported as an error.
      std::signal(SIGPIPE, SIG_IGN);
      return Taken(OpenRecordStreamWriter(STDOUT_FILENO, "stdout", to_));
    }
    for (const std::string& file : FilesWritten(output_, to_)) {
      RefuseInputAsOutput({input_}, file);
      const std::filesystem::path path(file);
      RemoveStalePartials(path.parent_path().string(), [&](const std::string& name) {
        return name == path.filename().string();
      });
    }
    return Taken(OpenRecordWriter(output_, to_));
  }
  static std::unique_ptr<RecordWriter> Taken(RecordWriterResult opened) {
    if (!opened.status.ok()) throw Error(opened.status);
    return std::move(opened.writer);
  }

  Status Encode(FileRecords* lines, RecordWriter* writer) {
    // A file is read after it is complete; the reader of a pipe waits.
    const bool by_age = to_stdout() && flush_ms_ > 0;
    Deadline flush_at = kNoDeadline;
    ReadResult read;
    std::span<const RecordSpan> some;
    while ((read = lines->Next(&some, flush_at)) == ReadResult::kRecord ||
           read == ReadResult::kTimeout) {
      if (read == ReadResult::kTimeout) {
        flush_at = kNoDeadline;
        Status status = writer->Flush();
        if (!status.ok()) return status;
        continue;
      }
      for (const RecordSpan& line : some) {
        Status status = EncodeLine(line.bytes(), writer);
        if (!status.ok()) return status;
      }
      if (by_age && flush_at == kNoDeadline) {
        flush_at = DeadlineAfter(std::chrono::milliseconds(flush_ms_));
      }
    }
    bad_lines_ += lines->Damage().records;  // too long to be parsed
    return read == ReadResult::kFailed ? lines->status() : Status();
  }

  Status EncodeLine(std::span<const std::byte> line, RecordWriter* writer) {
    ++line_;
    const std::string_view text(reinterpret_cast<const char*>(line.data()), line.size());
    const Status status = DecodeBase64(text, &record_);
    if (status.ok()) return writer->Write(record_);
    const std::string what = "line " + std::to_string(line_) + ": " + status.message();
    if (on_damage_ == OnDamage::kFail) return Status(status.code(), what, {input_, -1, -1});
    if (bad_lines_++ == 0) first_bad_ = what;
    return {};
  }

  std::string output_;
  std::string input_ = "-";
  std::string to_ = "recordio";
  int flush_ms_ = 1000;
  OnDamage on_damage_ = OnDamage::kFail;
  std::vector<std::byte> record_;
  std::uint64_t line_ = 0;
  std::uint64_t bad_lines_ = 0;
  std::string first_bad_;
};

}  // namespace

std::unique_ptr<Command> NewEncodeCommand() { return std::make_unique<EncodeCommand>(); }

}  // namespace ringfeed::tools
