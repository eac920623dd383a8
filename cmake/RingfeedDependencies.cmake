# Every library comes from the distribution; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
pkg_check_modules(expat REQUIRED IMPORTED_TARGET expat)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(libcurl REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(libisal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(libxxhash REQUIRED IMPORTED_TARGET libxxhash)
# XXH3 by the processor's widest registers, three times as fast; not every distribution has it.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::libxxhash)
check_cxx_source_compiles("#include <xxh_x86dispatch.h>
  int main() { return static_cast<int>(XXH3_64bits_dispatch(nullptr, 0)); }" RINGFEED_HAS_XXH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
# Chunks of ArrayRecord that brotli compressed; without it they are refused by name.
pkg_check_modules(libbrotlidec IMPORTED_TARGET libbrotlidec)
pkg_check_modules(snappy REQUIRED IMPORTED_TARGET snappy)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
find_package(FastFloat REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
