#include "readers/order/position.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/balanced_split.h"
#include "base/mixed_hash.h"
#include "base/strict_json.h"

namespace ringfeed {

namespace {

std::string Changed(const char* what, std::uint64_t was, std::uint64_t is) {
  return std::string(what) + ": " + std::to_string(is) + ", were " + std::to_string(was);
}

/// Which files' hashes differ, by their numbers.
std::string FilesThatDiffer(const DataFingerprint& was, const DataFingerprint& is) {
  constexpr std::size_t kNamed = 3;
  if (was.parts.size() != is.parts.size()) return {};
  std::string text;
  std::size_t found = 0;
  for (std::size_t i = 0; i < was.parts.size(); ++i) {
    if (was.parts[i] == is.parts[i] || found++ >= kNamed) continue;
    const NumberRange files =
        BalancedRange(static_cast<std::size_t>(was.files), is.parts.size(), i);
    text += (text.empty() ? "number " : ", ") + std::to_string(files.begin);
    if (files.size() > 1) text += " to " + std::to_string(files.end - 1);
  }
  if (found > kNamed) text += " and " + std::to_string(found - kNamed) + " more";
  return text.empty() ? "" : " (of the files, from 0: " + text + ")";
}

}  // namespace

void DataFingerprint::Add(const DataFingerprint& set) {
  if (files == 0) {
    *this = set;
    return;
  }
  files += set.files;
  bytes += set.bytes;
  records += set.records;
  sizes = MixedHash(sizes).Add(set.sizes).value();
  samples = MixedHash(samples).Add(set.samples).value();
  parts.clear();
}

DataFingerprint FingerprintOf(std::span<const FileFacts> files) {
  DataFingerprint print;
  MixedHash sizes;
  MixedHash samples;
  const std::size_t parts = std::min(files.size(), DataFingerprint::kMostParts);
  for (std::size_t part = 0; part < parts; ++part) {
    const NumberRange range = BalancedRange(files.size(), parts, part);
    MixedHash hash;
    for (const FileFacts& file : files.subspan(range.begin, range.size())) {
      sizes.Add(file.bytes);
      samples.Add(file.sample);
      hash.Add(file.bytes).Add(file.sample);
      print.bytes += file.bytes;
      print.records += file.records;
    }
    print.parts.push_back(static_cast<std::uint16_t>(hash.value()));
  }
  print.files = files.size();
  print.sizes = sizes.value();
  print.samples = samples.value();
  return print;
}

std::string DifferenceOf(const DataFingerprint& was, const DataFingerprint& is) {
  if (was.files != is.files) return Changed("files", was.files, is.files);
  const std::string which = FilesThatDiffer(was, is);
  if (was.bytes != is.bytes) return Changed("bytes", was.bytes, is.bytes) + which;
  if (was.sizes != is.sizes) return "sizes of files, or their order" + which;
  if (was.samples != is.samples) return "contents of files, or their order" + which;
  if (was.records != is.records && was.records != 0 && is.records != 0) {
    return Changed("records", was.records, is.records) + which;
  }
  return {};
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kVersionOfShares = 2;
constexpr int kPassBits = 40;  // of OriginMarkOf
constexpr std::uint64_t kInsideStep = std::uint64_t{1} << 63;
constexpr std::size_t kMostText = 1 << 20;

std::string Hex(std::uint64_t word) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  return text;
}

std::uint64_t HexValue(std::string_view text, std::size_t digits) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, 16);
  if (text.size() != digits || result.ec != std::errc() || result.ptr != end) {
    throw std::invalid_argument("\"" + std::string(text) + "\" is no hash");
  }
  return value;
}

std::string Written(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json ToJson(const DataFingerprint& data) {
  Json json;
  json["files"] = data.files;
  json["bytes"] = data.bytes;
  if (data.records != 0) json["records"] = data.records;
  json["sizes"] = Hex(data.sizes);
  json["samples"] = Hex(data.samples);
  std::string each;
  for (const std::uint16_t hash : data.parts) each += Hex(hash).substr(12);
  if (!each.empty()) json["each"] = each;
  return json;
}

DataFingerprint DataFrom(const Json& json) {
  DataFingerprint data;
  data.files = CountAt(json, "files");
  data.bytes = CountAt(json, "bytes");
  data.records = CountAtOr(json, "records", 0);
  data.sizes = HexValue(json.at("sizes").get_ref<const std::string&>(), 16);
  data.samples = HexValue(json.at("samples").get_ref<const std::string&>(), 16);
  const auto each = json.value("each", std::string());
  if (each.size() > 4 * DataFingerprint::kMostParts)
    throw std::invalid_argument("too many hashes of files");
  for (std::size_t at = 0; at < each.size(); at += 4) {
    data.parts.push_back(
        static_cast<std::uint16_t>(HexValue(std::string_view(each).substr(at, 4), 4)));
  }
  return data;
}

}  // namespace

std::string ChainPosition::ToJson() const {
  Json json;
  json["ringfeed_position"] = lengths ? kVersionOfShares : kVersion;
  json["batch"] = batch;
  if (mark) json["mark"] = {mark->pass, mark->place, mark->outputs};
  if (mark && lengths) json["mark"].push_back(mark->done);
  if (!mix.empty()) json["mix"] = mix;
  if (source_pass != 0) json["source_pass"] = source_pass;
  json["order"] = order;
  if (!on_damage.empty()) json["on_damage"] = on_damage;
  json["data"] = ringfeed::ToJson(data);
  if (lengths) json["lengths"] = Hex(*lengths);
  return Written(json);
}

std::string TextInPosition(const std::string& text) {
  return Json::parse(Written(text)).get<std::string>();
}

Status ParsePosition(const std::string& text, ChainPosition* position) {
  const auto wrong = [](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, "this is no position of ringfeed's: " + what);
  };
  if (text.size() > kMostText) return wrong("it is longer than 1 MiB");
  try {
    const Json json = ParseStrictJson(text);
    if (!json.is_object() || !json.contains("ringfeed_position")) {
      return wrong("there is no \"ringfeed_position\" in it");
    }
    const std::uint64_t version = CountAt(json, "ringfeed_position");
    if (version != kVersion && version != kVersionOfShares) {
      return wrong("it is of version " + std::to_string(version) + ", this is version " +
                   std::to_string(kVersionOfShares));
    }
    const bool of_shares = version == kVersionOfShares;
    ChainPosition read;
    read.batch = CountAt(json, "batch");
    if (json.contains("mark")) {
      const Json& mark = json["mark"];
      if (mark.size() != (of_shares ? 4 : 3)) {
        throw std::invalid_argument(of_shares ? "mark has four numbers" : "mark has three numbers");
      }
      read.mark = PlanPosition{CountOf(mark.at(0), "mark"), CountOf(mark.at(1), "mark"),
                               CountOf(mark.at(2), "mark")};
      if (of_shares) read.mark->done = CountOf(mark.at(3), "mark");
    }
    read.mix = json.value("mix", std::string());
    read.source_pass = CountAtOr(json, "source_pass", 0);
    read.order = json.at("order").get<std::string>();
    read.on_damage = json.value("on_damage", std::string());
    read.data = DataFrom(json.at("data"));
    if (of_shares) {
      read.lengths = HexValue(json.at("lengths").get_ref<const std::string&>(), 16);
      if (!read.mark) throw std::invalid_argument("mark has four numbers");
    }
    *position = std::move(read);
  } catch (const std::exception& error) {
    return wrong(error.what());
  }
  return {};
}

std::array<std::uint64_t, 4> OriginMarkOf(const OrderSpan& span) {
  const std::uint64_t most = (std::uint64_t{1} << (64 - kPassBits)) - 1;
  return {span.end.pass | std::min(span.uncounted, most) << kPassBits, span.end.place,
          span.end.outputs, span.end.done | (span.inside_step ? kInsideStep : 0)};
}

bool IsInsideStep(const BatchOrigin& origin) { return (origin.mark[3] & kInsideStep) != 0; }

bool IsCutShort(const BatchOrigin& origin) {
  return origin.mark[0] >> kPassBits != 0 && !IsInsideStep(origin);
}

ChainPosition PlaceBehind(const BatchOrigin& origin) {
  const std::uint64_t pass = origin.mark[0] & ((std::uint64_t{1} << kPassBits) - 1);
  ChainPosition position;
  position.batch = origin.batch + 1 - std::min(origin.batch + 1, origin.mark[0] >> kPassBits);
  position.mark = PlanPosition{pass, origin.mark[1], origin.mark[2], origin.mark[3] & ~kInsideStep};
  return position;
}

}  // namespace ringfeed
