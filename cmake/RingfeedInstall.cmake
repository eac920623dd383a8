# The installed tree: library, public headers, a CMake package and a pkg-config file.
#
# A static library's private dependencies are its user's to link. They are read off the target, so
# the two files cannot fall behind it; a kind of dependency not known here stops the configuration.
# All of it is the component `library`.
include(CMakePackageConfigHelpers)

set(RINGFEED_FIND_DEPENDENCIES "")
set(RINGFEED_PC_REQUIRES "")
set(RINGFEED_PC_LIBS "")

get_target_property(ringfeed_dependencies ringfeed LINK_LIBRARIES)
list(REMOVE_DUPLICATES ringfeed_dependencies)
foreach(dependency IN LISTS ringfeed_dependencies)
  # "::@" marks the folder that a link was made in.
  if(dependency MATCHES "BUILD_INTERFACE" OR dependency MATCHES "^::@")
    continue()
  elseif(dependency MATCHES "^PkgConfig::(.+)$")
    string(APPEND RINGFEED_FIND_DEPENDENCIES "ringfeed_find_module(${CMAKE_MATCH_1})\n")
    list(APPEND RINGFEED_PC_REQUIRES ${CMAKE_MATCH_1})
  elseif(dependency STREQUAL "Threads::Threads")
    string(APPEND RINGFEED_FIND_DEPENDENCIES "find_dependency(Threads)\n")
    list(APPEND RINGFEED_PC_LIBS -pthread)
  elseif(dependency STREQUAL "OpenSSL::Crypto")
    string(APPEND RINGFEED_FIND_DEPENDENCIES "find_dependency(OpenSSL)\n")
    list(APPEND RINGFEED_PC_REQUIRES libcrypto)
  elseif(dependency STREQUAL "BZip2::BZip2")  # Debian 12 has no module of it
    string(APPEND RINGFEED_FIND_DEPENDENCIES "find_dependency(BZip2)\n")
    list(APPEND RINGFEED_PC_LIBS -lbz2)
  elseif(dependency MATCHES "^(nlohmann_json::nlohmann_json|FastFloat::fast_float)$")
    message(FATAL_ERROR "${dependency} has headers only: link it as $<BUILD_INTERFACE:${dependency}>")
  else()
    message(FATAL_ERROR "cmake/RingfeedInstall.cmake does not know how a user of the installed "
      "library finds '${dependency}', which the library links: add it there")
  endif()
endforeach()
list(JOIN RINGFEED_PC_REQUIRES ", " RINGFEED_PC_REQUIRES)
list(JOIN RINGFEED_PC_LIBS " " RINGFEED_PC_LIBS)

set(RINGFEED_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/ringfeed")
set(RINGFEED_PC_DIR "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH RINGFEED_PC_PREFIX "${RINGFEED_PC_DIR}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH RINGFEED_PC_LIBDIR "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
file(RELATIVE_PATH RINGFEED_PC_INCLUDEDIR
  "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(cmake/ringfeed.pc.in ringfeed.pc @ONLY)
configure_package_config_file(cmake/ringfeedConfig.cmake.in ringfeedConfig.cmake
  INSTALL_DESTINATION "${RINGFEED_CMAKE_DIR}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(ringfeedConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS ringfeed EXPORT ringfeedTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)
install(EXPORT ringfeedTargets NAMESPACE ringfeed:: DESTINATION "${RINGFEED_CMAKE_DIR}"
  COMPONENT library)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/ringfeedConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/ringfeedConfigVersion.cmake"
  cmake/FindArrowOrWheel.cmake
  DESTINATION "${RINGFEED_CMAKE_DIR}" COMPONENT library)
install(FILES proto/ringfeed/instance.proto
  DESTINATION "${CMAKE_INSTALL_DATADIR}/ringfeed/proto/ringfeed" COMPONENT library)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/ringfeed.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)

# Each component with its pkg-config file and the targets that ringfeedConfig includes where somebody asks
# for it: nobody needs Protobuf, a toolkit, libjpeg, prometheus-cpp or mimalloc who does not.
foreach(name IN LISTS RINGFEED_COMPONENTS)
  if(NOT TARGET ringfeed_${name})
    continue()
  endif()
  configure_file(cmake/ringfeed-${name}.pc.in ringfeed-${name}.pc @ONLY)
  install(TARGETS ringfeed_${name} EXPORT ringfeed-${name}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)
  install(EXPORT ringfeed-${name} NAMESPACE ringfeed:: DESTINATION "${RINGFEED_CMAKE_DIR}" COMPONENT library)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/ringfeed-${name}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)
endforeach()
