#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringfeed/reader.h"
#include "tools/feed/feed_plan.h"

namespace ringfeed::tools {

/// Reads a pass of a chain and keeps which rows came when.
class DeliveredOrder {
 public:
  /// `plan` has batches, and its deliveries say where they come from (OpenOptions::note_records).
  /// `label`: a fixed field whose value is a row's class; "": none. Throws Error.
  DeliveredOrder(const FeedPlan& plan, const std::string& label);

  /// Once. Throws Error where reading fails.
  void Read();
  /// Ends Read soon, from any thread.
  void Stop() { reader_.Close(); }

  /// Numbers of rows, those of one file behind those of the one before.
  std::vector<std::uint64_t> Rows() const;
  /// The class of each: of the field, else one of `classes` equal parts of the numbers; 0: its
  /// file.
  std::vector<std::uint32_t> Labels(std::uint64_t classes) const;

 private:
  void Add(const Instance& batch, const BatchOrigin& origin);
  std::vector<std::uint64_t> FirstRows() const;

  Reader reader_;
  std::size_t label_field_ = 0;
  bool labelled_ = false;
  std::vector<RecordRange> ranges_;
  std::vector<std::uint32_t> labels_;               // with a field
  std::map<std::string, std::uint32_t> label_ids_;  // by the bytes of their value
};

}  // namespace ringfeed::tools
