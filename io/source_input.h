#pragma once

#include <memory>

#include "io/input_file.h"
#include "ringfeed/source.h"

namespace ringfeed {

/// A Source of the user's as an input: read by ReadAt, in a thread that may block.
class SourceInput final : public InputFile {
 public:
  explicit SourceInput(std::shared_ptr<Source> source);
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override;

 private:
  const std::shared_ptr<Source> source_;
};

}  // namespace ringfeed
