#include <array>
#include <limits>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/tokens/tokens.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

/// The tokens of all records, back to back: where one ends is not kept. With llm.c's header its
/// count is filled in at the end.
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

}  // namespace

std::unique_ptr<RecordWriter> NewTokensWriter(std::unique_ptr<OutputFile> file,
                                              const TokensVariant& variant, bool header) {
  return std::make_unique<TokensWriter>(std::move(file), variant, header);
}

}  // namespace ringfeed
