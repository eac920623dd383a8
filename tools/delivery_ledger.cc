#include "tools/delivery_ledger.h"

#include <cstddef>
#include <cstring>

namespace ringfeed::tools {

void HashSums::Add(const HashedPayload& payload) {
  std::array<std::uint64_t, 4> hash_words;
  static_assert(sizeof hash_words == sizeof payload.hash);
  std::memcpy(hash_words.data(), payload.hash.data(), sizeof hash_words);
  records += 1;
  payload_bytes += payload.bytes;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += hash_words[i];
}

void HashSums::Add(const HashSums& other) {
  records += other.records;
  payload_bytes += other.payload_bytes;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += other.words[i];
}

DeliveryLedger::DeliveryLedger(PayloadHash hash, bool keep_deliveries)
    : hash_(hash), keep_deliveries_(keep_deliveries), hasher_(hash) {}

void DeliveryLedger::Account(const HashedPayload& payload, HashSums* delivery) {
  delivery->Add(payload);
  if (hash_ != PayloadHash::kSha256) return;
  order_.Append(payload.hash);
  multiset_.Add(payload.hash);
}

void DeliveryLedger::Close(const HashSums& delivery) {
  ++deliveries_;
  totals_.Add(delivery);
  if (keep_deliveries_) kept_.push_back(delivery);
}

void DeliveryLedger::AddBatch(const Instance& batch) {
  const auto rows = static_cast<std::uint64_t>(batch.Rows());
  if (rows == 0) return;
  HashSums delivery;
  if (hash_ == PayloadHash::kNone) {
    delivery.records = rows;
  } else {
    const Tensor& hashes = batch.back();
    for (std::size_t place = 0; place < hashes.bytes; place += sizeof(HashedPayload)) {
      HashedPayload payload;
      std::memcpy(&payload, hashes.data + place, sizeof payload);
      Account(payload, &delivery);
    }
  }
  Close(delivery);
}

void DeliveryLedger::AddBlock(std::span<const RecordSpan> records) {
  HashSums delivery;
  for (const RecordSpan& record : records) {
    if (!record.damaged()) Account(hasher_.Of(record.bytes()), &delivery);
  }
  Close(delivery);
}

}  // namespace ringfeed::tools
