# The component ringfeed::metrics, where prometheus-cpp is there: its core alone, by pkg-config. (Its
# CMake package asks for curl and civetweb as well, which nothing here uses.)
#
# It is a library of its own, not a part of ringfeed: who feeds a training loop and looks at nothing
# links no more than before.
set(RINGFEED_WITH_METRICS OFF)
set(RINGFEED_METRICS AUTO CACHE STRING "Build ringfeed::metrics: ON, OFF, or AUTO, where prometheus-cpp is found")
set_property(CACHE RINGFEED_METRICS PROPERTY STRINGS AUTO ON OFF)
if(NOT RINGFEED_METRICS MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "RINGFEED_METRICS is '${RINGFEED_METRICS}': AUTO, ON or OFF is known")
endif()

# ringfeed_no_metrics(WHY): they are left out, or, where they were asked for, the configuration ends.
macro(ringfeed_no_metrics why)
  if(RINGFEED_METRICS STREQUAL "ON")
    message(FATAL_ERROR "RINGFEED_METRICS is ON, but ${why}")
  endif()
  message(STATUS "ringfeed: without metrics: ${why}")
  return()
endmacro()

if(RINGFEED_METRICS STREQUAL "OFF")
  ringfeed_no_metrics("RINGFEED_METRICS is OFF")
endif()
if(CMAKE_CROSSCOMPILING AND RINGFEED_METRICS STREQUAL "AUTO")
  ringfeed_no_metrics("it is compiled for another machine")
endif()
pkg_check_modules(prometheus-cpp-core QUIET IMPORTED_TARGET prometheus-cpp-core)
if(NOT prometheus-cpp-core_FOUND)
  ringfeed_no_metrics("pkg-config does not find prometheus-cpp-core (Debian: prometheus-cpp-dev)")
endif()
message(STATUS "ringfeed: with metrics by prometheus-cpp ${prometheus-cpp-core_VERSION}")
set(RINGFEED_WITH_METRICS ON)
