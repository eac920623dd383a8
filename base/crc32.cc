#include "base/crc32.h"

#include <isa-l/crc.h>

namespace ringfeed {

std::uint32_t Crc32(std::span<const std::byte> data, std::uint32_t crc) {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

}  // namespace ringfeed
