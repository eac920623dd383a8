# Writes PAGE as the C++ source SOURCE: cmake -D PAGE=… -D SOURCE=… -P this
file(READ "${PAGE}" page)
file(WRITE "${SOURCE}" "// Made from metrics/page.html.\n#include \"metrics/watcher.h\"\n
namespace ringfeed {\n
std::string_view MetricsPage() {\n  return R\"page(${page})page\";\n}\n
}  // namespace ringfeed\n")
