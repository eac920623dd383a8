#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed::tools {

/// The files that `names` select: patterns are replaced by the files that match, as OpenFiles does.
/// A pattern that matches nothing stays. Throws Error if a folder cannot be read, or for too many
/// names.
std::vector<std::string> ExpandNames(const std::vector<std::string>& names);

/// The same for files to be read as `format`. Throws Error also if there is no such format, and if
/// both files of one data set are among them, which would be read twice.
std::vector<std::string> NamedFiles(const std::vector<std::string>& names,
                                    const std::string& format);

/// One of several parts of a list, by which several processes share a command's work.
struct FilesPart {
  std::uint64_t part = 0;
  std::uint64_t parts = 1;
  bool is_all() const { return parts == 1; }
};
/// Declares --part, which fills `part`: "I/N", or "launcher" for the rank that one says.
void AddPartOption(CLI::App* app, FilesPart* part);
/// The files of that part: ranges of the list whose lengths differ by at most one.
std::vector<std::string> TakePart(std::vector<std::string> files, const FilesPart& part);

/// Whether `file` can be examined before it is read: no stream, no device. Throws Error if there is
/// none of that name, or a folder.
bool IsRegularFile(const std::string& file);

/// The format as which OpenFiles would read `file`: `asked`, or, if that is empty, the format by
/// the file's first bytes or its name. Empty for a stream if `asked` is: only reading tells. Throws
/// Error if there is no such file or no format is found.
std::string FormatNameOf(const std::string& file, const std::string& asked);

/// Throws Error if `format` is neither empty nor the name of one.
void CheckFormat(const std::string& format);

/// Throws Error if a stream is named twice: its two readers would share its data.
void RefuseStreamTwice(const std::vector<std::string>& files);

/// `inputs`, and after them the files that are read along with an input in a format of two files.
/// `format` may be empty: the first bytes of each tell it.
std::vector<std::string> FilesRead(const std::vector<std::string>& inputs,
                                   const std::string& format);

/// All files that are written if records go to `output` in a format that can be written: `output`
/// and, in a format of two files, the other one.
std::vector<std::string> FilesWritten(const std::string& output, const std::string& format);

/// Throws Error if the file `output` exists and is one of `inputs`, under whatever name. An empty
/// name: no output. `inputs` are all FilesRead.
void RefuseInputAsOutput(const std::vector<std::string>& inputs, const std::string& output);

/// Throws Error if two of the outputs are one file; empty names do not count.
void RefuseOneOutputTwice(const std::vector<std::string>& outputs);

/// For a progress bar: the sizes of the files together, of those that have one.
std::uint64_t BytesOfFiles(const std::vector<std::string>& files);

/// How to process several files at a time: on how many threads, and with how much of the pinned
/// memory each.
struct FileShare {
  std::size_t threads = 1;
  std::size_t arena_bytes = 0;  ///< for OpenOptions::arena_bytes; 0: as much as a lone reader takes
};
/// One by one, each with all the memory, if a stream is among them: a stream cannot be read a
/// second time with more memory.
FileShare ShareOut(const std::vector<std::string>& files);

/// The functions that RunInOrder calls. `job` runs on several threads at a time and does not throw;
/// the others run on the caller's.
struct FileJobs {
  std::function<void(std::size_t)> job;   ///< does the work for one file
  std::function<void(std::size_t)> done;  ///< in the order of the files, each after its job
  std::function<void()> tick;             ///< a few times a second meanwhile
};
/// Runs the job for each number below `count`, `threads` at a time. Returns after the last one.
void RunInOrder(std::size_t count, std::size_t threads, const FileJobs& jobs);

/// Gets the payload bytes of every block; may be called on any thread.
using ByteProgress = std::function<void(std::uint64_t)>;

/// Work on several files that shows a progress bar.
struct FilesWork {
  std::string label;  ///< of the bar
  std::vector<std::string> files;
  bool together = false;  ///< one job for all of them
  /// As FileJobs has it, with `arena_bytes` of the pinned memory (FileShare). If it returns
  /// kResourceExhausted for lack of a larger share, it is called once more with all that is left
  /// beside the shares.
  std::function<Status(std::size_t, std::size_t arena_bytes, const ByteProgress&)> job{};
  std::function<void(std::size_t)> done{};  ///< as FileJobs has it; the bar is off the terminal
};
void ProcessFiles(const FilesWork& work);

}  // namespace ringfeed::tools
