#include "bench/stage_loop.h"

#include <algorithm>
#include <memory>

namespace ringfeed::bench {
namespace {

void Require(const Status& status) {
  if (!status.ok()) throw Error(status);
}

// Batches of any fields, filled by a parser run by run.
class ParsedBatches {
 public:
  ParsedBatches(const Parser& parser, const LoopOptions& options)
      : parser_(parser),
        options_(options),
        scratch_(parser.NewScratch()),
        batch_bytes_(Layout()),
        memory_(kRotatingBatches * batch_bytes_),
        targets_(parser.fields().size()) {
    for (Column& column : columns_) column.offsets.resize(options.batch_rows + 1);
  }

  void Add(std::span<const RecordSpan> rows) {
    if (parser_.two_phase()) {
      locations_.resize(rows.size() * columns_.size());
      parser_.Locate(rows, locations_.data(), scratch_.get(), &failures_);
    }
    for (std::size_t at = 0; at < rows.size();) {
      const std::size_t count = std::min(rows.size() - at, options_.batch_rows - row_);
      SetTargets();
      const FieldLocation* locations =
          parser_.two_phase() ? locations_.data() + at * columns_.size() : nullptr;
      parser_.Write(rows.subspan(at, count), locations, targets_, scratch_.get(), &failures_);
      if (!failures_.empty()) throw Error(failures_[0].status);
      row_ += count;
      at += count;
      if (row_ == options_.batch_rows) Finish();
    }
  }

  void Finish() {
    for (std::size_t c = 0; options_.digest && row_ != 0 && c < columns_.size(); ++c) {
      const FieldSpec& field = parser_.fields()[c];
      const auto rows = field.ragged() ? static_cast<std::size_t>(columns_[c].offsets[row_]) : row_;
      digest_.Add({base() + columns_[c].offset, rows * field.unit_bytes()});
      if (field.ragged()) {
        digest_.Add(std::as_bytes(std::span(columns_[c].offsets).first(row_ + 1)));
      }
    }
    row_ = 0;
    batch_ = (batch_ + 1) % kRotatingBatches;
  }
  std::uint64_t digest() const { return digest_.value(); }

 private:
  struct Column {
    std::size_t offset = 0;
    std::vector<std::int64_t> offsets;
  };
  static constexpr std::size_t kRaggedRoom = 256 * 1024;  // a ragged row's share of a batch

  std::byte* base() const { return memory_.data() + batch_ * batch_bytes_; }

  std::size_t Layout() {
    std::size_t end = 0;
    for (const FieldSpec& field : parser_.fields()) {
      columns_.push_back({end, {}});
      const std::size_t row_bytes = field.ragged() ? kRaggedRoom : field.unit_bytes();
      end += (row_bytes * options_.batch_rows + 63) / 64 * 64;
    }
    return end;
  }

  void SetTargets() {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const FieldSpec& field = parser_.fields()[c];
      std::byte* column = base() + columns_[c].offset;
      targets_[c] = field.ragged() ? ColumnTarget{column, columns_[c].offsets.data() + row_}
                                   : ColumnTarget{column + row_ * field.unit_bytes(), nullptr};
    }
  }

  const Parser& parser_;
  const LoopOptions options_;
  std::unique_ptr<Parser::Scratch> scratch_;
  std::vector<Column> columns_;
  std::size_t batch_bytes_;
  BatchMemory memory_;
  std::vector<ColumnTarget> targets_;
  std::vector<FieldLocation> locations_;
  std::vector<RowFailure> failures_;
  std::size_t row_ = 0;
  std::size_t batch_ = 0;
  BatchDigest digest_;
};

// Frames one file and hands each block's records on.
template <typename Take>
void FrameFile(const std::string& path, const Format& format, LoopResult* result, Take take) {
  BlockReader reader(path);
  FramerOptions options;
  options.file = path;
  options.file_bytes = reader.file_bytes();
  const std::unique_ptr<Framer> framer = format.NewFramer(options);
  FrameOutput output;
  std::span<const std::byte> bytes;
  std::size_t used = 0;
  while (reader.Next(used, &bytes)) {
    output.records.clear();
    const FrameResult framed =
        framer->Frame({bytes, reader.offset(), reader.file_bytes(), reader.at_end()}, &output);
    Require(framed.status);
    used = framed.consumed;
    result->records += output.records.size();
    for (const RecordSpan& record : output.records) result->bytes += record.size;
    take(std::span<const RecordSpan>(output.records));
  }
}

}  // namespace

LoopResult RunStageLoop(const std::vector<std::string>& files, const Format& format,
                        const Parser* parser, const LoopOptions& options) {
  LoopResult result;
  if (parser == nullptr) {
    BatchDigest digest;
    const LoopTimer timer;
    for (const std::string& file : files) {
      FrameFile(file, format, &result, [&](std::span<const RecordSpan> records) {
        for (std::size_t i = 0; options.digest && i < records.size(); ++i) {
          digest.Add(records[i].bytes());
        }
      });
    }
    timer.Stop(&result);
    result.digest = digest.value();
    return result;
  }
  ParsedBatches batches(*parser, options);
  const LoopTimer timer;
  for (const std::string& file : files) {
    FrameFile(file, format, &result,
              [&](std::span<const RecordSpan> records) { batches.Add(records); });
  }
  batches.Finish();
  timer.Stop(&result);
  result.digest = batches.digest();
  return result;
}

}  // namespace ringfeed::bench
