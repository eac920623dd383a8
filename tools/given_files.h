#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ringfeed::tools {

/// What `names` stand for, patterns replaced by the files that match, as OpenFiles does. One that
/// nothing matches stays. Throws Error where a folder cannot be read, or for too many names.
std::vector<std::string> ExpandNames(const std::vector<std::string>& names);

/// The same of files that are to be read as `format`. Throws Error also where there is no such
/// format, and where both files of one data set are among them, which would be read twice.
std::vector<std::string> NamedFiles(const std::vector<std::string>& names,
                                    const std::string& format);

/// Whether `file` is one that can be looked into before it is read: no stream, no device. Throws
/// Error where there is none of that name, or a folder.
bool IsRegularFile(const std::string& file);

/// The format as which OpenFiles would read `file`: `asked`, or, where that is empty, what the
/// file's first bytes or its name say. Empty for a stream that nothing was asked of: only reading
/// tells. Throws Error where there is no such file or no format is found.
std::string FormatNameOf(const std::string& file, const std::string& asked);

/// Throws Error where `format` is neither empty nor the name of one.
void CheckFormat(const std::string& format);

/// Throws Error where a stream is named twice: its two readers would share what comes.
void RefuseStreamTwice(const std::vector<std::string>& files);

/// `inputs` and, behind them, what is read beside one that is of a format of two files. `format`
/// may be empty: the first bytes of each tell it.
std::vector<std::string> FilesRead(const std::vector<std::string>& inputs,
                                   const std::string& format);

/// All files that are written where records go to `output` in a format that can be written:
/// `output` and, of a format of two files, the other one.
std::vector<std::string> FilesWritten(const std::string& output, const std::string& format);

/// Throws Error where the file `output`, if it is there, is one of `inputs` too, under whatever
/// name. An empty name: no output. `inputs` are all FilesRead.
void RefuseInputAsOutput(const std::vector<std::string>& inputs, const std::string& output);

/// Throws Error where two of the outputs are one file; empty names are none.
void RefuseOneOutputTwice(const std::vector<std::string>& outputs);

/// For a progress bar: the sizes of the files together, of those that have one.
std::uint64_t BytesOfFiles(const std::vector<std::string>& files);

/// How several files are looked at at a time: on how many threads, and with how much of the pinned
/// memory each.
struct FileShare {
  std::size_t threads = 1;
  std::size_t arena_bytes = 0;  ///< for OpenOptions::arena_bytes; 0: all that a lone reader takes
};
/// One by one, each with all of it, where a stream is among them: it cannot be read a second time
/// with more memory.
FileShare ShareOut(const std::vector<std::string>& files);

/// What is left of the pinned memory while ShareOut's shares are taken: for a file whose records
/// are larger than a share.
std::size_t ArenaBesideShares();

/// What RunInOrder calls. `job` runs on several threads at a time and does not throw; the others on
/// the caller's.
struct FileJobs {
  std::function<void(std::size_t)> job;   ///< does the work for one file
  std::function<void(std::size_t)> done;  ///< in the order of the files, each after its job
  std::function<void()> tick;             ///< a few times a second meanwhile
};
/// Runs the job for each number below `count`, `threads` at a time. Returns after the last one.
void RunInOrder(std::size_t count, std::size_t threads, const FileJobs& jobs);

}  // namespace ringfeed::tools
