#pragma once

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/readers/parsers/odd_records.h"
#include "tests/readers/parsers/parse_rows.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {

/// Where Protobuf takes a record, a parser must agree on every field, or on its failure. A Dialect
/// has types Message and Spec, and functions
///   OddDialect Odd();                                                   what to make
///   std::shared_ptr<const Parser> MakeParser(const std::vector<Spec>&);
///   std::optional<std::string> Expected(const Message&, const Spec&);   nothing: it has to fail
template <typename Dialect>
class ProtobufComparison {
 public:
  using Specs = std::vector<typename Dialect::Spec>;

  explicit ProtobufComparison(Specs specs)
      : specs_(std::move(specs)), runner_(Dialect::MakeParser(specs_)) {}

  /// Over many records; an oddness of nearly nothing leaves many that are accepted.
  void ExpectAgreement(double oddness) {
    CompareMany(oddness, false);
    // Protobuf refuses some overlong forms that the wire format allows.
    EXPECT_GT(accepted_ + failed_by_spec_, rejected_);
    if (oddness < 0.1) {
      EXPECT_GT(accepted_, StressRounds(100));
    }
  }
  /// Over many records that are damaged.
  void ExpectAgreementOnDamaged(double oddness) {
    CompareMany(oddness, true);
    EXPECT_GT(rejected_, StressRounds(500));
    EXPECT_GT(accepted_ + failed_by_spec_, StressRounds(500));
  }
  /// Over every cut of a record.
  void ExpectAgreementOnCuts() {
    OddRecords random(Dialect::Odd(), 5);
    for (const double oddness : {0.0, 0.5}) {
      const std::string whole = random.Make(oddness);
      std::vector<std::string> records;
      for (std::size_t size = 0; size <= whole.size(); ++size) {
        records.push_back(whole.substr(0, size));
      }
      Compare(records);
    }
  }

 private:
  void Compare(const std::vector<std::string>& records) {
    const google::protobuf::LogSilencer silence;  // about keys that are not UTF-8
    const ParsedRows parsed = runner_.Run(records);
    for (std::size_t row = 0; row < records.size(); ++row) {
      typename Dialect::Message message;
      if (!message.ParseFromString(records[row])) {
        ++rejected_;
        continue;
      }
      bool fails = false;
      for (const auto& spec : specs_) fails |= !Dialect::Expected(message, spec).has_value();
      ASSERT_EQ(parsed.failures.count(row) != 0, fails)
          << (fails ? "accepted" : parsed.failures.at(row).ToString());
      ++(fails ? failed_by_spec_ : accepted_);
      for (std::size_t f = 0; f < specs_.size() && !fails; ++f) {
        ASSERT_EQ(parsed.values[f][row], *Dialect::Expected(message, specs_[f])) << f;
      }
    }
  }

  void CompareMany(double oddness, bool damaged) {
    OddRecords random(Dialect::Odd(),
                      static_cast<std::uint64_t>(oddness * 100) + (damaged ? 7 : 0));
    constexpr int kRounds = StressRounds(400);
    for (int round = 0; round < kRounds && !testing::Test::HasFatalFailure(); ++round) {
      std::vector<std::string> records;
      for (int i = 0; i <= round % 40; ++i) {
        records.push_back(random.Make(oddness));
        if (damaged) records.back() = random.Damage(records.back());
      }
      Compare(records);
    }
  }

  const Specs specs_;
  RowsRunner runner_;
  int accepted_ = 0;
  int failed_by_spec_ = 0;
  int rejected_ = 0;  // by Protobuf
};

}  // namespace ringfeed
