#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "io/input_file.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/formats/format.h"

namespace ringfeed {

/// What a lane knows of a file that it reads rows of.
struct LaneFile {
  const DataFile* data = nullptr;
  InputFile* open = nullptr;  ///< for this part; null where there is a failure
  /// Kept from part to part where the file is mapped; others hold a descriptor.
  std::shared_ptr<InputFile> input;
  std::span<const std::byte> mapping;
  std::optional<FixedUnits> fixed;
  /// The same where all of its rows stand in the mapping: then they need only be pointed at.
  bool direct = false;
  bool shrunk = false;           ///< its mapping was found longer than the file
  ReadEngine* engine = nullptr;  ///< null: read inline
  std::unique_ptr<UnitFramer> framer;
  Status failure;      ///< it cannot be read; a refusal of the system is tried again by each part
  bool fatal = false;  ///< that is not a matter of the data
  std::uint64_t part = 0;  ///< number of the part that noted it last
  bool stays = false;  ///< as it is: it does not fit into memory, or is a source of the user's
};

/// The files that one lane reads rows of, each with a framer of its own. One thread.
class LaneFiles {
 public:
  LaneFiles(OpenedFiles* files, LaneContext* context) : files_(files), context_(context) {}

  /// A part begins: from now on what Use gives is kept alive by `inputs`, to which it is appended
  /// once for each part. What was given before is no longer valid.
  void StartPart(std::vector<std::shared_ptr<InputFile>>* inputs);
  /// The file, open unless its failure says why not.
  LaneFile* Use(std::size_t file) {
    const auto found = used_.find(file);
    if (found != used_.end() && found->second.part == part_) return &found->second;
    return UseFirst(file);
  }
  /// Of a file `wanted` bytes are needed, and `planned` are read for them. True where its reads
  /// would come to more than it has, and from the next part on it is read through the page cache
  /// in small pieces, where it fits into memory.
  bool NoteReads(std::size_t file, std::uint64_t wanted, std::uint64_t planned);
  /// What is known of the file, open or not.
  LaneFile* Peek(std::size_t file);
  /// The file's framer; null where its format has none.
  UnitFramer* Framer(LaneFile* file) const;

 private:
  static constexpr std::size_t kMostKept = 4096;
  LaneFile* UseFirst(std::size_t file);
  void Open(std::size_t number, LaneFile* file) const;
  void Take(std::shared_ptr<InputFile> input, LaneFile* file) const;

  OpenedFiles* const files_;
  LaneContext* const context_;
  std::unordered_map<std::size_t, LaneFile> used_;
  std::vector<std::shared_ptr<InputFile>>* inputs_ = nullptr;
  std::uint64_t part_ = 0;
};

}  // namespace ringfeed
