#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace ringfeed {

/// Parses JSON that people edit or peers send, from a text of bounded size. Throws std::exception
/// with what is wrong, also if values are nested deeper than `most_depth` or an object has a key
/// twice.
nlohmann::ordered_json ParseStrictJson(const std::string& text, std::size_t most_depth = 8);

/// The number under that key, as it is written: no sign, no fraction, no exponent, at most `most`.
/// Throws std::invalid_argument with the value found, and nlohmann's exception if there is none.
std::uint64_t CountAt(const nlohmann::ordered_json& object, const char* key,
                      std::uint64_t most = ~std::uint64_t{0});
/// The same; `missing` if there is no such key.
std::uint64_t CountAtOr(const nlohmann::ordered_json& object, const char* key,
                        std::uint64_t missing);
/// The same for a value by itself, which a message calls `what`.
std::uint64_t CountOf(const nlohmann::ordered_json& value, const std::string& what,
                      std::uint64_t most = ~std::uint64_t{0});

}  // namespace ringfeed
