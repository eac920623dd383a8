# The Debian packages: libringfeed-dev, to build programs with, and ringfeed, the command. `cpack` makes
# them in a build whose prefix is /usr; scripts/package does both.
set(RINGFEED_MAINTAINER "The ringfeed maintainers <maintainers@ringfeed.invalid>" CACHE STRING
  "Whom the packages name: who publishes them")
mark_as_advanced(RINGFEED_MAINTAINER)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${RINGFEED_MAINTAINER}")
set(CPACK_PACKAGE_VENDOR ringfeed)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL library library_documents)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libringfeed-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "pkg-config")
set(suggested "")
foreach(component IN LISTS RINGFEED_COMPONENTS)
  string(TOUPPER ${component} component)
  list(APPEND suggested ${RINGFEED_${component}_PACKAGE})
endforeach()
list(JOIN suggested ", " CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
"ringfeed reads record files and hands a training loop shuffled batches in
pinned memory. Every record comes exactly once per pass or is reported, in an
order that depends on options and seed alone.
.
This package has the static library, its headers, and its CMake package and
pkg-config file.")
if(RINGFEED_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL command command_documents)
  set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME ringfeed)
  set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
  set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
  set(CPACK_COMPONENT_COMMAND_DESCRIPTION
"ringfeed reads record files and hands a training loop shuffled batches in
pinned memory. Every record comes exactly once per pass or is reported, in an
order that depends on options and seed alone.
.
This package has the command, which makes, checks, converts, indexes and feeds
record files, and shows where the time goes.")
endif()

# A program links what the static library needs: the packages that have these files.
set(RINGFEED_DEV_PACKAGES "")
function(ringfeed_needs_package_of file)
  execute_process(COMMAND dpkg-query -S "${file}"
    OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(STATUS "ringfeed: no package of Debian has ${file}: libringfeed-dev does not name one")
    return()
  endif()
  string(REGEX REPLACE "[:,].*" "" found "${found}")
  list(APPEND RINGFEED_DEV_PACKAGES "${found}")
  set(RINGFEED_DEV_PACKAGES "${RINGFEED_DEV_PACKAGES}" PARENT_SCOPE)
endfunction()
find_program(DPKG_QUERY_PROGRAM dpkg-query)
mark_as_advanced(DPKG_QUERY_PROGRAM)
if(DPKG_QUERY_PROGRAM)
  string(REPLACE ", " ";" modules "${RINGFEED_PC_REQUIRES}")
  foreach(module IN LISTS modules)
    pkg_get_variable(folder ${module} pcfiledir)
    ringfeed_needs_package_of("${folder}/${module}.pc")
  endforeach()
  if(BZip2_FOUND)
    ringfeed_needs_package_of("${BZIP2_INCLUDE_DIR}/bzlib.h")
  endif()
endif()
list(JOIN RINGFEED_DEV_PACKAGES ", " CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS)

# What Debian wants each package to have. An installation without a package does without.
file(STRINGS CHANGELOG.md heading REGEX "^## [0-9]" LIMIT_COUNT 1)
string(REGEX REPLACE ".*\\((.*)\\)" "\\1" RINGFEED_RELEASED "${heading}")
execute_process(COMMAND date -R -u -d "${RINGFEED_RELEASED}"
  OUTPUT_VARIABLE RINGFEED_RELEASED OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
configure_file(cmake/debian/copyright.in debian/copyright @ONLY)
find_program(GZIP_PROGRAM gzip)
mark_as_advanced(GZIP_PROGRAM)
# ringfeed_documents(COMPONENT PACKAGE)
function(ringfeed_documents component package)
  set(folder "${PROJECT_BINARY_DIR}/debian/${package}")
  configure_file(cmake/debian/changelog.in "${folder}/changelog.Debian" @ONLY)
  configure_file(CHANGELOG.md "${folder}/changelog" COPYONLY)
  set(changelogs "${folder}/changelog.Debian" "${folder}/changelog")
  if(GZIP_PROGRAM)
    execute_process(COMMAND "${GZIP_PROGRAM}" -9nf ${changelogs} COMMAND_ERROR_IS_FATAL ANY)
    list(TRANSFORM changelogs APPEND .gz)
  endif()
  install(FILES ${changelogs} "${PROJECT_BINARY_DIR}/debian/copyright"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}" COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
ringfeed_documents(library_documents libringfeed-dev)
# (CPack strips programs and shared libraries.)
install(CODE "file(GLOB_RECURSE archives \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/libringfeed*.a\")
  execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug \${archives} COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT library_documents EXCLUDE_FROM_ALL)
if(RINGFEED_BUILD_TOOLS)
  ringfeed_documents(command_documents ringfeed)
  install(CODE "file(GLOB pages \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man1/*.1\")
    execute_process(COMMAND \"${GZIP_PROGRAM}\" -9nf \${pages} COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT command_documents EXCLUDE_FROM_ALL)
endif()

include(CPack)
cpack_add_component_group(library)
cpack_add_component_group(command)
cpack_add_component(library GROUP library)
cpack_add_component(library_documents GROUP library)
cpack_add_component(command GROUP command)
cpack_add_component(command_documents GROUP command)
