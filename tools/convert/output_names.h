#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ringfeed::tools {

/// The format to write an output of this name in: `asked`, or, if that is empty, the format of the
/// name's ending. Throws Error if the ending names none, or if it asks for compression, which no
/// writer does.
std::string OutputFormat(const std::string& output, const std::string& asked);

/// "FOLDER/train.recordio" for ("a/train.tfrecord.gz", "FOLDER", "recordio:go").
std::string NameInFolder(const std::string& input, const std::string& folder,
                         const std::string& format);

/// "out-00003.tfrecord" for ("out.tfrecord", 3): OUTPUT's name with the part's number before its
/// ending.
std::string PartName(const std::string& output, std::size_t part);
/// Whether `name` is the PartName of a part of `output`; both are names without folders.
bool IsPartName(const std::string& output, const std::string& name);

/// Whether all of `outputs` exist and are no older than all of `inputs`: since files appear under
/// their names only when they are complete, there is nothing left to do. Never if an input is a
/// stream.
bool IsUpToDate(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

/// Whether the first bytes of `output`, which exists, are not those of another format than
/// `format`, a name. Formats without a mark of their own, such as lines or rows, are recognised
/// only by another format's mark or a compression.
bool MayBeOfFormat(const std::string& output, const std::string& format);

/// Dates `output` before the newest of `inputs`: something is missing in it, so it must not count
/// as up to date.
void MakeOutOfDate(const std::string& output, const std::vector<std::string>& inputs);

/// A digest of everything that decides which records an output has and how they are written: the
/// files that are read, their sizes, both formats, and how many records a part has. Empty if a
/// stream is read, since streams cannot be told apart.
std::string RecipeOf(const std::vector<std::string>& files_read, const std::string& from,
                     const std::string& to, std::uint64_t records_per_file);

/// Notes the recipe of each of `outputs` in an extended attribute of the file. If the file system
/// has none, nothing is noted, and only the dates of the files tell.
void NoteRecipe(const std::vector<std::string>& outputs, const std::string& recipe);

/// Whether one of `outputs` says that it was made by another recipe.
bool HasOtherRecipe(const std::vector<std::string>& outputs, const std::string& recipe);

/// Removes from `folder` the temporary files that killed writers left: those of processes that no
/// longer run, for files whose names `is_ours` accepts.
void RemoveStalePartials(const std::string& folder,
                         const std::function<bool(const std::string& name)>& is_ours);

}  // namespace ringfeed::tools
