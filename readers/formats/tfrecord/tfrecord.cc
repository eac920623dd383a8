#include "readers/formats/tfrecord/tfrecord.h"

#include <string>
#include <string_view>
#include <utility>

namespace ringfeed {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "…-00000-of-00010", as TensorFlow's writers name the shards of a data set.
bool EndsAsShard(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && IsDigit(name[end - 1])) --end;
  if (end == name.size() || end < 4 || name.substr(end - 4, 4) != "-of-") return false;
  const std::size_t first_end = end - 4;
  std::size_t first = first_end;
  while (first > 0 && IsDigit(name[first - 1])) --first;
  return first < first_end && first > 0 && name[first - 1] == '-';
}

class TfRecord final : public Format {
 public:
  std::string_view name() const override { return "tfrecord"; }

  bool MatchesName(std::string_view file_name) const override {
    const std::string_view base = file_name.substr(file_name.rfind('/') + 1);
    if (base.ends_with(".tfrecord") || base.ends_with(".tfrecords")) return true;
    return base.find("tfrecord") != std::string_view::npos && EndsAsShard(base);
  }

  bool MatchesBytes(std::span<const std::byte> head) const override {
    return head.size() >= TfRecordLayout::kHeaderBytes && TfRecordHeaderMatches(head);
  }

  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewTfRecordFramer(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return NewTfRecordUnitFramer(options);
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t /*offset*/) const override {
    return NewFramer(options);  // it looks for a record wherever none starts
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), NewTfRecordWriter(std::move(file))};
  }
};

}  // namespace

std::shared_ptr<const Format> TfRecordFormat() {
  static const auto kFormat = std::make_shared<const TfRecord>();
  return kFormat;
}

}  // namespace ringfeed
