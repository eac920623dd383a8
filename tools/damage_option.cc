#include "tools/damage_option.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "tools/option_values.h"

namespace ringfeed::tools {

void AddDamageOption(CLI::App* app, OnDamage* on_damage) {
  static const std::map<std::string, OnDamage> kPolicies = {{"fail", OnDamage::kFail},
                                                            {"skip", OnDamage::kSkip}};
  app->add_option("--on-damage", *on_damage,
                  "fail: stop at the first damage, after all records before it; skip: note its "
                  "bytes and go on at the next intact record")
      ->transform(NamedValue(kPolicies))
      ->type_name("fail|skip")
      ->default_str("fail");
}

}  // namespace ringfeed::tools
