#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tools/trace/trace_writer.h"

namespace ringfeed::tools {

/// What a browser draws while somebody looks.
inline constexpr std::uint64_t kMostSpansOfPage = 1'000'000;
inline constexpr std::uint64_t kMostRowsOfPage = 4096;

/// Writes the file `path` as a page of HTML that draws the trace and takes nothing from outside.
/// Errors: kInvalidArgument where there are more spans or rows than a page may have.
std::unique_ptr<TraceWriter> NewPageWriter(std::string path);

/// The page without a trace: its place is where kTracePlace stands.
std::string_view TracePage();
inline constexpr std::string_view kTracePlace = "<!--TRACE-->";

}  // namespace ringfeed::tools
