# Every library comes from the distribution; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(libisal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(snappy REQUIRED IMPORTED_TARGET snappy)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(protobuf REQUIRED IMPORTED_TARGET protobuf)
find_package(mimalloc REQUIRED CONFIG)
find_package(FastFloat REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)

# mimalloc as a program's malloc, even where it calls nothing of it by name. A sanitizer brings an
# allocator of its own, so there this is empty.
add_library(ringfeed_malloc INTERFACE)
if(NOT RINGFEED_SANITIZER)
  target_link_options(ringfeed_malloc INTERFACE -Wl,--no-as-needed)
  target_link_libraries(ringfeed_malloc INTERFACE mimalloc)
endif()
