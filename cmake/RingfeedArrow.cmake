# The component ringfeed::arrow, if Arrow and Parquet are found.
ringfeed_component(ARROW arrow "Arrow with Parquet")
include("${CMAKE_CURRENT_LIST_DIR}/FindArrowOrWheel.cmake")
if(NOT TARGET Parquet::parquet_shared)
  ringfeed_leave_out(ARROW arrow
    "CMake finds no Arrow with Parquet, and RINGFEED_PYARROW names no folder of pyarrow's")
endif()
set(RINGFEED_WITH_ARROW ON)
