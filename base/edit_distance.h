#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ringfeed {

/// How far two names are from each other: 2 for each byte to be put in, left out or changed and for
/// two neighbours to be exchanged, 1 for a byte of another case. Compares the first 100 bytes.
std::size_t EditDistance(std::string_view one, std::string_view other);

/// The one of `names` that is most like `name`; null if `names` is empty.
const std::string* NearestName(std::string_view name, std::span<const std::string> names);

/// "; did you mean NAME?" for the nearest of `names`, if `name` may well be a slip of it: at most a
/// third of its bytes differ. Else empty.
std::string DidYouMean(std::string_view name, std::span<const std::string> names);

/// The same for a word of "key=value"; names that take a value end with '='. Empty if the key is
/// one of them: then it is the value that is wrong.
std::string DidYouMeanWord(std::string_view word, std::span<const std::string> names);

}  // namespace ringfeed
