#include "io/source_input.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace ringfeed {

SourceInput::SourceInput(std::shared_ptr<Source> source) : source_(std::move(source)) {
  name_ = source_->name();
  size_ = source_->Size();
  choice_ = {name_, IoPath::kPread, false, false, "a source of the program's own"};
}

Status SourceInput::ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                           std::size_t* bytes_read) {
  *bytes_read = 0;
  const std::uint64_t left = size_ > offset ? size_ - offset : 0;
  buffer = buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left)));
  while (*bytes_read < buffer.size()) {
    const DataPlace place{name_, static_cast<std::int64_t>(offset + *bytes_read), -1};
    std::size_t got = 0;
    try {
      const Status status =
          source_->ReadAt(offset + *bytes_read, buffer.subspan(*bytes_read), &got);
      if (!status.ok()) return status.WithPlace(place);
    } catch (const std::exception& error) {
      return Status(StatusCode::kUserError, std::string("ReadAt threw: ") + error.what(), place);
    } catch (...) {
      return Status(StatusCode::kUserError, "ReadAt threw", place);
    }
    if (got == 0 || got > buffer.size() - *bytes_read) {
      return Status(StatusCode::kTruncated,
                    "the source says that it has " + std::to_string(size_) +
                        " bytes, but a read here gave " + std::to_string(got),
                    place);
    }
    *bytes_read += got;
  }
  return {};
}

}  // namespace ringfeed
