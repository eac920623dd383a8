#include "readers/formats/litdata/litdata.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/litdata/chunk.h"
#include "readers/formats/litdata/index.h"
#include "readers/formats/samples/sample_framer.h"

namespace ringfeed {
namespace {

constexpr std::string_view kFramesBegin = "LDFZ01";

std::uint32_t HeadNumber(std::span<const std::byte> head, std::uint64_t number) {
  return LoadLe<std::uint32_t>(head.data() + number * SampleTable::kNumberBytes);
}

// Its number of items is told by the index, by the first count and by the first offset: two of them
// are believed.
class PlainHead {
 public:
  explicit PlainHead(KnownChunk known) : known_(std::move(known)) {}

  SampleHead operator()(std::span<const std::byte> head, bool ends,
                        const FramerOptions& options) const;

 private:
  std::uint64_t ItemsOf(std::span<const std::byte> head) const;

  const KnownChunk known_;
};

std::uint64_t PlainHead::ItemsOf(std::span<const std::byte> head) const {
  const std::uint64_t told = HeadNumber(head, 0);
  const std::uint64_t first = HeadNumber(head, 1);
  if (known_.listed == nullptr || SampleTable::TableEnd(told) == first) return told;
  return known_.listed->items;
}

SampleHead PlainHead::operator()(std::span<const std::byte> head, bool ends,
                                 const FramerOptions& options) const {
  constexpr std::uint64_t kLeast = SampleTable::kLeastHead;
  const auto hopeless = [](StatusCode code, const char* why) {
    return SampleHead{0, std::make_shared<const SampleTable>(Status(code, why))};
  };
  if (head.size() < kLeast && !ends) return {kLeast};
  if (head.size() < kLeast) return hopeless(StatusCode::kTruncated, "the file ends in its head");
  const std::uint64_t items = ItemsOf(head);
  const std::uint64_t end = SampleTable::TableEnd(items);
  if (items == 0 || (HeadNumber(head, 0) != items && HeadNumber(head, 1) != end) ||
      (known_.listed == nullptr && HeadNumber(head, 1) != end)) {
    return hopeless(StatusCode::kDamaged,
                    "its head is none of a chunk of LitData: a number of items and their offsets");
  }
  if (end > std::min(SampleTable::MostOffset(options), SampleTable::kMostHead)) {
    return hopeless(StatusCode::kTruncated, "the file ends inside the offsets of its items");
  }
  if (head.size() < end && !ends) return {static_cast<std::size_t>(end)};
  if (head.size() < end) {
    return hopeless(StatusCode::kTruncated, "the file ends inside the offsets of its items");
  }
  std::vector<SampleTable::Piece> pieces;
  if (HeadNumber(head, 0) != items) {
    pieces.push_back({0, SampleTable::kNumberBytes,
                      "its head counts " + std::to_string(HeadNumber(head, 0)) + " items, not " +
                          std::to_string(items)});
  }
  std::vector<std::uint32_t> offsets;
  for (std::uint64_t i = 0; i <= items; ++i) offsets.push_back(HeadNumber(head, 1 + i));
  if (offsets[0] != end) {
    pieces.push_back({SampleTable::kNumberBytes, kLeast,
                      "its first offset is " + std::to_string(offsets[0]) + " where " +
                          std::to_string(end) + " is expected"});
    offsets[0] = static_cast<std::uint32_t>(end);
  }
  SampleLayout layout = known_.index != nullptr ? known_.index->layout : SampleLayout();
  return {0, std::make_shared<const SampleTable>(std::move(offsets), end, std::move(pieces),
                                                 std::move(layout), options)};
}

class LitData final : public Format {
 public:
  /// Without knowing the chunk it can only find that out, or read plain items.
  LitData(const TokensOptions& tokens, KnownChunk known, std::shared_ptr<const LitDataChunk> chunk)
      : tokens_(tokens), known_(std::move(known)), chunk_(std::move(chunk)) {}

  std::string_view name() const override { return "litdata"; }
  bool has_columns() const override { return true; }
  bool MatchesName(std::string_view file_name) const override;
  bool MatchesBytes(std::span<const std::byte> head) const override;
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override;
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    if (chunk_ != nullptr) return NewChunkUnitFramer(options, chunk_);
    return NewSampleUnitFramer(options,
                               known_.index != nullptr ? known_.index->layout : SampleLayout());
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> head) const override;
  CompanionResult FindCompanion(const std::string& file) const override;
  Status ReadEnd(std::uint64_t file_bytes, const ReadPart& read,
                 std::shared_ptr<const Format>* own) const override;

 private:
  const TokensOptions tokens_;
  const KnownChunk known_;
  const std::shared_ptr<const LitDataChunk> chunk_;  // null: its items stand alone
};

// "chunk-RANK-NUMBER.bin", or with ".zstd" inside.
bool LitData::MatchesName(std::string_view file_name) const {
  constexpr std::string_view kBegin = "chunk-";
  file_name.remove_prefix(file_name.rfind('/') + 1);
  if (!file_name.starts_with(kBegin) || !file_name.ends_with(".bin")) return false;
  const std::string_view numbers =
      file_name.substr(kBegin.size(), file_name.find('.') - kBegin.size());
  return numbers.find('-') != std::string_view::npos &&
         numbers.find_first_not_of("0123456789-") == std::string_view::npos;
}

bool LitData::MatchesBytes(std::span<const std::byte> head) const {
  if (head.size() < SampleTable::TableEnd(1)) return false;
  if (std::memcmp(head.data(), kFramesBegin.data(), kFramesBegin.size()) == 0) return true;
  const std::uint64_t items = HeadNumber(head, 0);
  std::uint64_t before = HeadNumber(head, 1);
  if (items == 0 || before != SampleTable::TableEnd(items)) return false;
  for (std::uint64_t i = 1; i <= items && SampleTable::TableEnd(i) <= head.size(); ++i) {
    if (HeadNumber(head, 1 + i) < before) return false;
    before = HeadNumber(head, 1 + i);
  }
  return true;
}

std::unique_ptr<Framer> LitData::NewFramer(const FramerOptions& options) const {
  if (chunk_ != nullptr) return NewChunkFramer(options, known_.index->layout, chunk_);
  return NewSampleFramer(options, PlainHead(known_));
}

OwnIndexResult LitData::OwnIndex(const FramerOptions& options,
                                 std::span<const std::byte> head) const {
  if (chunk_ == nullptr) return SampleIndex(options, head, PlainHead(known_));
  Status refused = CheckColumns(known_.index->layout, options);
  if (!refused.ok()) return {std::move(refused), nullptr};
  return {Status(), ChunkRecords(chunk_, options.file_bytes)};
}

/// Tokens of a chunk: an array behind the table of its items.
class LitDataTokens final : public ArrayFormat {
 public:
  LitDataTokens(const TokensOptions& tokens, const KnownChunk& known)
      : ArrayFormat(
            [=](std::span<const std::byte> head) { return ReadHead(tokens, known, head); }) {}

  std::string_view name() const override { return "litdata"; }
  bool MatchesName(std::string_view) const override { return false; }
  bool MatchesBytes(std::span<const std::byte>) const override { return false; }
  bool has_fixed_places() const override { return true; }

 private:
  static ArrayHeader ReadHead(const TokensOptions& tokens, const KnownChunk& known,
                              std::span<const std::byte> head);
};

// The index says how many there are, else the table does.
ArrayHeader LitDataTokens::ReadHead(const TokensOptions& tokens, const KnownChunk& known,
                                    std::span<const std::byte> head) {
  ArrayHeader header;
  ArrayLayout& layout = header.layout;
  const DType type = *known.index->tokens;
  layout.item_bytes = DTypeBytes(type);
  layout.row_bytes = tokens.block * layout.item_bytes;
  layout.stride_bytes = tokens.stride * layout.item_bytes;
  layout.short_tail = true;
  layout.drop_tail = tokens.drop_tail;
  header.elements = {std::string(DTypeName(type)),
                     {type},
                     {tokens.drop_tail ? static_cast<std::int64_t>(tokens.block) : -1}};
  const LitDataIndex::Chunk* const listed = known.listed;
  header.need_bytes = SampleTable::kLeastHead;
  if (head.size() < header.need_bytes) return header;
  const std::uint64_t items = listed != nullptr ? listed->items : HeadNumber(head, 0);
  layout.header_bytes = SampleTable::TableEnd(items);
  if (items > SampleTable::kMostHead / SampleTable::kNumberBytes) {
    header.status =
        Status(StatusCode::kDamaged, "a chunk of " + std::to_string(items) + " items is not read");
    return header;
  }
  header.need_bytes = static_cast<std::size_t>(layout.header_bytes);
  if (head.size() < header.need_bytes) return header;
  const std::uint64_t end = HeadNumber(head, 1 + items);
  layout.data_bytes = end - std::min(end, layout.header_bytes);
  if (listed != nullptr && listed->tokens) {
    layout.data_bytes = *listed->tokens * layout.item_bytes;
  }
  return header;
}

CompanionResult LitData::FindCompanion(const std::string& file) const {
  CompanionResult found;
  KnownChunk known;
  found.status = FindLitDataIndex(file, &known.index);
  if (!found.status.ok() || known.index == nullptr) return found;
  known.listed = known.index->Find(std::filesystem::path(file).filename().string());
  if (known.index->tokens) {
    found.data_file = file;
    found.format = std::make_shared<const LitDataTokens>(tokens_, known);
    return found;
  }
  found.data_file = file;
  found.format = std::make_shared<const LitData>(tokens_, std::move(known), nullptr);
  return found;
}

Status LitData::ReadEnd(std::uint64_t file_bytes, const ReadPart& read,
                        std::shared_ptr<const Format>* own) const {
  if (known_.index == nullptr) return {};
  const auto read_all = [&](std::uint64_t offset, std::span<std::byte> to) {
    std::size_t got = 0;
    Status status = read(offset, to, &got);
    return status.ok() && got < to.size() ? Status(StatusCode::kTruncated, "the file shrank")
                                          : status;
  };
  return MakeLitDataFormat(read_all, file_bytes, known_, own);
}

}  // namespace

Status MakeLitDataFormat(const ReadChunkAt& read, std::uint64_t file_bytes, KnownChunk known,
                         std::shared_ptr<const Format>* format) {
  std::shared_ptr<const LitDataChunk> chunk;
  Status status = ReadLitDataChunk(read, file_bytes, known, &chunk);
  if (!status.ok()) return status;
  *format = std::make_shared<const LitData>(TokensOptions(), std::move(known), std::move(chunk));
  return {};
}

std::shared_ptr<const Format> LitDataFormat(const TokensOptions& tokens) {
  return std::make_shared<const LitData>(tokens, KnownChunk(), nullptr);
}

Status ParseLitDataOptions(std::string_view text, TokensOptions* tokens) {
  Status status = ParseTokensOptions(text, tokens);
  if (status.ok() && tokens->token_bytes == 0 && !tokens->header) return {};
  return Status(StatusCode::kInvalidArgument,
                "format \"litdata:" + std::string(text) +
                    "\": block=TOKENS (1 to 2^28), stride=TOKENS, tail=keep and tail=drop may "
                    "follow, for chunks of tokens");
}

}  // namespace ringfeed
