#include "tools/feed/hashing_parser.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ringfeed::tools {
namespace {

struct HashingScratch final : DecoratorScratch {
  HashingScratch(std::unique_ptr<Parser::Scratch> inner_scratch, PayloadHash kind)
      : DecoratorScratch(std::move(inner_scratch)), hasher(kind) {}

  PayloadHasher hasher;
};

}  // namespace

HashedPayload PayloadHasher::Of(std::span<const std::byte> payload) {
  HashedPayload result;
  result.bytes = payload.size();
  if (kind_ == PayloadHash::kSha256) {
    result.hash = sha256_.Of(payload);
  } else if (kind_ == PayloadHash::kXxh3) {
    const XXH128_hash_t hash = XXH3_128bits(payload.data(), payload.size());
    std::memcpy(result.hash.data(), &hash, sizeof hash);
  }
  return result;
}

HashingParser::HashingParser(std::shared_ptr<const Parser> inner, PayloadHash kind)
    : ParserDecorator(std::move(inner)), kind_(kind) {
  fields_.push_back({"payload_hash", kUInt8, {sizeof(HashedPayload)}});
}

std::unique_ptr<Parser::Scratch> HashingParser::NewScratch() const {
  return std::make_unique<HashingScratch>(inner_->NewScratch(), kind_);
}

void HashingParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                           Scratch* scratch, std::vector<RowFailure>* failures) const {
  LocateInner(rows, locations, scratch, failures);
}

void HashingParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                          std::span<const ColumnTarget> targets, Scratch* scratch,
                          std::vector<RowFailure>* failures) const {
  auto* own = static_cast<HashingScratch*>(scratch);
  const std::size_t fields = inner_->fields().size();
  const FieldLocation* inner_locations = nullptr;
  if (locations != nullptr) {
    const std::size_t some = inner_->row_locations();
    own->locations.resize(rows.size() * some);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::copy_n(locations + row * row_locations(), some, own->locations.data() + row * some);
    }
    inner_locations = own->locations.data();
  }
  inner_->Write(rows, inner_locations, targets.first(fields), own->inner.get(), failures);
  std::byte* target = targets[fields].data;
  for (const RecordSpan& row : rows) {
    const HashedPayload hashed = own->hasher.Of(row.bytes());
    std::memcpy(target, &hashed, sizeof hashed);
    target += sizeof hashed;
  }
}

}  // namespace ringfeed::tools
