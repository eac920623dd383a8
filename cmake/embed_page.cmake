# Writes the file PAGE as the C++ source SOURCE, which defines FUNCTION of NAMESPACE as HEADER declares it:
#   cmake -D PAGE=… -D SOURCE=… -D HEADER=… -D NAMESPACE=… -D FUNCTION=… -P this
file(READ "${PAGE}" page)
file(WRITE "${SOURCE}" "// Made of a page of HTML by cmake/embed_page.cmake.\n#include \"${HEADER}\"\n
namespace ${NAMESPACE} {\n
std::string_view ${FUNCTION}() {\n  return R\"page(${page})page\";\n}\n
}  // namespace ${NAMESPACE}\n")
