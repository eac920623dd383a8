#include <string>
#include <utility>

#include "readers/formats/format.h"
#include "readers/formats/output_file.h"
#include "ringfeed/formats.h"

namespace ringfeed {

std::unique_ptr<RecordWriter> Format::NewWriter(std::unique_ptr<OutputFile>) const {
  return nullptr;
}

RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format) {
  FormatResult found = FindFormat(format);
  if (!found.status.ok()) return {std::move(found.status), nullptr};
  auto file = std::make_unique<OutputFile>(path);
  Status status = file->Open();
  if (!status.ok()) return {std::move(status), nullptr};
  auto writer = found.format->NewWriter(std::move(file));
  if (writer == nullptr) {
    status = Status(StatusCode::kUnsupported, "format \"" + format + "\" can be read, not written");
  }
  return {std::move(status), std::move(writer)};
}

}  // namespace ringfeed
