
#include "readers/planned_source.h"
namespace ringfeed {
PlannedSource::PlannedSource(const Program& program) : program_(program) { throw Error(Status(StatusCode::kUnsupported, "no index yet")); }
std::unique_ptr<RowCursor> PlannedSource::NewCursor(const std::string&) const { return nullptr; }
std::string PlannedSource::MixBehind(const ChainPosition&) { return {}; }
DataFingerprint FingerprintOf(const SourceNode&) { return {}; }
}
