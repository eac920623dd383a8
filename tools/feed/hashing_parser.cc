#include "tools/feed/hashing_parser.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ringfeed::tools {
namespace {

class HashingScratch : public Parser::Scratch {
 public:
  HashingScratch(std::unique_ptr<Parser::Scratch> inner_scratch, PayloadHash kind)
      : inner(std::move(inner_scratch)), hasher(kind) {}

  std::unique_ptr<Parser::Scratch> inner;
  PayloadHasher hasher;
  std::vector<FieldLocation> locations;  // as the inner parser counts its fields
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
    : inner_(std::move(inner)), kind_(kind) {
  fields_ = inner_->fields();
  for (std::size_t f = 0; inner_->has_lod() && f < fields_.size(); ++f) {
    roles_.push_back(inner_->role(f));
  }
  fields_.push_back({"payload_hash", kUInt8, {sizeof(HashedPayload)}});
  gives_records_ = inner_->gives_records();
  two_phase_ = inner_->two_phase();
}

std::unique_ptr<Parser::Scratch> HashingParser::NewScratch() const {
  return std::make_unique<HashingScratch>(inner_->NewScratch(), kind_);
}

void HashingParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                           Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<HashingScratch*>(scratch);
  const std::size_t fields = inner_->fields().size();
  own->locations.resize(rows.size() * fields);
  inner_->Locate(rows, own->locations.data(), own->inner.get(), failures);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    FieldLocation* last =
        std::copy_n(own->locations.data() + row * fields, fields, locations + row * (fields + 1));
    *last = {};
  }
}

std::shared_ptr<const void> HashingParser::TakeStorage(Scratch* scratch) const {
  return inner_->TakeStorage(static_cast<HashingScratch*>(scratch)->inner.get());
}

std::uint32_t HashingParser::TakeTruncated(Scratch* scratch) const {
  return inner_->TakeTruncated(static_cast<HashingScratch*>(scratch)->inner.get());
}

void HashingParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                          std::span<const ColumnTarget> targets, Scratch* scratch,
                          std::vector<RowFailure>* failures) const {
  auto* own = static_cast<HashingScratch*>(scratch);
  const std::size_t fields = inner_->fields().size();
  const FieldLocation* inner_locations = nullptr;
  if (locations != nullptr) {
    own->locations.resize(rows.size() * fields);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::copy_n(locations + row * (fields + 1), fields, own->locations.data() + row * fields);
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
