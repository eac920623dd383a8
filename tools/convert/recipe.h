#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringfeed::tools {

/// What decides which records an output has, and how they are written: the files that are read,
/// their sizes, both formats, and how many records a part has. As a digest. Empty where a stream is
/// read, since nobody can tell one from another.
std::string RecipeOf(const std::vector<std::string>& files_read, const std::string& from,
                     const std::string& to, std::uint64_t records_per_file);

/// Notes beside each of `outputs`, in an extended attribute of it, what it was made by. Where the
/// file system has none, nothing is noted, and the dates of the files alone tell.
void NoteRecipe(const std::vector<std::string>& outputs, const std::string& recipe);

/// Whether one of `outputs` says that it was made by another recipe.
bool HasOtherRecipe(const std::vector<std::string>& outputs, const std::string& recipe);

}  // namespace ringfeed::tools
