#include "tools/report_json.h"

#include <cstdio>
#include <string>

#include "tools/standard_output.h"

namespace ringfeed::tools {

Json DamageJson(const std::vector<DamagedRange>& damage) {
  Json list = Json::array();
  for (const DamagedRange& range : damage) {
    list.push_back({{"file", range.file},
                    {"begin", range.begin},
                    {"end", range.end},
                    {"reason", range.reason}});
  }
  return list;
}

void PrintJson(const Json& json) {
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  std::puts(text.c_str());
  (void)FlushOutput();  // main() sees to its failure
}

}  // namespace ringfeed::tools
