#include "bench/mapped_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "ringfeed/status.h"

namespace ringfeed::bench {

MappedFiles::MappedFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw Error(StatusFromErrno(errno, "open " + path));
    const auto bytes = static_cast<std::size_t>(std::filesystem::file_size(path));
    void* const mapping = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, 0);
    const int error = errno;
    close(descriptor);
    if (mapping == MAP_FAILED) throw Error(StatusFromErrno(error, "map " + path));
    files_.emplace_back(static_cast<const std::byte*>(mapping), bytes);
  }
}

MappedFiles::~MappedFiles() {
  for (const std::span<const std::byte> file : files_) {
    munmap(const_cast<std::byte*>(file.data()), file.size());
  }
}

}  // namespace ringfeed::bench
