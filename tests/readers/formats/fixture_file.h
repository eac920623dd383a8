#pragma once

#include <string>
#include <vector>

namespace ringfeed {

/// The file of that name in tests/data.
std::string ReadFixture(const std::string& name);
std::string FixturePath(const std::string& name);

/// SHA-256 of the bytes, in hex.
std::string Sha256(const std::string& bytes);

/// Sha256 over each record's length as u64, little-endian, and its bytes, in hex: the digest that
/// the files' manifests have.
std::string DigestOf(const std::vector<std::string>& records);

}  // namespace ringfeed
