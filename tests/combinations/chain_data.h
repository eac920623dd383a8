#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/combinations/chain_space.h"
#include "tests/combinations/order_model.h"

namespace ringfeed {

/// Records of file f have the numbers f * kFileNumbers, f * kFileNumbers + 1, …
inline constexpr std::int64_t kFileNumbers = 1'000'000;

/// The files that a configuration reads, and what stands in them.
struct ChainData {
  std::vector<std::string> names;
  /// The same by the web server; the address of a manifest of them, if the configuration has one.
  std::vector<std::string> addresses;
  std::string manifest;
  std::string indexes;  ///< folders that chains of addresses keep
  std::string cache;
  std::vector<std::vector<std::byte>> images;    ///< the files' bytes
  std::vector<std::vector<std::byte>> intact;    ///< the same before damage
  std::vector<std::vector<std::byte>> payloads;  ///< of a file's records, one behind the other
  std::vector<std::vector<std::size_t>> payload_ends;
  /// Intact records by their numbers; kHole where a damaged record keeps its place, kFailure where
  /// bytes are lost without one.
  std::vector<ModelFile> files;
  std::size_t row_bytes = 0;        ///< of format "rows"
  std::int64_t middle_record = -1;  ///< the one that user's functions throw at; -1 without records
  std::uint64_t records = 0;

  /// What record `number` holds; empty where there is none of that number.
  std::span<const std::byte> Payload(std::int64_t number) const;
};

/// The format to read it as; "": its names tell it.
std::string FormatOf(const ChainData& data);
/// The number that a payload begins with, -1 where there is none.
std::int64_t NumberOfPayload(std::span<const std::byte> payload);
/// Elements of record `number` of "examples", each of which is number + kFirstValue.
std::size_t ExampleValues(std::int64_t number, std::string_view records);
inline constexpr std::int64_t kFirstValue = 300;

/// Makes files when they are first asked for, in a folder of its own, and keeps them.
class DataLibrary {
 public:
  /// `address` is the folder's at a web server; "": there is none, and all is read from the disk.
  DataLibrary(const std::string& folder, const std::string& address);
  /// Valid until the next call.
  const ChainData& Get(const Configuration& configuration);

 private:
  void MakeManifest(const Configuration& configuration, ChainData* data) const;

  const std::string folder_;  ///< of the files, below the one that the server has
  const std::string address_;
  const std::string indexes_;
  const std::string cache_;
  std::map<std::string, ChainData> made_;
  std::size_t bytes_ = 0;
};

/// Copies the files of `data` into `folder`, for those who change them.
ChainData CopyOf(const ChainData& data, const std::string& folder);

}  // namespace ringfeed
