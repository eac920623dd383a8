#include "readers/formats/tar/tar_loss.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

namespace ringfeed {
namespace {

// Beyond that it cannot be said what was lost.
constexpr std::size_t kMostLost = 64;

bool EndsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }

// Whether a path, perhaps cut to an old header's field, is of a member of that sample.
bool Claims(std::string_view name, std::string_view key) {
  if (key.empty()) return false;
  if (name.size() >= TarLayout::kNameBytes - 10 && key.starts_with(name)) return true;
  return name.starts_with(key) && (name.size() == key.size() || EndsWord(name[key.size()]));
}

// Whether the header is right if another key replaces its name: then it may have been of that
// sample, with the damage in the key. This tells apart keys that differ by one digit.
bool Repairs(std::span<const std::byte> block, std::string_view name, std::string_view key) {
  if (block.empty() || key.empty() || key.size() >= TarLayout::kNameBytes) return false;
  if (name.starts_with(key)) return false;
  std::vector<std::byte> repaired(block.begin(), block.end());
  std::memcpy(repaired.data(), key.data(), key.size());
  return TarHeaderMatches(repaired);
}

bool Has(const TarExtensions& members, std::string_view extension) {
  return std::find(members.begin(), members.end(), extension) != members.end();
}

// The file ends after `name` or inside it, before the field with its folders. Says whether it can
// be a name in that sample.
bool MayBeOf(std::string_view name, std::string_view key) {
  std::string_view own;
  std::string_view extension;
  if (SplitTarName(name, &own, &extension)) return key.ends_with(own);
  return key.find(name) != std::string_view::npos;
}

bool IsExtensionHeader(std::span<const std::byte> block, std::string_view name) {
  const bool typed = std::string_view("xgLKX").find(TarHeaderType(block)) != std::string_view::npos;
  return (typed && TarHasMagic(block)) || name.starts_with("././@LongLink") ||
         name.find("PaxHeader") != std::string_view::npos;
}

}  // namespace

void TarLoss::Begin(std::uint64_t begin, std::uint64_t at, StatusCode code, std::string reason) {
  begin_ = begin;
  at_ = at;
  code_ = code;
  reason_ = std::move(reason);
  lost_.clear();
  too_many_ = false;
  takes_next_ = false;
}

void TarLoss::AddHeader(std::span<const std::byte> block) {
  if (lost_.size() == kMostLost) {
    too_many_ = true;
    return;
  }
  Lost lost;
  if (block.size() == TarLayout::kBlockBytes) {
    lost.name = TarHeaderName(block);
    if (IsExtensionHeader(block, lost.name)) {
      takes_next_ = true;
      return;
    }
    lost.block.assign(block.begin(), block.end());
  } else if (!block.empty()) {
    const std::size_t bytes = std::min(block.size(), TarLayout::kNameBytes);
    const std::string_view text(reinterpret_cast<const char*>(block.data()), bytes);
    lost.name = text.substr(0, text.find('\0'));
    lost.cut = true;
  }
  lost_.push_back(std::move(lost));
}

void TarLoss::AddName(std::string_view name) {
  if (lost_.size() == kMostLost) {
    too_many_ = true;
    return;
  }
  lost_.push_back({std::string(name), true, false, {}});
}

void TarLoss::TakeNext(std::string_view name) {
  takes_next_ = false;
  // As much of a long path as a header holds: its end may be missing.
  lost_.push_back({std::string(name), false, false, {}});
}

// The members that a whole sample usually holds tell whether the sample before is complete.
TarLoss::Options TarLoss::OwnerByMembers(const Around& around) {
  const TarExtensions& usual = *around.usual;
  const TarExtensions& before = *around.before_members;
  if (usual.empty() || around.before.empty()) return {};
  if (before.size() > usual.size()) return {};
  if (!std::equal(before.begin(), before.end(), usual.begin())) return {};
  const bool complete = before.size() == usual.size();
  // After the last sample nothing goes on.
  const bool fresh = around.after.empty() || around.after_member == usual[0];
  return {!complete && fresh, complete && !fresh, complete && fresh};
}

// By the text that is in the header, or that was there if one byte of it changed.
TarLoss::Options TarLoss::OwnersByName(const Lost& lost, const Around& around) {
  // The damage may be in the prefix: tries both readings.
  const auto* const text = reinterpret_cast<const char*>(lost.block.data());
  const std::string_view field(text, lost.block.empty() ? 0 : TarLayout::kNameBytes);
  const std::string_view plain = field.substr(0, field.find('\0'));
  std::string_view key;
  std::string_view extension;
  const bool has_key = SplitTarName(lost.name, &key, &extension);
  Options options;
  options.before = Claims(lost.name, around.before) || Claims(plain, around.before);
  options.after = Claims(lost.name, around.after) || Claims(plain, around.after);
  if (options.before && options.after && around.before.size() != around.after.size()) {
    // One key starts with the other: takes the longer one.
    options.before = around.before.size() > around.after.size();
    options.after = !options.before;
  }
  const bool intact_looks = has_key && !lost.block.empty() && TarHasMagic(lost.block);
  options.alone = intact_looks && options.count() == 0;
  options.before = options.before || Repairs(lost.block, plain, around.before);
  options.after = options.after || Repairs(lost.block, plain, around.after);
  return options;
}

TarLoss::Verdict TarLoss::OwnersOf(const Lost& lost, const Around& around) {
  std::string_view key;
  std::string_view extension;
  const bool has_key = SplitTarName(lost.name, &key, &extension);
  if (lost.name_holds) return {has_key && key == around.before, has_key && key == around.after};
  if (lost.cut) return {MayBeOf(lost.name, around.before), false};
  Options options = OwnersByName(lost, around);
  if (options.count() == 0) {
    // Nothing of it can be read, if it was a header at all.
    const Options likely = OwnerByMembers(around);
    return likely.count() == 1 ? Verdict{likely.before, likely.after} : Verdict{true, true};
  }
  // No sample has two members of one extension.
  const bool not_before = has_key && Has(*around.before_members, extension);
  const bool not_after = has_key && extension == around.after_member;
  if (not_before && not_after) return {false, false};
  options.before = options.before && !not_before;
  options.after = options.after && !not_after;
  if (options.count() == 1 && !options.alone) return {options.before, options.after};
  const Options likely = OwnerByMembers(around);
  if (options.count() == 1) return {likely.before, likely.after};
  if ((likely.before && options.before) || (likely.after && options.after) ||
      (likely.alone && options.alone)) {
    return {likely.before, likely.after};
  }
  if (options.count() == 0) return {true, true};
  return {options.before, options.after};
}

bool TarLoss::stands_alone(const Verdict& verdict) const {
  return !verdict.before && !verdict.after &&
         std::any_of(lost_.begin(), lost_.end(), [](const Lost& lost) {
           std::string_view key;
           std::string_view extension;
           return lost.name_holds || lost.cut || (!lost.block.empty() && TarHasMagic(lost.block)) ||
                  SplitTarName(lost.name, &key, &extension);
         });
}

TarLoss::Verdict TarLoss::Whose(const Around& around) const {
  Verdict verdict{too_many_ || takes_next_, too_many_ || takes_next_};
  for (const Lost& lost : lost_) {
    const Verdict owners = OwnersOf(lost, around);
    verdict.before = verdict.before || owners.before;
    verdict.after = verdict.after || owners.after;
  }
  return verdict;
}

}  // namespace ringfeed
