#include "tools/convert/recipe.h"

#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "ringfeed/source.h"
#include "tools/digests.h"

namespace ringfeed::tools {
namespace {

namespace fs = std::filesystem;

// It is renamed with its file, and is lost when another file takes the name.
constexpr char kAttribute[] = "user.ringfeed.recipe";
constexpr std::size_t kMostBytes = 256;  // of one that any program wrote

}  // namespace

std::string RecipeOf(const std::vector<std::string>& files_read, const std::string& from,
                     const std::string& to, std::uint64_t records_per_file) {
  std::string text = from + '\n' + to + '\n' + std::to_string(records_per_file) + '\n';
  for (const std::string& file : files_read) {
    if (IsStreamName(file)) return {};
    std::error_code failure;
    const fs::path place = fs::weakly_canonical(file, failure);
    const std::uintmax_t bytes = fs::file_size(file, failure);
    text += (failure ? file : place.string()) + '\0' + std::to_string(bytes) + '\n';
  }
  return HexText(Sha256().Of(std::as_bytes(std::span(text))));
}

void NoteRecipe(const std::vector<std::string>& outputs, const std::string& recipe) {
  if (recipe.empty()) return;
  for (const std::string& output : outputs) {
    (void)setxattr(output.c_str(), kAttribute, recipe.data(), recipe.size(), 0);
  }
}

bool HasOtherRecipe(const std::vector<std::string>& outputs, const std::string& recipe) {
  return std::ranges::any_of(outputs, [&recipe](const std::string& output) {
    std::array<char, kMostBytes> noted;
    const ssize_t bytes = getxattr(output.c_str(), kAttribute, noted.data(), noted.size());
    return bytes > 0 && std::string_view(noted.data(), static_cast<std::size_t>(bytes)) != recipe;
  });
}

}  // namespace ringfeed::tools
