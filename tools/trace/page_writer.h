#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tools/trace/trace_writer.h"

namespace ringfeed::tools {

/// What a browser can draw interactively.
inline constexpr std::uint64_t kMostSpansOfPage = 1'000'000;
inline constexpr std::uint64_t kMostRowsOfPage = 4096;

/// Writes the file `path` as a page of HTML that draws the trace and takes nothing from outside.
/// Errors: kInvalidArgument if there are more spans or rows than a page may have.
std::unique_ptr<TraceWriter> NewPageWriter(std::string path);

/// The page without a trace, which goes in place of kTracePlace.
std::string_view TracePage();
inline constexpr std::string_view kTracePlace = "<!--TRACE-->";

}  // namespace ringfeed::tools
