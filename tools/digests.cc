#include "tools/digests.h"

#include <openssl/evp.h>

#include <cstdio>
#include <cstring>

#include "base/little_endian.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {
namespace {

void Require(int outcome) {
  if (outcome != 1) throw Error(Status(StatusCode::kInternal, "OpenSSL's SHA-256 failed"));
}

// Fetched once: a lookup by name for each record would cost more than the hash of a small one.
const EVP_MD* Sha256Method() {
  static const EVP_MD* const kMethod = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return kMethod;
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Require(EVP_DigestInit_ex2(context_.get(), Sha256Method(), nullptr));
}

void Sha256::Append(std::span<const std::byte> bytes) {
  Require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

Sha256Value Sha256::Finish() {
  Sha256Value value;
  Require(
      EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(value.data()), nullptr));
  Require(EVP_DigestInit_ex2(context_.get(), Sha256Method(), nullptr));
  return value;
}

Sha256Value Sha256::Of(std::span<const std::byte> bytes) {
  Append(bytes);
  return Finish();
}

std::string HexText(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

void MultisetSum::Add(const Sha256Value& hash) {
  MultisetSum number;
  std::memcpy(number.words_.data(), hash.data(), hash.size());
  Add(number);
}

void MultisetSum::Add(const MultisetSum& other) {
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t with_carry = words_[i] + carry;
    carry = with_carry < carry ? 1 : 0;
    words_[i] = with_carry + other.words_[i];
    carry += words_[i] < with_carry ? 1 : 0;
  }
}

std::string MultisetSum::Hex() const {
  std::string text;
  for (std::size_t i = words_.size(); i-- > 0;) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(words_[i]));
    text += digits;
  }
  return text;
}

void RecordDigest::Add(std::span<const std::byte> payload) {
  std::array<std::byte, 8> length;
  StoreLe<std::uint64_t>(length.data(), payload.size());
  sequence_.Append(length);
  sequence_.Append(payload);
  multiset_.Add(single_.Of(payload));
  ++records_;
  payload_bytes_ += payload.size();
}

}  // namespace ringfeed::tools
