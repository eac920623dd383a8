#include "readers/parsers/example/feature_location.h"

#include "readers/formats/builders/wire_format.h"
#include "readers/parsers/usual_reader.h"

namespace ringfeed {

bool LocateUsualFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                        FieldLocation* location) {
  UsualReader reader(feature);
  *location = {feature.data(), 0, 0, kFormMissing};
  if (reader.done()) return true;
  const auto tag = std::to_integer<std::uint32_t>(feature[0]);
  const FeatureKind kind = dialect.KindOf(tag >> 3);
  std::span<const std::byte> run;
  if (kind == FeatureKind::kUnset || tag != WireTag(tag >> 3, WireType::kDelimited)) return false;
  if (!reader.Enter(&run) || !reader.done()) return false;
  location->form = kind == FeatureKind::kBytes && run.empty() ? kFormNoBytes : FormOf(kind);
  if (run.empty()) return true;
  UsualReader list(run);
  constexpr std::byte kRun{WireTag(1, WireType::kDelimited)};
  if (!list.Enter(kRun, &run) || !list.done()) return false;
  location->data = run.data();
  location->bytes = static_cast<std::uint32_t>(run.size());
  return true;
}

}  // namespace ringfeed
