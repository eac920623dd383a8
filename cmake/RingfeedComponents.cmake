# What the components of the library have in common: each is built where what it needs is there.
#
# Of NAME there are cmake/RingfeedName.cmake, which sets RINGFEED_WITH_NAME and RINGFEED_NAME_PACKAGE (what
# Debian's package suggests for it), cmake/ringfeed-name.pc.in, its part of ringfeedConfig.cmake.in, and a
# program in tests/consumer.
set(RINGFEED_COMPONENTS arrow compat cuda jpeg metrics malloc)

# ringfeed_leave_out(NAME TITLE WHY): it is left out, or, where it was asked for, the configuration ends.
# Returns from the file that calls it.
macro(ringfeed_leave_out name title why)
  if(RINGFEED_${name} STREQUAL "ON")
    message(FATAL_ERROR "RINGFEED_${name} is ON, but ${why}")
  endif()
  message(STATUS "ringfeed: without ${title}: ${why}")
  return()
endmacro()

# ringfeed_component_library(name HEADER…): what the library of each component is, beside its sources and
# what it links. Its HEADERs are installed with it alone, so that a program can ask for them by
# __has_include.
function(ringfeed_component_library name)
  set(library ringfeed_${name})
  add_library(ringfeed::${name} ALIAS ${library})
  target_sources(${library} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${ARGN})
  target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${library} PROPERTIES
    EXPORT_NAME ${name}
    POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ON)
  target_link_libraries(${library}
    PUBLIC ringfeed::ringfeed
    PRIVATE $<BUILD_INTERFACE:ringfeed_warnings>)
endfunction()

# ringfeed_component(NAME TITLE WHERE): declares the option RINGFEED_NAME and sets RINGFEED_WITH_NAME to
# OFF. Returns from the file that calls it where that is final.
macro(ringfeed_component name title where)
  set(RINGFEED_WITH_${name} OFF)
  string(TOLOWER ${name} ringfeed_component_name)
  set(RINGFEED_${name} AUTO CACHE STRING
    "Build ringfeed::${ringfeed_component_name}: ON, OFF, or AUTO, where ${where} is found")
  set_property(CACHE RINGFEED_${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT RINGFEED_${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "RINGFEED_${name} is '${RINGFEED_${name}}': AUTO, ON or OFF is known")
  endif()
  if(RINGFEED_${name} STREQUAL "OFF")
    ringfeed_leave_out(${name} ${title} "RINGFEED_${name} is OFF")
  endif()
  if(CMAKE_CROSSCOMPILING AND RINGFEED_${name} STREQUAL "AUTO")
    ringfeed_leave_out(${name} ${title} "it is compiled for another machine")
  endif()
endmacro()
