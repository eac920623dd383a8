#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/input_file.h"
#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/format.h"
#include "ringfeed/open_options.h"
#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The records of one file by plain reads in a plain loop: to look at the first ones, and for
/// `feed --verify`, which checks the deliveries of the executor against them. So it shares neither
/// threads, slabs nor order with it.
class RecordWalk {
 public:
  /// Takes format, on_damage and max_record_bytes of `options`; `check` is
  /// FramerOptions::check_elements. Throws Error if the file cannot be opened.
  RecordWalk(const std::string& file, const OpenOptions& options, ElementCheck check = nullptr);
  RecordWalk(const RecordWalk&) = delete;
  RecordWalk& operator=(const RecordWalk&) = delete;

  /// Some next records, valid until the next call; a damaged one may be a null span.
  ReadResult Next(std::span<const RecordSpan>* records);
  const Status& status() const { return status_; }
  /// What was skipped so far.
  const std::vector<DamagedRange>& damage() const { return damage_; }
  /// Oddities of the file, as far as it was read.
  const std::vector<DataWarning>& warnings() const { return warnings_; }
  const Format& format() const { return *format_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  bool compressed() const { return decompressed_ != nullptr; }

 private:
  /// Reads the file's bytes at read_offset_ and moves it on; *got is 0 at the end.
  Status ReadFile(std::span<std::byte> to, std::size_t* got);
  /// Brings at least `bytes` bytes from offset_ on to buffer_'s front, or all that there are.
  Status Fill(std::size_t bytes);
  /// Counts the records in the compressed member that is read now.
  void CountUntrusted();
  /// Whether that failure is damage that ends a compressed file early and is skipped; notes it
  /// then. Otherwise adds what was delivered of the damaged member.
  bool SkipRest(Status* read);

  const std::string file_;
  const OnDamage on_damage_;
  std::unique_ptr<InputFile> input_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t read_offset_ = 0;
  std::unique_ptr<DecompressedReader>
      decompressed_;             // of a compressed file: offsets below count it
  std::uint64_t member_ = 0;     // start of that member, decompressed
  std::uint64_t untrusted_ = 0;  // its records so far
  bool all_read_ = false;
  std::shared_ptr<const Format> format_;
  std::unique_ptr<Framer> framer_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;           // how many of its bytes are the file's
  std::uint64_t buffer_offset_ = 0;  // place of buffer_'s first byte
  std::uint64_t offset_ = 0;         // next offset to frame
  std::size_t need_bytes_;
  FrameOutput output_;
  HeapFrameMemory memory_;
  std::vector<DamagedRange> damage_;
  std::vector<DataWarning> warnings_;
  Status status_;
  bool ended_ = false;
};

}  // namespace ringfeed
