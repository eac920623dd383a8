#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"
#include "tests/combinations/chain_data.h"
#include "tests/combinations/chain_space.h"

namespace ringfeed {

/// Which records the rows of an instance are, by what they hold: every byte of it is looked at.
/// What is wrong is said in *wrong, which stays as it is otherwise.
Places RowsOf(const Configuration& configuration, const ChainData& data,
              std::span<const Tensor> instance, std::string* wrong);
/// The record that a payload is; kHole where it is none, and *wrong says why.
std::int64_t RecordOf(const Configuration& configuration, const ChainData& data,
                      std::span<const std::byte> payload, std::string* wrong);
/// A number for all that an instance shows.
std::uint64_t DigestOf(std::span<const Tensor> instance);

}  // namespace ringfeed
