#include "readers/formats/registered_format.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/lasting_list.h"
#include "base/refuse.h"
#include "base/user_call.h"
#include "readers/formats/stepped_framer.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

/// What a format finds, checked against the bytes that it was given.
class CheckedFormat {
 public:
  CheckedFormat(std::string tag, std::shared_ptr<const RecordFormat> format)
      : who_("the format " + tag), format_(std::move(format)) {}

  FoundRecord Find(std::span<const std::byte> bytes, std::uint64_t offset, bool at_end) const {
    FoundRecord found;
    const Status thrown = CallUser(who_, [&] { found = format_->Find(bytes, offset, at_end); });
    if (!thrown.ok()) {
      found = {};
      found.status = thrown;
      return found;
    }
    const char* wrong = nullptr;
    if (found.need_bytes != 0) {
      if (found.need_bytes <= bytes.size()) wrong = "needs no more bytes than it was given";
    } else if (found.end > bytes.size()) {
      wrong = "finds an end past the bytes that it was given";
    } else if (found.status.ok() && found.end == 0) {
      wrong = "goes nowhere: a record, or what is none, ends after its start";
    } else if (found.status.ok() && found.is_record &&
               (found.begin > found.end || found.bytes > found.end - found.begin)) {
      wrong = "finds a record past its end";
    }
    if (wrong != nullptr) found.status = Status(StatusCode::kUserError, who_ + " " + wrong);
    return found;
  }

 private:
  const std::string who_;
  const std::shared_ptr<const RecordFormat> format_;
};

class RegisteredFramer final : public RestLosingFramer {
 public:
  RegisteredFramer(const FramerOptions& options, std::shared_ptr<const CheckedFormat> format)
      : RestLosingFramer(options), format_(std::move(format)) {}

 private:
  void Walk(FrameCall* call) override {
    while (Next(call) == FrameStep::kGoOn) {
    }
  }
  FrameStep Next(FrameCall* call);
  FrameStep Need(std::uint64_t bytes, bool ends, FrameCall* call);
  FrameStep Lost(const FoundRecord& found, FrameCall* call);

  const std::shared_ptr<const CheckedFormat> format_;
};

FrameStep RegisteredFramer::Next(FrameCall* call) {
  const std::uint64_t at = call->at();
  const std::size_t left = call->left();
  if (IsAtEnd(call)) return FrameStep::kStop;
  if (left == 0) return call->Need(1);
  const bool ends = call->input.at_end || (known_size() && FileLeft(at) == left);
  const FoundRecord found = format_->Find({call->data(), left}, at, ends);
  if (found.status.code() == StatusCode::kUserError) {
    return Fail(StatusCode::kUserError, found.status.message(), at, call);
  }
  if (found.need_bytes != 0) return Need(found.need_bytes, ends, call);
  if (!found.status.ok()) return Lost(found, call);
  if (found.is_record && found.bytes > options_.max_record_bytes) {
    return LoseRest(StatusCode::kResourceExhausted,
                    AboveLimit("a record of " + std::to_string(found.bytes) + " bytes"), call);
  }
  if (found.is_record) {
    Append({call->data() + found.begin, found.bytes}, {at, at + found.end}, call);
  }
  call->pos += found.end;
  return FrameStep::kGoOn;
}

FrameStep RegisteredFramer::Need(std::uint64_t bytes, bool ends, FrameCall* call) {
  // What stands around a record, at most.
  constexpr std::uint64_t kAround = 64 * 1024;
  if (ends || (known_size() && bytes > FileLeft(call->at()))) {
    return LoseRest(StatusCode::kTruncated, "the file ends inside a record", call);
  }
  if (bytes > options_.max_record_bytes + kAround) {
    return LoseRest(
        StatusCode::kResourceExhausted,
        AboveLimit("what begins here, which needs " + std::to_string(bytes) + " bytes,"), call);
  }
  return call->Need(bytes);
}

FrameStep RegisteredFramer::Lost(const FoundRecord& found, FrameCall* call) {
  const StatusCode code = found.status.code();
  if (found.end == 0) return LoseRest(code, found.status.message(), call);
  const std::uint64_t at = call->at();
  if (Damaged(code, found.status.message(), at, at + found.end, call) == FrameStep::kStop) {
    return FrameStep::kStop;
  }
  LoseRecord(at, call);
  call->pos += found.end;
  return FrameStep::kGoOn;
}

class RegisteredUnitFramer final : public UnitFramer {
 public:
  RegisteredUnitFramer(const FramerOptions& options, std::shared_ptr<const CheckedFormat> format)
      : UnitFramer(options), format_(std::move(format)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty()) return Lose(unit, records, kLostBefore, output);
    const bool ends = unit.offset + unit.bytes.size() == options_.file_bytes;
    const FoundRecord found = format_->Find(unit.bytes, unit.offset, ends);
    if (found.status.code() == StatusCode::kUserError) return found.status;
    if (!found.status.ok()) return Lose(unit, records, found.status.message(), output);
    if (found.need_bytes != 0 || !found.is_record || records != 1) {
      return Lose(unit, records, "no record of the length that the index says stands here", output);
    }
    output->records.push_back({unit.bytes.data() + found.begin, found.bytes});
    return {};
  }

 private:
  const std::shared_ptr<const CheckedFormat> format_;
};

class RegisteredFormat final : public Format {
 public:
  RegisteredFormat(std::string tag, std::string magic, std::shared_ptr<const RecordFormat> format)
      : tag_(std::move(tag)),
        magic_(std::move(magic)),
        format_(std::make_shared<const CheckedFormat>(tag_, std::move(format))) {}

  std::string_view name() const override { return tag_; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with("." + tag_);
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return !magic_.empty() && head.size() >= magic_.size() &&
           std::memcmp(head.data(), magic_.data(), magic_.size()) == 0;
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<RegisteredFramer>(options, format_);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<RegisteredUnitFramer>(options, format_);
  }
  // The user names it, or its magic does.
  bool MayHold(Mistake /*mistake*/, bool /*asked*/) const override { return true; }

 private:
  const std::string tag_;
  const std::string magic_;
  const std::shared_ptr<const CheckedFormat> format_;
};

constinit LastingList<std::shared_ptr<const Format>> registered;

template <typename Says>
std::shared_ptr<const Format> FindFirst(Says&& says) {
  const auto* const found = registered.First([&](const auto& format) { return says(*format); });
  return found == nullptr ? nullptr : *found;
}

}  // namespace

bool IsFormatTag(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::shared_ptr<const Format> FindRegistered(std::string_view tag) {
  return FindFirst([&](const Format& format) { return format.name() == tag; });
}
std::shared_ptr<const Format> FindRegisteredByName(std::string_view file_name) {
  return FindFirst([&](const Format& format) { return format.MatchesName(file_name); });
}
std::shared_ptr<const Format> FindRegisteredByBytes(std::span<const std::byte> head) {
  return FindFirst([&](const Format& format) { return format.MatchesBytes(head); });
}

void RegisterRecordFormat(const std::string& tag, std::shared_ptr<const RecordFormat> format,
                          const std::string& magic) {
  const auto refuse = [&](const std::string& why) {
    Refuse("RegisterRecordFormat(\"" + tag + "\"): " + why);
  };
  if (!IsFormatTag(tag)) refuse("a tag has lower-case letters, digits and _");
  if (format == nullptr) refuse("the format is null");
  if (FindFormat(tag).status.ok()) refuse("there is a format of that name");
  auto made = std::make_shared<const RegisteredFormat>(tag, magic, std::move(format));
  if (!registered.Add(std::move(made), [&](const auto& other) { return other->name() == tag; })) {
    refuse("there is a format of that name");
  }
}

}  // namespace ringfeed
