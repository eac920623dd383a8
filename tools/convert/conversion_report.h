#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/convert/conversion.h"
#include "tools/report.h"

namespace ringfeed::tools {

/// Says what became of each output, as it is known, and of all in the end.
class ConversionReport {
 public:
  explicit ConversionReport(bool json) : json_(json) {}

  void Note(const Conversion& conversion);
  /// What no single output had its part in.
  void Note(const std::vector<DamagedRange>& damage, const Status& status);
  void PrintTotal(double seconds) const;
  int exit_status() const { return exit_status_; }

 private:
  const bool json_;
  int exit_status_ = 0;
  bool cancelled_ = false;
  std::size_t written_ = 0;
  std::size_t up_to_date_ = 0;
  std::size_t failed_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::vector<DamagedRange> damage_;
  Json outputs_ = Json::array();
};

}  // namespace ringfeed::tools
