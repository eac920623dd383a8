#pragma once

#include "ringfeed/record.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// Adds --on-damage=fail|skip.
void AddDamageOption(CLI::App* app, OnDamage* on_damage);

}  // namespace ringfeed::tools
