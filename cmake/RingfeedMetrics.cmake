# The component ringfeed::metrics, where prometheus-cpp is there: its core alone, by pkg-config. (Its
# CMake package asks for curl and civetweb as well, which nothing here uses.)
#
# It is a library of its own, not a part of ringfeed: who feeds a training loop and looks at nothing
# links no more than before.
ringfeed_component(METRICS metrics "prometheus-cpp")
pkg_check_modules(prometheus-cpp-core QUIET IMPORTED_TARGET prometheus-cpp-core)
if(NOT prometheus-cpp-core_FOUND)
  ringfeed_leave_out(METRICS metrics "pkg-config does not find prometheus-cpp-core (Debian: prometheus-cpp-dev)")
endif()
message(STATUS "ringfeed: with metrics by prometheus-cpp ${prometheus-cpp-core_VERSION}")
set(RINGFEED_WITH_METRICS ON)
set(RINGFEED_METRICS_PACKAGE prometheus-cpp-dev)
