#include "base/small_text.h"

#include <cerrno>
#include <fstream>
#include <ios>

#include "ringfeed/status.h"

namespace ringfeed {

std::string ReadSmallText(const std::string& path, const std::string& what,
                          std::size_t most_bytes) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(most_bytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) {
    throw Error(StatusFromErrno(errno != 0 ? errno : EIO, "read the " + what + " " + path));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace ringfeed
