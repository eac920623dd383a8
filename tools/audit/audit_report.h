#pragma once

#include <string>

#include "tools/audit/journal_audit.h"
#include "tools/report_json.h"

namespace ringfeed::tools {

// What `ringfeed audit` says.

Json AuditReportJson(const AuditReport& report);
std::string AuditReportText(const AuditReport& report);

}  // namespace ringfeed::tools
