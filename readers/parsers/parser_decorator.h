#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// A decorator's memory of a thread, with that of the inner parser. One that needs more derives
/// from it.
struct DecoratorScratch : Parser::Scratch {
  explicit DecoratorScratch(std::unique_ptr<Parser::Scratch> inner_scratch)
      : inner(std::move(inner_scratch)) {}

  std::unique_ptr<Parser::Scratch> inner;
  std::vector<FieldLocation> locations;  ///< of the inner parser's fields alone
};

/// A parser that does what another one does, the inner parser: it has its fields, and forwards
/// every call. Who derives from it overrides what it changes.
class ParserDecorator : public Parser {
 public:
  std::string name() const override { return inner_->name(); }
  std::string function_name() const override { return inner_->function_name(); }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<DecoratorScratch>(inner_->NewScratch());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    inner_->Locate(rows, locations, Inner(scratch), failures);
  }
  Status CheckElements(const FileElements& elements) const override {
    return inner_->CheckElements(elements);
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override {
    return inner_->Explain(record, why);
  }
  std::string HintOfFirst(const RecordSpan& record,
                          std::span<const std::byte> before) const override {
    return inner_->HintOfFirst(record, before);
  }
  bool Cut(std::size_t field, std::uint32_t units, FieldLocation* location) const override {
    return inner_->Cut(field, units, location);
  }
  bool CopiesBytesOf(std::size_t field) const override { return inner_->CopiesBytesOf(field); }
  std::span<const std::byte> BytesOf(std::size_t field, const RecordSpan& record,
                                     const FieldLocation& location) const override {
    return inner_->BytesOf(field, record, location);
  }
  bool ReadsBytes() const override { return inner_->ReadsBytes(); }
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return inner_->TakeStorage(Inner(scratch));
  }
  std::uint32_t TakeTruncated(Scratch* scratch) const override {
    return inner_->TakeTruncated(Inner(scratch));
  }
  void AddTo(PipelineStats* stats) const override { inner_->AddTo(stats); }
  std::size_t max_rows_per_write() const override { return inner_->max_rows_per_write(); }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override {
    inner_->Write(rows, locations, targets, Inner(scratch), failures);
  }
  void WriteMissing(std::size_t field, std::span<std::byte> row) const override {
    inner_->WriteMissing(field, row);
  }

 protected:
  explicit ParserDecorator(std::shared_ptr<const Parser> inner) : inner_(std::move(inner)) {
    fields_ = inner_->fields();
    for (std::size_t f = 0; inner_->has_lod() && f < fields_.size(); ++f) {
      roles_.push_back(inner_->role(f));
    }
    gives_records_ = inner_->gives_records();
    two_phase_ = inner_->two_phase();
    locates_rows_ = inner_->row_locations() < fields_.size();
  }
  /// Locates the inner parser's fields, of a decorator that has more after them.
  void LocateInner(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
                   std::vector<RowFailure>* failures) const {
    auto* own = static_cast<DecoratorScratch*>(scratch);
    const std::size_t some = inner_->row_locations();
    own->locations.assign(rows.size() * some, {});
    inner_->Locate(rows, own->locations.data(), own->inner.get(), failures);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::copy_n(own->locations.data() + row * some, some, locations + row * row_locations());
    }
  }
  /// The inner parser's memory in the decorator's.
  static Scratch* Inner(Scratch* scratch) {
    return static_cast<DecoratorScratch*>(scratch)->inner.get();
  }

  const std::shared_ptr<const Parser> inner_;
};

}  // namespace ringfeed
