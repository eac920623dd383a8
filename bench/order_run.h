#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ringfeed::bench {

/// What one repetition gave for a row.
struct OrderFigure {
  double ours = 0;
  double baseline = 0;  ///< 0: there is none
  bool verified = true;
  std::string skipped{};  ///< why this machine cannot measure it: its files stay in memory
};

/// One kind of work of the rows on order and position, set up. One thread. Calls throw Error where
/// a chain fails.
class OrderRun {
 public:
  virtual ~OrderRun() = default;
  /// Beside what is timed: whether the same chains deliver the right rows in the right order.
  /// Empty, or what is wrong; "skipped: …" where this machine cannot do it.
  virtual std::string Verify() = 0;
  /// One repetition, both sides in turn: a figure for each row of the work.
  virtual std::vector<OrderFigure> Measure(bool ours_first) = 0;
};

/// A kind of work that is set up when it is asked for, and its rows of the table.
struct OrderWork {
  struct Row {
    std::string name;
    std::string unit;
  };
  std::vector<Row> rows;
  std::function<std::unique_ptr<OrderRun>()> start;
};

/// Cold files: shuffles of them, by the clock or by reads per CPU second, beside the same files in
/// their order or beside fio; passes over them beside the bare loop.
std::vector<OrderWork> ColdWorks();
/// The blocks shuffle of warm files beside the same files in their order.
std::vector<OrderWork> WarmShuffleWorks();
/// Rows of one size at random places of warm files, beside bare loops over the same places.
std::vector<OrderWork> GatherWorks();
/// Indexes beside a plain read of their files.
std::vector<OrderWork> IndexWorks();
/// Positions, and going on from them.
std::vector<OrderWork> PositionWorks();

}  // namespace ringfeed::bench
