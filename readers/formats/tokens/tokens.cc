#include "readers/formats/tokens/tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/edit_distance.h"
#include "base/little_endian.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

/// One of llm.c's headers (dev/data/data_common.py there).
struct TokensVariant {
  static constexpr std::size_t kHeaderBytes = 1024;
  static constexpr std::size_t kKnownBytes = 12;  ///< magic, version, count

  std::int32_t magic;
  std::int32_t version;
  std::uint64_t token_bytes;
};

/// The tokens of all records, back to back, without their ends. If the variant has llm.c's header,
/// its count is filled in at the end.
class TokensWriter final : public FileRecordWriter {
 public:
  TokensWriter(std::unique_ptr<OutputFile> file, const TokensVariant& variant, bool header)
      : FileRecordWriter(std::move(file)), variant_(variant), header_(header) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    if (record.size() % variant_.token_bytes != 0) {
      return Status(StatusCode::kInvalidArgument, "a record of " + std::to_string(record.size()) +
                                                      " bytes is not made of tokens " + "of " +
                                                      std::to_string(variant_.token_bytes));
    }
    if (header_ && !begun_) {
      Status status = Begin();
      if (!status.ok()) return status;
    }
    tokens_ += record.size() / variant_.token_bytes;
    return file().Append(record);
  }

  Status Begin() {
    begun_ = true;
    return file().AppendZeros(TokensVariant::kHeaderBytes);
  }

  Status Finish() override {
    if (!header_) return {};
    if (tokens_ > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
      return Status(StatusCode::kInvalidArgument, "llm.c counts tokens in 31 bits, " +
                                                      std::to_string(tokens_) +
                                                      " are too many for one file");
    }
    Status status = begun_ ? Status() : Begin();
    std::array<std::byte, TokensVariant::kKnownBytes> known;
    StoreLe(known.data(), static_cast<std::uint32_t>(variant_.magic));
    StoreLe(known.data() + 4, static_cast<std::uint32_t>(variant_.version));
    StoreLe(known.data() + 8, static_cast<std::uint32_t>(tokens_));
    return status.ok() ? file().Rewrite(0, known) : status;
  }

  const TokensVariant variant_;
  const bool header_;
  bool begun_ = false;
  std::uint64_t tokens_ = 0;
};

constexpr std::uint64_t kMostBlock = std::uint64_t{1} << 28;
constexpr std::size_t kHeaderBytes = TokensVariant::kHeaderBytes;
constexpr TokensVariant kVariants[] = {{20240520, 1, 2}, {20240801, 7, 4}};

const TokensVariant* FindVariant(std::span<const std::byte> head) {
  for (const TokensVariant& variant : kVariants) {
    if (LoadLe<std::int32_t>(head.data()) == variant.magic &&
        LoadLe<std::int32_t>(head.data() + 4) == variant.version) {
      return &variant;
    }
  }
  return nullptr;
}

ArrayHeader ReadTokensHeader(const TokensOptions& options, std::span<const std::byte> head) {
  ArrayHeader header;
  ArrayLayout& layout = header.layout;
  layout.short_tail = true;
  layout.drop_tail = options.drop_tail;
  layout.item_bytes = options.token_bytes;
  if (options.token_bytes == 0 || options.header) {
    header.need_bytes = kHeaderBytes;
    if (head.size() < kHeaderBytes) return header;
    const TokensVariant* const variant = FindVariant(head);
    const auto count = LoadOnceLe<std::int32_t>(head.data() + 8);
    if (variant == nullptr || count < 0) {
      header.status =
          variant == nullptr
              ? Status(StatusCode::kUnsupported,
                       "the file has none of llm.c's headers (magic 20240520, version 1; magic "
                       "20240801, version 7); name the tokens' type if it has no header "
                       "(tokens:u2, tokens:u4)")
              : Status(StatusCode::kDamaged,
                       "the header counts " + std::to_string(count) + " tokens");
      return header;
    }
    if (options.header && variant->token_bytes != options.token_bytes) {
      header.status =
          Status(StatusCode::kDamaged, "the header is that of tokens of " +
                                           std::to_string(variant->token_bytes) +
                                           " bytes, not of " + std::to_string(options.token_bytes));
      return header;
    }
    layout.header_bytes = kHeaderBytes;
    layout.item_bytes = variant->token_bytes;
    layout.data_bytes = static_cast<std::uint64_t>(count) * variant->token_bytes;
  }
  layout.row_bytes = options.block * layout.item_bytes;
  layout.stride_bytes = options.stride * layout.item_bytes;
  // The last record may be short.
  const Shape shape = {layout.drop_tail ? static_cast<std::int64_t>(options.block) : -1};
  if (layout.item_bytes == 2) header.elements = {"u2", {DType::kUInt16}, shape};
  // Ids are so small that the sign bit is never set.
  if (layout.item_bytes == 4) header.elements = {"u4", {DType::kUInt32, DType::kInt32}, shape};
  return header;
}

class Tokens final : public ArrayFormat {
 public:
  explicit Tokens(const TokensOptions& options)
      : ArrayFormat(
            [options](std::span<const std::byte> head) { return ReadTokensHeader(options, head); }),
        options_(options) {}

  std::string_view name() const override { return "tokens"; }
  bool has_fixed_places() const override { return true; }
  // ".bin" may be anything.
  bool MatchesName(std::string_view) const override { return false; }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return head.size() >= TokensVariant::kKnownBytes && FindVariant(head) != nullptr;
  }
  // Tokens of two bytes with a header, unless the user says otherwise. Not for overlapping records:
  // each has tokens of the next one.
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    if (options_.stride != 0 && options_.stride != options_.block) {
      return Format::NewWriter(nullptr);
    }
    const TokensVariant& variant = kVariants[options_.token_bytes == 4 ? 1 : 0];
    return {Status(), std::make_unique<TokensWriter>(std::move(file), variant, has_header())};
  }
  bool writes_in_order() const override { return !has_header(); }

 private:
  bool has_header() const { return options_.header || options_.token_bytes == 0; }

  const TokensOptions options_;
};

bool ReadWord(std::string_view word, TokensOptions* options) {
  if (word == "u2" || word == "u4") {
    options->token_bytes = word == "u2" ? 2 : 4;
    return true;
  }
  if (word == "llmc") {
    options->header = true;
    return true;
  }
  if (word == "tail=drop" || word == "tail=keep") {
    options->drop_tail = word == "tail=drop";
    return true;
  }
  const bool is_block = word.starts_with("block=");
  if (!is_block && !word.starts_with("stride=")) return false;
  word.remove_prefix(word.find('=') + 1);
  std::uint64_t* const count = is_block ? &options->block : &options->stride;
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, *count);
  return error == std::errc() && end == last && *count >= 1 && *count <= kMostBlock;
}

}  // namespace

Status ParseTokensOptions(std::string_view text, TokensOptions* options) {
  *options = {};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    if (!ReadWord(word, options)) {
      const std::array<std::string, 7> words = {
          "u2", "u4", "llmc", "block=", "stride=", "tail=keep", "tail=drop"};
      return Status(StatusCode::kInvalidArgument,
                    "format \"tokens:" + std::string(text) + "\": \"" + std::string(word) +
                        "\" is none of u2, u4, llmc, block=TOKENS (1 to 2^28), stride=TOKENS, "
                        "tail=keep, tail=drop" +
                        DidYouMeanWord(word, words));
    }
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  if (options->stride > options->block) {
    return Status(StatusCode::kInvalidArgument,
                  "format \"tokens:" + std::string(text) + "\": a stride of " +
                      std::to_string(options->stride) + " tokens leaves some between blocks of " +
                      std::to_string(options->block) + " out");
  }
  if (options->token_bytes == 0) options->header = false;  // whichever there is
  return {};
}

std::shared_ptr<const Format> TokensFormat(const TokensOptions& options) {
  return std::make_shared<const Tokens>(options);
}

}  // namespace ringfeed
