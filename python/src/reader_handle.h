#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exceptions.h"
#include "fork_guard.h"
#include "gil.h"
#include "handover.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/reader.h"
#include "weak_list.h"

namespace ringfeed::python {

/// A chain of readers as Python holds it, and the exceptions of its Python functions. Copies are
/// the same reader. Waits are made without the lock, and end when a signal handler throws (Ctrl-C).
class ReaderHandle {
 public:
  using Keepers = std::vector<std::shared_ptr<ThrownKeeper>>;

  explicit ReaderHandle(Reader reader, Keepers keepers = {});
  /// The reader of a decorator built on this one: exceptions of its functions are kept here too.
  ReaderHandle On(Reader reader, const std::shared_ptr<ThrownKeeper>& keeper = {}) const;

  /// Throws in a forked child.
  Reader& reader() const { return reader_.Get(); }
  const Keepers& keepers() const { return keepers_; }

  /// Reader::MakeIndex, which Ctrl-C can break off. Call it before calls that would make the index.
  void MakeIndex(IndexPurpose purpose) const;
  /// The next instance in `form`; raises the chain's failure. Null at the end. It counts as handed
  /// out when this returns it; if the call is interrupted, the next call returns it.
  nanobind::object NextAs(const BatchForm& form) const;
  /// The origin of the last instance handed out; none at the beginning and after Restart.
  std::optional<BatchOrigin> LastOrigin() const;
  /// Reader::Position after the instances handed out.
  std::string Position() const;
  /// Reader::SkipBatches, from that position.
  void SkipBatches(std::uint64_t batches) const;
  /// Reader::NextPass.
  std::optional<std::uint64_t> NextPass() const;
  /// Reader::HasNext.
  bool HasNext() const;
  /// Whether its data have no end and no beginning to go back to (MultiPass(…, 0), a queue), and so
  /// the data of readers built on it.
  bool endless() const { return endless_; }
  void set_endless(bool endless) { endless_ = endless; }
  /// Ends all threads. Does nothing in a forked child.
  void Close() const;
  /// The same for the ends of all chains that this reader is part of, at any place in them.
  void CloseEnds() const;
  /// Raises the chain's failure `status`: the exception of its Python function, else an Error.
  [[noreturn]] void RaiseFailure(const Status& status) const;
  /// Makes the index for counting, and calls `read` without the lock. Raises what a Python function
  /// throws in it.
  template <typename Function>
  auto ReadByNumber(Function&& read) const {
    MakeIndex(IndexPurpose::kCounting);
    const Reader& reader = reader_.Get();
    try {
      const GilReleased unlocked;
      return read(reader);
    } catch (const Error& error) {
      if (error.status().code() == StatusCode::kUserError) RaiseThrown(error.status());
      throw;
    }
  }
  /// Calls `restart` without the lock, and forgets earlier exceptions. Raises what a Python
  /// function throws meanwhile.
  template <typename Function>
  void Restart(Function&& restart) const {
    Reader& reader = reader_.Get();
    for (const auto& keeper : keepers_) keeper->Forget();
    try {
      const GilReleased unlocked;
      restart(reader);
    } catch (const Error& error) {
      if (error.status().code() == StatusCode::kUserError) RaiseThrown(error.status());
      throw;
    }
    ForgetRead();
  }

 private:
  /// What was read of a reader. One for a handle and its copies.
  struct LastRead {
    const void* reader = nullptr;  ///< Reader::id
    KeptBatches<BatchOrigin> kept;
    std::mutex mutex;  ///< guards the following
    std::optional<BatchOrigin> origin;
    bool began = false;
    bool counted = false;  ///< MakeIndex(kCounting) was done
  };

  static WeakList<LastRead>& AllRead();
  /// Whether MakeIndex has nothing to make.
  bool HasIndex(IndexPurpose purpose) const;
  bool Next(Instance* instance, BatchOrigin* origin) const;
  void NoteHandedOut(BatchOrigin origin) const;
  /// All readers that start together with this one begin anew: nothing of them counts as handed out
  /// or is kept.
  void ForgetRead() const;
  /// If a Python function threw the failure `status`, raises its exception.
  void RaiseThrown(const Status& status) const;

  OwnedHere<Reader> reader_;
  Keepers keepers_;
  std::shared_ptr<LastRead> last_;
  bool endless_ = false;
};

}  // namespace ringfeed::python
