# Arrow's and Parquet's libraries: as CMake packages, else those of a wheel of pyarrow, whose folder is
# RINGFEED_PYARROW ("$(python3 -c 'import pyarrow; print(*pyarrow.__path__)')"). Debian has no package.
set(RINGFEED_PYARROW "" CACHE PATH "Folder of pyarrow's package, if there is no CMake package of Arrow")
find_package(Arrow CONFIG QUIET)
find_package(Parquet CONFIG QUIET)
if(NOT TARGET Parquet::parquet_shared AND RINGFEED_PYARROW)
  foreach(library IN ITEMS Arrow::arrow_shared Parquet::parquet_shared)
    string(REGEX REPLACE ".*::(.*)_shared" "\\1" name ${library})
    file(GLOB file "${RINGFEED_PYARROW}/lib${name}.so*")
    if(NOT file)
      message(FATAL_ERROR "RINGFEED_PYARROW is '${RINGFEED_PYARROW}', which has no lib${name}.so")
    endif()
    list(GET file 0 file)
    add_library(${library} SHARED IMPORTED)
    set_target_properties(${library} PROPERTIES
      IMPORTED_LOCATION "${file}"
      INTERFACE_INCLUDE_DIRECTORIES "${RINGFEED_PYARROW}/include")
  endforeach()
endif()
