#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "readers/index/indexed_file.h"

namespace ringfeed {

/// Records by their numbers; a damaged one is nothing.
using NumberedRecords = std::vector<std::optional<std::string>>;

/// What reading a file in order gives, damage skipped.
struct InOrder {
  NumberedRecords records;
  std::vector<std::uint64_t> first_of_stripe;  ///< of each stripe
  Status status;
};
InOrder ReadInOrder(const Format& format, const std::string& bytes, std::uint64_t stripe_bytes,
                    std::size_t max_record_bytes = std::size_t{1} << 30);

/// The same records one by one through an index, the last first.
NumberedRecords ReadByIndex(const IndexedFile& file, const std::string& bytes,
                            const RecordIndex& index);

/// The file as a source in memory, or written to `path`.
IndexedFile FileInMemory(const std::string& format, const std::string& bytes);
IndexedFile FileAt(const std::string& path, const std::string& format, const std::string& bytes);

/// Removes its kept index, and with it those of small files beside it.
void ForgetIndex(const IndexedFile& file);

/// Both ways give the same, for a few sizes of stripes; `index` is the file's.
void ExpectSameBothWays(const IndexedFile& file, const std::string& bytes,
                        const RecordIndex& index);

/// A file of each format that can be scanned: its name, and bytes that have whatever the format
/// knows.
struct ScannedFile {
  std::string format;
  std::string bytes;
};
std::vector<ScannedFile> ScannedFiles();

/// A folder of this test's own, empty, removed at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void WriteText(const std::string& path, const std::string& bytes);

}  // namespace ringfeed
