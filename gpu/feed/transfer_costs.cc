#include "ringfeed/devices/transfer_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/small_text.h"
#include "base/strict_json.h"

namespace ringfeed {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMostText = 1 << 16;
constexpr const char* kMark = "ringfeed_transfer_costs";
constexpr const char* kMeasuredOn = "measured_on";

struct NamedCost {
  const char* name;
  double TransferCosts::*cost;
};
constexpr std::array kCosts = {NamedCost{"copy_ns_per_kib", &TransferCosts::copy_ns_per_kib},
                               NamedCost{"link_ns_per_kib", &TransferCosts::link_ns_per_kib},
                               NamedCost{"member_ns", &TransferCosts::member_ns},
                               NamedCost{"row_ns", &TransferCosts::row_ns},
                               NamedCost{"sum_ns", &TransferCosts::sum_ns}};

TransferCosts CostsFrom(const Json& json) {
  if (!json.is_object() || !json.contains(kMark)) {
    throw std::invalid_argument(std::string("there is no \"") + kMark + "\" in it");
  }
  const std::uint64_t version = CountAt(json, kMark);
  if (version != kVersion) {
    throw std::invalid_argument("it is of version " + std::to_string(version) +
                                ", this is version " + std::to_string(kVersion));
  }
  TransferCosts costs;
  for (const auto& [key, value] : json.items()) {
    if (key == kMark || key == kMeasuredOn) continue;
    const auto* const found =
        std::find_if(kCosts.begin(), kCosts.end(),
                     [&name = key](const NamedCost& each) { return name == each.name; });
    if (found == kCosts.end()) throw std::invalid_argument("there is no cost \"" + key + "\"");
    if (!value.is_number()) throw std::invalid_argument(key + " is no number: " + value.dump());
    costs.*found->cost = value.get<double>();
  }
  return costs;
}

}  // namespace

Status TransferCosts::Check() const {
  for (const NamedCost& each : kCosts) {
    const double cost = this->*each.cost;
    if (std::isfinite(cost) && cost > 0 && cost <= kMostNs) continue;
    return Status(StatusCode::kInvalidArgument,
                  std::string("TransferCosts::") + each.name + " is " + std::to_string(cost) +
                      "; it is above 0 and at most " + std::to_string(std::llround(kMostNs)) +
                      ", in ns: measure it (`ringfeed bench --gpu --costs-out FILE`), or leave it "
                      "out");
  }
  return {};
}

std::string TransferCosts::Text(const std::string& measured_on) const {
  Json json = {{kMark, kVersion}, {kMeasuredOn, measured_on}};
  for (const NamedCost& each : kCosts) json[each.name] = this->*each.cost;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

TransferCosts TransferCosts::Load(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return Error(Status(StatusCode::kInvalidArgument,
                        path + " has no costs of transfers as ringfeed writes them: " + why));
  };
  const std::string text = ReadSmallText(path, "costs", kMostText);
  if (text.size() > kMostText) throw refuse("it is too long");
  TransferCosts costs;
  try {
    costs = CostsFrom(ParseStrictJson(text));
  } catch (const std::exception& error) {
    throw refuse(error.what());
  }
  if (const Status status = costs.Check(); !status.ok()) throw refuse(status.message());
  return costs;
}

}  // namespace ringfeed
