#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace ringfeed::tools {

/// The format that an output of this name is written in: `asked`, or, where that is empty, what the
/// name's ending says. Throws Error where it says nothing, and where it says that the file is
/// compressed, which no writer does.
std::string OutputFormat(const std::string& output, const std::string& asked);

/// "FOLDER/train.recordio" for ("a/train.tfrecord.gz", "FOLDER", "recordio:go").
std::string NameInFolder(const std::string& input, const std::string& folder,
                         const std::string& format);

/// "out-00003.tfrecord" for ("out.tfrecord", 3): OUTPUT's name with the part's number before its
/// ending.
std::string PartName(const std::string& output, std::size_t part);
/// Whether `name` is the PartName of a part of `output`; both are names without folders.
bool IsPartName(const std::string& output, const std::string& name);

/// Whether all of `outputs` are there and no older than all of `inputs`: since files appear under
/// their names only when they are complete, there is nothing left to do. Never where an input is a
/// stream.
bool IsUpToDate(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

/// Whether the first bytes of `output`, which is there, are none of another format than `format`, a
/// name. Of formats without a mark of their own, such as lines or rows, only the mark of another
/// one or a compression tells them.
bool MayBeOfFormat(const std::string& output, const std::string& format);

/// Dates `output` before the newest of `inputs`: something is missing in it, and nobody is to take
/// it for up to date.
void MakeOutOfDate(const std::string& output, const std::vector<std::string>& inputs);

/// Removes from `folder` what writers of files whose names `is_ours` accepts left behind when they
/// were killed: temporary files of processes that are not there any more.
void RemoveStalePartials(const std::string& folder,
                         const std::function<bool(const std::string& name)>& is_ours);

}  // namespace ringfeed::tools
