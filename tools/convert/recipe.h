#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringfeed::tools {

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

}  // namespace ringfeed::tools
