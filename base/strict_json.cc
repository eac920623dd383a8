#include "base/strict_json.h"

#include <functional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ringfeed {

namespace {

using Json = nlohmann::ordered_json;

// The library parses without recursion, but copies, compares and prints with it.
class Limits {
 public:
  explicit Limits(std::size_t most_depth) : most_depth_(most_depth) {}

  bool operator()(int /*depth*/, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (keys_.size() >= most_depth_) throw std::invalid_argument("it is nested too deeply");
      keys_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys_.pop_back();
    } else if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw std::invalid_argument(parsed.dump(-1, ' ', true, Json::error_handler_t::replace) +
                                  " is in it twice");
    }
    return true;
  }

 private:
  const std::size_t most_depth_;
  std::vector<std::set<std::string>> keys_;  // of the objects and arrays that are open
};

}  // namespace

nlohmann::ordered_json ParseStrictJson(const std::string& text, std::size_t most_depth) {
  Limits limits(most_depth);
  return Json::parse(text, std::ref(limits));
}

std::uint64_t CountAt(const nlohmann::ordered_json& object, const char* key, std::uint64_t most) {
  return CountOf(object.at(key), key, most);
}

std::uint64_t CountAtOr(const nlohmann::ordered_json& object, const char* key,
                        std::uint64_t missing) {
  return object.contains(key) ? CountAt(object, key) : missing;
}

std::uint64_t CountOf(const nlohmann::ordered_json& value, const std::string& what,
                      std::uint64_t most) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) {
    return value.get<std::uint64_t>();
  }
  throw std::invalid_argument(what + " is no number from 0 to " + std::to_string(most) + ": " +
                              value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace ringfeed
