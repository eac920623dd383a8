#include <cstdint>
#include <utility>

#include "readers/formats/tar/tar_unit.h"
#include "ringfeed/formats.h"

namespace ringfeed {

const TarMember* TarSample::Find(std::string_view extension) const {
  for (const TarMember& member : members) {
    if (member.extension == extension) return &member;
  }
  return nullptr;
}

Status SplitTarSample(std::span<const std::byte> record, TarSample* sample) {
  sample->key.clear();
  sample->members.clear();
  TarGlobals globals;
  std::span<const std::byte> rest = record;
  while (!rest.empty()) {
    TarUnit unit = ReadTarUnit(rest, rest.size(), &globals);
    const bool whole = unit.end <= rest.size();
    if (unit.kind == TarUnit::Kind::kZeros) break;
    if (unit.kind == TarUnit::Kind::kDamage || unit.kind == TarUnit::Kind::kMore || !whole) {
      const std::string reason = unit.reason.empty() ? "a member is cut" : unit.reason;
      return Status(StatusCode::kDamaged, "the record is no sample of a tar file: " + reason);
    }
    std::string_view key;
    std::string_view extension;
    if (unit.kind == TarUnit::Kind::kMember && SplitTarName(unit.name, &key, &extension)) {
      sample->key = key;
      sample->members.push_back(
          {std::string(extension), rest.subspan(static_cast<std::size_t>(unit.data_at),
                                                static_cast<std::size_t>(unit.size))});
    }
    rest = rest.subspan(static_cast<std::size_t>(unit.end));
  }
  return {};
}

}  // namespace ringfeed
