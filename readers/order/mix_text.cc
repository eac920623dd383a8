#include "readers/order/mix_text.h"

#include <charconv>
#include <string_view>

namespace ringfeed {

namespace {

constexpr int kBase = 16;
constexpr std::size_t kMostSets = 1 << 16;

std::string Number(std::uint64_t value) {
  char text[17];
  const auto end = std::to_chars(text, text + sizeof(text), value, kBase).ptr;
  return {text, end};
}

std::uint32_t HashOf(std::span<const std::uint64_t> weights) {
  std::uint64_t hash = weights.size();
  for (const std::uint64_t weight : weights) {
    hash = (hash ^ weight) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return static_cast<std::uint32_t>(hash);
}

/// Takes a number and the separator behind it; false where there is none.
bool Take(std::string_view* text, std::uint64_t* value) {
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), *value, kBase);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

bool TakeSeparator(std::string_view* text, char separator) {
  if (!text->starts_with(separator)) return false;
  text->remove_prefix(1);
  return true;
}

bool TakeCount(std::string_view* text, MixCount* count) {
  if (!Take(text, &count->count) || !TakeSeparator(text, '.')) return false;
  if (!Take(text, &count->phase)) return false;
  return !TakeSeparator(text, '.') || Take(text, &count->before);
}

}  // namespace

std::string MixText(const MixState& state, std::span<const std::uint64_t> weights) {
  std::string text = Number(state.pass) + ":" + Number(HashOf(weights));
  char separator = ':';
  for (const MixCount& set : state.sets) {
    text += separator + Number(set.count) + "." + Number(set.phase);
    if (set.before != 0) text += "." + Number(set.before);
    separator = ' ';
  }
  return text;
}

Status ParseMixText(const std::string& text, std::span<const std::uint64_t> weights,
                    MixState* state, bool* other_weights) {
  std::string_view rest = text;
  MixState read;
  std::uint64_t hash = 0;
  bool good = Take(&rest, &read.pass) && TakeSeparator(&rest, ':') && Take(&rest, &hash);
  char separator = ':';
  while (good && !rest.empty() && read.sets.size() < kMostSets) {
    good = TakeSeparator(&rest, separator) && TakeCount(&rest, &read.sets.emplace_back());
    separator = ' ';
  }
  if (!good || !rest.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "\"" + text.substr(0, 100) + "\" is no state of a mixture");
  }
  *other_weights = hash != HashOf(weights);
  *state = std::move(read);
  return {};
}

}  // namespace ringfeed
