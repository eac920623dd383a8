#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "readers/parsers/parser_decorator.h"
#include "ringfeed/record.h"
#include "tools/digests.h"

namespace ringfeed::tools {

/// The hash to compute of every payload while it is parsed.
enum class PayloadHash : std::uint8_t {
  kNone,
  kXxh3,    ///< XXH3-128: cheap, for counting
  kSha256,  ///< as `digest` has it
};

/// The hash of one payload with its length, as it is in a batch.
struct HashedPayload {
  std::uint64_t bytes = 0;
  std::array<std::byte, 32> hash{};  ///< XXH3 fills the first 16
};

/// Hashes payloads. One thread at a time.
class PayloadHasher {
 public:
  explicit PayloadHasher(PayloadHash kind) : kind_(kind) {}
  HashedPayload Of(std::span<const std::byte> payload);

 private:
  PayloadHash kind_;
  Sha256 sha256_;
};

/// A parser that does what another one does and puts a HashedPayload of the record into an
/// additional last field. So a digest of the deliveries is taken from the batches themselves,
/// whatever the parser kept of the payload, on the threads that parse.
class HashingParser : public ParserDecorator {
 public:
  HashingParser(std::shared_ptr<const Parser> inner, PayloadHash kind);
  std::unique_ptr<Scratch> NewScratch() const override;
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  bool Cut(std::size_t field, std::uint32_t units, FieldLocation* location) const override {
    return field < inner_->fields().size() && inner_->Cut(field, units, location);
  }
  bool CopiesBytesOf(std::size_t field) const override {
    return field < inner_->fields().size() && inner_->CopiesBytesOf(field);
  }
  /// Each payload is hashed, also if the inner parser's fields are copied elsewhere.
  bool ReadsBytes() const override { return true; }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  PayloadHash kind_;
};

}  // namespace ringfeed::tools
