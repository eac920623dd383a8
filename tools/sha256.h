#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace ringfeed::tools {

using Sha256Value = std::array<std::byte, 32>;

/// SHA-256 of what is appended. One thread at a time.
class Sha256 {
 public:
  Sha256();
  void Append(std::span<const std::byte> bytes);
  /// The hash of everything since construction or the last Finish, and a new beginning.
  Sha256Value Finish();
  /// The hash of `bytes` alone; nothing else may be pending.
  Sha256Value Of(std::span<const std::byte> bytes);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// Two lower-case digits a byte, first byte first.
std::string HexText(std::span<const std::byte> bytes);

}  // namespace ringfeed::tools
