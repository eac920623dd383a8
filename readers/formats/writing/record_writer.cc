#include <string>
#include <utility>

#include "readers/formats/format.h"
#include "readers/formats/writing/output_file.h"
#include "ringfeed/formats.h"

namespace ringfeed {

RecordWriterResult Format::NewWriter(std::unique_ptr<OutputFile>) const {
  return {Status(StatusCode::kUnsupported,
                 "format \"" + std::string(name()) + "\" can be read, not written"),
          nullptr};
}

RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format) {
  FormatResult found = FindFormat(format);
  if (!found.status.ok()) return {std::move(found.status), nullptr};
  if (found.compression != Compression::kNone && !found.format->writes_in_order()) {
    return {Status(StatusCode::kUnsupported,
                   "format \"" + format +
                       "\": its header is written last, which a compressed file "
                       "does not allow; compress the file afterwards"),
            nullptr};
  }
  auto file = std::make_unique<OutputFile>(path, found.compression);
  Status status = file->Open();
  if (!status.ok()) return {std::move(status), nullptr};
  return found.format->NewWriter(std::move(file));
}

RecordWriterResult OpenRecordStreamWriter(int descriptor, const std::string& name,
                                          const std::string& format) {
  FormatResult found = FindFormat(format);
  if (!found.status.ok()) return {std::move(found.status), nullptr};
  if (!found.format->writes_in_order()) {
    return {Status(StatusCode::kUnsupported,
                   "format \"" + format +
                       "\": its header is written last, which a stream does not allow; write a "
                       "file"),
            nullptr};
  }
  return found.format->NewWriter(std::make_unique<OutputFile>(descriptor, name, found.compression));
}

}  // namespace ringfeed
