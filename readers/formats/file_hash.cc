#include "readers/formats/file_hash.h"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/data_file.h"

namespace ringfeed {
namespace {

using Bytes = std::vector<unsigned char>;

/// One hash, piece by piece.
struct Hasher {
  std::function<void(std::span<const std::byte>)> add;
  std::function<Bytes()> finish;
};

// OpenSSL's name of one of hashlib's; XOFs have no size of their own.
std::string OpenSslName(std::string_view name) {
  if (name == "blake2b") return "blake2b512";
  if (name == "blake2s") return "blake2s256";
  if (name.starts_with("shake")) return {};
  std::string ours(name);
  std::replace(ours.begin(), ours.end(), '_', '-');
  return ours;
}

Hasher OpenSslHasher(std::string_view name) {
  const EVP_MD* const type = EVP_get_digestbyname(OpenSslName(name).c_str());
  if (type == nullptr) return {};
  const std::shared_ptr<EVP_MD_CTX> state(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (state == nullptr || EVP_DigestInit_ex(state.get(), type, nullptr) != 1) return {};
  return {[state](std::span<const std::byte> bytes) {
            (void)EVP_DigestUpdate(state.get(), bytes.data(), bytes.size());
          },
          [state] {
            Bytes hash(EVP_MAX_MD_SIZE);
            unsigned size = 0;
            (void)EVP_DigestFinal_ex(state.get(), hash.data(), &size);
            hash.resize(size);
            return hash;
          }};
}

template <typename Canonical>
Bytes BytesOfHash(const Canonical& hash) {
  return {std::begin(hash.digest), std::end(hash.digest)};
}

Hasher OldXxHasher(bool wide) {
  const std::shared_ptr<XXH32_state_t> narrow(XXH32_createState(), XXH32_freeState);
  const std::shared_ptr<XXH64_state_t> state(XXH64_createState(), XXH64_freeState);
  (void)XXH32_reset(narrow.get(), 0);
  (void)XXH64_reset(state.get(), 0);
  return {[=](std::span<const std::byte> bytes) {
            if (wide) (void)XXH64_update(state.get(), bytes.data(), bytes.size());
            if (!wide) (void)XXH32_update(narrow.get(), bytes.data(), bytes.size());
          },
          [=] {
            XXH32_canonical_t short_hash;
            XXH64_canonical_t hash;
            XXH32_canonicalFromHash(&short_hash, XXH32_digest(narrow.get()));
            XXH64_canonicalFromHash(&hash, XXH64_digest(state.get()));
            return wide ? BytesOfHash(hash) : BytesOfHash(short_hash);
          }};
}

Hasher NewXxHasher(bool wide) {
  const std::shared_ptr<XXH3_state_t> state(XXH3_createState(), XXH3_freeState);
  (void)(wide ? XXH3_128bits_reset(state.get()) : XXH3_64bits_reset(state.get()));
  return {[=](std::span<const std::byte> bytes) {
            if (wide) (void)XXH3_128bits_update(state.get(), bytes.data(), bytes.size());
            if (!wide) (void)XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
          },
          [=] {
            XXH64_canonical_t hash;
            XXH128_canonical_t wide_hash;
            if (!wide) {
              XXH64_canonicalFromHash(&hash, XXH3_64bits_digest(state.get()));
              return BytesOfHash(hash);
            }
            XXH128_canonicalFromHash(&wide_hash, XXH3_128bits_digest(state.get()));
            return BytesOfHash(wide_hash);
          }};
}

Hasher MakeHasher(std::string_view name) {
  if (name == "xxh32" || name == "xxh64") return OldXxHasher(name == "xxh64");
  if (name == "xxh3_64") return NewXxHasher(false);
  if (name == "xxh128" || name == "xxh3_128") return NewXxHasher(true);
  return OpenSslHasher(name);
}

}  // namespace

Status HashFile(const std::string& file, std::string_view name, std::string* hex) {
  constexpr std::size_t kHashedBytes = std::size_t{1} << 20;
  hex->clear();
  const Hasher hasher = MakeHasher(name);
  if (hasher.add == nullptr) return {};
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(file, &descriptor, &facts);
  if (!status.ok()) return status;
  std::vector<std::byte> piece(kHashedBytes);
  std::size_t got = kHashedBytes;
  for (std::uint64_t at = 0; status.ok() && got == kHashedBytes; at += got) {
    status = ReadWhole(descriptor, at, piece, &got);
    hasher.add(std::span(piece).first(got));
  }
  close(descriptor);
  if (!status.ok()) return status;
  for (const unsigned char byte : hasher.finish()) {
    *hex += "0123456789abcdef"[byte >> 4];
    *hex += "0123456789abcdef"[byte & 15];
  }
  return {};
}

}  // namespace ringfeed
