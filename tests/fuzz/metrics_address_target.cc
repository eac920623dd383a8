#include "metrics/address.h"
#include "ringfeed/status.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {

FuzzTarget MetricsAddressTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const bool may_be_public = TakeByte(&input) % 2 != 0;
    const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
    MetricsAddress address;
    try {
      address = ParseMetricsAddress(text, {7, [] { return 3; }, may_be_public});
    } catch (const Error& error) {
      FuzzExpect(error.status().code() == StatusCode::kInvalidArgument,
                 "a text is refused for itself", [&] { return error.status().ToString(); });
      return;
    }
    FuzzExpect(address.loopback || may_be_public, "an address is public only if that is allowed",
               [&] { return address.ToString(); });
    if (address.kind == MetricsAddress::Kind::kFile) return;
    const SocketName name(address);
    FuzzExpect(name.bytes > 0 && name.bytes <= sizeof(name.storage), "a name fits its socket",
               [&] { return address.ToString(); });
  };
}

}  // namespace ringfeed
