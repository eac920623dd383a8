#pragma once

#include <cstdint>

namespace ringfeed {

/// The waits, records and checks that a feed's safety rests on. A test can have one left out, to
/// see that its absence is noticed (tests/gpu/feed/left_out_test.cc has a test for each).
enum class FeedStep : std::uint8_t {
  kNone,
  kRegisterSource,         ///< a batch's memory is registered before it is copied
  kWaitForReleases,        ///< a copy waits for the consumers of what was in the slot
  kWaitForTransforms,      ///< … and for the transforms that read what was there
  kRecordCopied,           ///< behind the copy
  kTransformsWaitForCopy,  ///< they run on a stream of their own
  kRecordReady,            ///< behind the transforms
  kOnWaitsForReady,        ///< the consumer's stream waits
  kHostWaitsForReady,      ///< WaitHost does
  kRecordRelease,          ///< behind the consumer's work
  kSeeCopyBeforeSlab,      ///< the batch goes back once the host has seen the copy done
  kSeeCopyBeforeStaging,   ///< staging memory is written again only then
  kCheckFit,               ///< a batch that is larger than its slot
  kCheckGeneration,        ///< a lease that is not the slot's any more
  kCheckOwnLeases,         ///< a thread that waits for itself
  kCheckPatience,          ///< a wait that only the program itself can end
  kDrainBeforeFree,        ///< memory is freed and unregistered once nothing uses it
};

}  // namespace ringfeed
