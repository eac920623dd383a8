# Every library comes from the distribution; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(libisal REQUIRED IMPORTED_TARGET libisal)
find_package(mimalloc REQUIRED CONFIG)
