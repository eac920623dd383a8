#pragma once

#include <string>

#include "ringfeed/record.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

inline constexpr char kOnDamageText[] =
    "fail: stop at the first damage, after all records before it; skip: note its bytes and go on "
    "at the next intact record";

/// Adds --on-damage=fail|skip, described by `what`; what `on_damage` is now is the default.
void AddDamageOption(CLI::App* app, OnDamage* on_damage, const std::string& what = kOnDamageText);

}  // namespace ringfeed::tools
