#pragma once

#include <string>

namespace ringfeed::tools {

/// Whether `file` is one that can be looked into before it is read: no stream, no device. Throws
/// Error where there is none of that name, or a folder.
bool IsRegularFile(const std::string& file);

/// The format as which OpenFiles would read `file`: `asked`, or, where that is empty, what the
/// file's first bytes or its name say. Empty for a stream that nothing was asked of: only reading
/// tells. Throws Error where there is no such file or no format is found.
std::string FormatNameOf(const std::string& file, const std::string& asked);

/// Throws Error where `format` is neither empty nor the name of one.
void CheckFormat(const std::string& format);

}  // namespace ringfeed::tools
