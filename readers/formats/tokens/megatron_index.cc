#include "readers/formats/tokens/megatron_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/file_mapping.h"
#include "readers/formats/tokens/megatron.h"

namespace ringfeed {
namespace {

/// The element types that Megatron-LM numbers, from 1.
constexpr DType kElementTypes[] = {DType::kUInt8, DType::kInt8,    DType::kInt16,   DType::kInt32,
                                   DType::kInt64, DType::kFloat64, DType::kFloat32, DType::kUInt16};

Status Bad(const std::string& file, StatusCode code, const std::string& why) {
  return Status(code, "the index of Megatron's two files " + why, {file, 0, -1});
}

}  // namespace

Status MegatronIndex::ReadHeader(const std::string& file) {
  const std::span<const std::byte> bytes = bytes_;
  if (bytes.size() < kHeaderBytes) {
    return Bad(file, StatusCode::kTruncated,
               "has " + std::to_string(bytes.size()) + " bytes, its header alone takes 34");
  }
  if (!StartsAsMegatronIndex(bytes)) {
    return Bad(file, StatusCode::kDamaged, "does not begin with its magic number MMIDIDX");
  }
  const auto version = LoadLe<std::uint64_t>(at(9));
  if (version != 1) {
    return Bad(file, StatusCode::kUnsupported,
               "is of version " + std::to_string(version) + ", 1 is known");
  }
  const auto type = std::to_integer<std::size_t>(*at(17));
  if (type < 1 || type > std::size(kElementTypes)) {
    return Bad(file, StatusCode::kDamaged,
               "has the element type " + std::to_string(type) + ", 1 to 8 are known");
  }
  element_type_ = kElementTypes[type - 1];
  element_bytes_ = DTypeBytes(element_type_);
  sequences_ = LoadLe<std::uint64_t>(at(18));
  const auto documents = LoadLe<std::uint64_t>(at(26));
  const std::uint64_t left = bytes.size() - kHeaderBytes;
  if (sequences_ > left / 12 || documents > (left - 12 * sequences_) / 8) {
    return Bad(file, StatusCode::kTruncated,
               "counts " + std::to_string(sequences_) + " sequences and " +
                   std::to_string(documents) + " documents, for which its " +
                   std::to_string(bytes.size()) + " bytes do not suffice");
  }
  return {};
}

Status MegatronIndex::Load(const std::string& file, std::shared_ptr<const MegatronIndex>* index) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  if (descriptor < 0 || fstat(descriptor, &facts) != 0) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    return StatusFromErrno(error, "open").WithPlace({file, -1, -1});
  }
  std::shared_ptr<const FileMapping> mapping;
  Status status;
  if (S_ISREG(facts.st_mode) && facts.st_size > 0) {
    mapping = FileMapping::Open(descriptor, facts, &status);
  } else {
    status = Bad(file, StatusCode::kTruncated, "is empty, or no file");
  }
  close(descriptor);
  if (!status.ok()) return status;
  auto loaded = std::make_shared<MegatronIndex>();
  loaded->bytes_ = mapping->bytes();
  loaded->mapping_ = std::move(mapping);
  status = loaded->ReadHeader(file);
  if (status.ok() && loaded->shrunk()) status = Bad(file, StatusCode::kTruncated, kShrunk);
  if (status.ok()) *index = std::move(loaded);
  return status;
}

Status MegatronIndex::Read(const std::string& file, std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner,
                           std::shared_ptr<const MegatronIndex>* index) {
  auto loaded = std::make_shared<MegatronIndex>();
  loaded->bytes_ = bytes;
  loaded->owner_ = std::move(owner);
  Status status = loaded->ReadHeader(file);
  if (status.ok()) *index = std::move(loaded);
  return status;
}

}  // namespace ringfeed
