#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ringfeed/compat/program.h"
#include "ringfeed/compat/scope.h"
#include "tools/record_digest.h"

namespace ringfeed::tools {

/// The functions that programs of `ringfeed run` may call, and what they found.
class ProgramFunctions {
 public:
  /// Print writes to `lines`.
  explicit ProgramFunctions(std::FILE* lines) : lines_(lines) {}

  /// Gives them all to `program`; this must outlive its runs.
  void RegisterIn(FeedProgram* program);

  std::uint64_t instances() const { return instances_; }  ///< calls of count
  std::uint64_t rows() const { return rows_; }            ///< of their first tensors
  RecordDigest& digest() { return digest_; }

 private:
  using Names = std::vector<std::string>;

  void Count(const Scope& scope, const Names& inputs);
  void Digest(const Scope& scope, const Names& inputs);
  void Print(const Scope& scope, const Names& inputs) const;

  std::FILE* const lines_;
  std::uint64_t instances_ = 0;
  std::uint64_t rows_ = 0;
  RecordDigest digest_;
};

}  // namespace ringfeed::tools
