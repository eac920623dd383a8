#pragma once

#include <string>

#include "tools/journal_audit.h"
#include "tools/report_json.h"

namespace ringfeed::tools {

// What `ringfeed audit` says.

Json AuditReportJson(const AuditReport& report);
std::string AuditReportText(const AuditReport& report);

}  // namespace ringfeed::tools
