#include "tools/option_values.h"

namespace ringfeed::tools {

void AddDamageOption(CLI::App* app, OnDamage* on_damage, const std::string& what) {
  static const std::map<std::string, OnDamage> kPolicies = {{"fail", OnDamage::kFail},
                                                            {"skip", OnDamage::kSkip}};
  app->add_option("--on-damage", *on_damage, what)
      ->transform(NamedValue(kPolicies))
      ->type_name("fail|skip")
      ->default_str(*on_damage == OnDamage::kFail ? "fail" : "skip");
}

}  // namespace ringfeed::tools
