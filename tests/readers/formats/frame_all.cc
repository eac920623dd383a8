#include "tests/readers/formats/frame_all.h"

#include <algorithm>
#include <memory>

#include "readers/formats/format.h"

namespace ringfeed {
namespace {

// Which bytes the next call gets: up to the first end that is far enough.
std::size_t EndFor(const Feeding& feeding, std::size_t at_least, std::size_t file_bytes) {
  for (const std::size_t end : feeding.ends) {
    if (end >= at_least && end < file_bytes) return end;
  }
  return file_bytes;
}

}  // namespace

std::string Bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::shared_ptr<const Format> FormatOfFile(const Format& format, const std::string& file) {
  const ReadPart read = [&](std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
    const std::size_t at = std::min<std::size_t>(offset, file.size());
    *got = std::min(to.size(), file.size() - at);
    std::copy_n(std::as_bytes(std::span(file)).begin() + static_cast<std::ptrdiff_t>(at), *got,
                to.begin());
    return Status();
  };
  std::shared_ptr<const Format> own;
  (void)format.ReadEnd(file.size(), read, &own);
  return own != nullptr ? own : std::shared_ptr<const Format>(&format, [](const Format*) {});
}

Framed FrameAll(const Format& format, const std::string& file, OnDamage on_damage,
                const Feeding& feeding, std::size_t max_record_bytes) {
  FramerOptions options;
  options.file = "file";
  options.on_damage = on_damage;
  options.max_record_bytes = max_record_bytes;
  if (feeding.known_size) options.file_bytes = file.size();
  return FrameWith(format.NewFramer(options).get(), file, feeding);
}

Framed FrameWith(Framer* framer, const std::string& file, const Feeding& feeding) {
  Framed framed;
  std::uint64_t limit = feeding.limit_step == 0 ? kUnknownSize : feeding.limit_step;
  std::size_t at = 0;
  std::size_t end = EndFor(feeding, 0, file.size());
  while (true) {
    auto bytes = std::make_unique<std::byte[]>(end - at);
    std::copy_n(reinterpret_cast<const std::byte*>(file.data()) + at, end - at, bytes.get());
    FrameOutput output;
    HeapFrameMemory memory;
    const bool at_end = feeding.at_end && end == file.size();
    const FrameResult result = framer->Frame(
        {{bytes.get(), end - at}, feeding.offset + at, limit, at_end, &memory}, &output);
    for (const RecordSpan& record : output.records) {
      framed.damaged.push_back(record.damaged());
      if (!record.damaged()) framed.records.push_back(Bytes(record.bytes()));
    }
    framed.damage.insert(framed.damage.end(), output.damage.begin(), output.damage.end());
    for (const DataWarning& warning : output.warnings) framed.warnings.push_back(warning.text);
    framed.status = result.status;
    if (!result.status.ok()) return framed;
    at += result.consumed;
    framed.end = feeding.offset + at;
    if (result.need_bytes != 0) {
      if (end == file.size()) {
        framed.stuck = feeding.at_end;
        return framed;
      }
      end = EndFor(feeding, std::max(at + result.need_bytes, end + 1), file.size());
    } else if (at >= limit && at < file.size()) {  // a reader asks no more at the end of the file
      while (limit <= at) limit += feeding.limit_step;
      end = std::max(end, at);
    } else if (end == file.size()) {
      return framed;
    } else {
      end = EndFor(feeding, end + 1, file.size());
    }
  }
}

}  // namespace ringfeed
