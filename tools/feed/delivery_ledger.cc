#include "tools/feed/delivery_ledger.h"

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "readers/chain/record_walk.h"
#include "tools/given_files.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

void AddRecords(const FeedPlan& plan, const std::string& file, PayloadHasher* hasher,
                HashSums* sums) {
  RecordWalk walk(file, plan.open);
  ReadResult result;
  std::span<const RecordSpan> records;
  while ((result = walk.Next(&records)) == ReadResult::kRecord) {
    for (const RecordSpan& record : records) {
      if (!record.damaged()) sums->Add(hasher->Of(record.bytes()));
    }
  }
  if (result == ReadResult::kFailed) throw Error(walk.status());
}

// Sums of the records that a feed finds there: none in an empty file of a format that begins with a
// header, and, if damage is skipped, none in a file that cannot be read, which the feed reports.
HashSums SumsOfFiles(const FeedPlan& plan) {
  HashSums sums;
  PayloadHasher hasher(plan.hash);
  for (const std::string& file : ExpandNames(plan.files)) {
    try {
      AddRecords(plan, file, &hasher, &sums);
    } catch (const Error&) {
      std::error_code no_size;
      const bool empty = std::filesystem::file_size(file, no_size) == 0 && !no_size;
      if (plan.open.on_damage != OnDamage::kSkip && !empty) throw;
    }
  }
  return sums;
}

// The words for the first pass that differs, from its sums and the file's.
std::string Difference(std::uint64_t pass, const HashSums& delivered, const HashSums& files) {
  return "pass " + std::to_string(pass) + " delivered " + CountText(delivered.records) +
         " records of " + CountText(delivered.payload_bytes) + " bytes, the files hold " +
         CountText(files.records) + " of " + CountText(files.payload_bytes) +
         (delivered.records == files.records ? ", and their contents differ" : "");
}

}  // namespace

std::uint64_t RowsOfTensor(const Tensor& tensor) {
  if (!tensor.lod.empty()) return tensor.lod[0].size() - 1;
  return tensor.shape.empty() ? 0 : static_cast<std::uint64_t>(tensor.shape[0]);
}

void HashSums::Add(const HashedPayload& payload) {
  HashSums one{1, payload.bytes, {}};
  static_assert(sizeof one.words == sizeof payload.hash);
  std::memcpy(one.words.data(), payload.hash.data(), sizeof one.words);
  Add(one);
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
  if (batch.empty()) return;
  AddRows(RowsOfTensor(batch.back()), {batch.back().data, batch.back().bytes});
}

void DeliveryLedger::AddRows(std::uint64_t rows, std::span<const std::byte> hashes) {
  if (rows == 0) return;
  HashSums delivery;
  if (hash_ == PayloadHash::kNone) {
    delivery.records = rows;
  } else {
    for (std::size_t place = 0; place < hashes.size(); place += sizeof(HashedPayload)) {
      HashedPayload payload;
      std::memcpy(&payload, hashes.data() + place, sizeof payload);
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

DeliveryCheck CheckDeliveries(const FeedPlan& plan, const DeliveryLedger& ledger, bool complete) {
  DeliveryCheck check;
  check.files = SumsOfFiles(plan);
  HashSums pass;
  for (const HashSums& delivery : ledger.kept()) {
    pass.Add(delivery);
    if (pass.records < check.files.records) continue;
    if (pass != check.files) break;
    ++check.passes;
    pass = HashSums();
  }
  const bool rest = pass.records > 0;
  const bool differs = pass.records >= check.files.records && rest;
  check.exact = !differs && !(complete && rest) &&
                !(complete && check.passes < plan.passes && check.files.records > 0);
  check.done = !check.exact || complete || check.passes > 0;
  if (!check.exact) {
    check.what = Difference(check.passes + 1, pass, check.files);
  } else if (!check.done) {
    check.what = "no pass was ended, so nothing was compared";
  } else {
    check.what = "every record exactly once in each of " + CountText(check.passes) +
                 (check.passes == 1 ? " pass" : " passes") + " (number, bytes and sums of the " +
                 (plan.hash == PayloadHash::kSha256 ? "SHA-256" : "XXH3-128") +
                 " of all payloads, against the files read one by one)";
  }
  return check;
}

}  // namespace ringfeed::tools
