#pragma once

namespace ringfeed {

/// Makes one system call of this process fail: the one of number `at`, from 1, of those on files
/// that a cache makes (open, stat, read, write, truncate, lock, rename, unlink). Until it is
/// destroyed.
class FailingCall {
 public:
  FailingCall(long at, int error);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;

  /// How many such calls there were.
  long calls() const;
};

/// Makes all writes of file contents fail.
class FullDisk {
 public:
  FullDisk();
  ~FullDisk();
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
};

}  // namespace ringfeed
