#pragma once

#include <cstdint>

namespace ringfeed {

/// The waits, records and checks that a feed's safety rests on. Programs that are built with what
/// make_switched_feed.py writes can leave one out, to see that its absence is noticed.
enum class FeedStep : std::uint8_t {
  kNone,
  kRegisterSource,         ///< a batch's memory is registered before it is copied
  kWaitForReleases,        ///< a copy waits for the consumers of the slot's old batch
  kWaitForTransforms,      ///< … and for the transforms that read it
  kRecordCopied,           ///< after the copy
  kTransformsWaitForCopy,  ///< they run on a stream of their own
  kRecordReady,            ///< after the transforms
  kOnWaitsForReady,        ///< the consumer's stream waits
  kHostWaitsForReady,      ///< WaitHost does
  kRecordRelease,          ///< after the consumer's work
  kSeeCopyBeforeSlab,      ///< the batch goes back once the host has seen the copy done
  kSeeGatherBeforeSlab,    ///< … and with rows in the device's memory their gather
  kSeeCopyBeforeStaging,   ///< staging memory is written again only then
  kCheckFit,               ///< refuses a batch that is larger than its slot
  kSeeUsersBeforeGrowing,  ///< a slot's memory is replaced once its users' work was seen done
  kCheckGeneration,        ///< refuses a lease that is not the slot's any more
  kCheckOwnLeases,         ///< refuses a thread that waits for itself
  kCheckPatience,          ///< refuses a wait that only the program itself can end
  kDrainBeforeFree,        ///< memory is freed and unregistered once no copy uses it
  kSeeReleasesBeforeFree,  ///< … and once its consumers' work was seen done
};

/// The step that is left out now. For tests whose feeds have no threads.
inline FeedStep left_out_step = FeedStep::kNone;
inline bool LeavesOut(FeedStep step) { return left_out_step == step; }

/// Leaves a step out for a test's scope.
class LeaveOut {
 public:
  explicit LeaveOut(FeedStep step) { left_out_step = step; }
  ~LeaveOut() { left_out_step = FeedStep::kNone; }
  LeaveOut(const LeaveOut&) = delete;
  LeaveOut& operator=(const LeaveOut&) = delete;
};

}  // namespace ringfeed
