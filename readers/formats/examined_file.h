#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "readers/formats/compression/decompressor.h"
#include "readers/formats/format.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The warning of a file without a byte: few writers leave one on purpose.
inline constexpr std::string_view kEmptyFile = "the file is empty";

/// ChooseFormat for a file; `head` is the whole file if it is short. Refuses a file that is no data
/// but something in place of them.
FormatResult ChooseFileFormat(std::string_view asked, std::string_view file_name,
                              std::span<const std::byte> head);

/// What a file is, before it is read.
struct ExaminedFile {
  Status status;  ///< why it could not be examined: then its only turn is this failure
  std::uint64_t bytes = 0;
  /// Stripes of the order; kUnknownSize if only reading tells (a compressed file).
  std::uint64_t stripes = 1;
  std::shared_ptr<const Format> format;
  Compression compression = Compression::kNone;
  std::string name;  ///< of the file to open: of a format of two files, the one with the data
  std::uint64_t inode = 0;  ///< 0 of a source
  /// Read in place of the file, or of the source that was given: the object of a name that is an
  /// address, if none was; of a format of two files the one with the data; what the format makes.
  std::shared_ptr<Source> object;
};

/// Looks at size and first bytes of a file, of a source of that name, or, if `source` is null and
/// the name is an address, of that object. `format` may be empty. Blocks.
ExaminedFile ExamineFile(const std::string& name, Source* source, const std::string& format,
                         std::uint64_t stripe_bytes);
/// What kind of file it is, in a word: "tfrecord", "lines+gzip". It was examined without a failure.
std::string KindName(const ExaminedFile& file);
/// Its size alone, and its number in the file system.
Status SizeOfFile(const std::string& name, std::uint64_t* bytes, std::uint64_t* inode);

}  // namespace ringfeed
