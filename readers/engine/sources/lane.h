#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "readers/engine/blocks/block.h"
#include "readers/engine/files/file_schedule.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/sources/byte_feed.h"
#include "readers/engine/sources/cache_room.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/engine/sources/reopened_stream.h"
#include "readers/engine/sources/stripe_reader.h"
#include "ringfeed/reader.h"
#include "ringfeed/slot.h"

namespace ringfeed {

/// One of the inputs that the planner takes turns with. Fills blocks in the lane's order; owned and
/// called by one reader thread.
class Lane {
 public:
  virtual ~Lane() = default;
  /// Fills `block` with the next records of this lane, or with an end marker. False if the
  /// medium has not delivered yet: call again with the same block. After a block with stream_ends
  /// or a failed status it is not called again.
  virtual bool Fill(Block* block) = 0;
  /// Bytes in memory that the next block will start with, to be fetched ahead; may be empty.
  virtual std::span<const std::byte> Upcoming() const { return {}; }
  /// Whether the last Fill had to wait for other lanes, not for the medium.
  virtual bool was_held_up() const { return false; }
  /// The same, and they have not got further yet.
  virtual bool waits() const { return false; }
  /// Whether blocks come out of memory without waiting, and all their bytes were read: then they
  /// are in the cache, and an early start gains nothing.
  virtual bool frames_hot() const { return false; }
  /// Fill is not called again. It must keep nothing that other chains may wait for.
  virtual void LetGo() {}
};

/// How much a lane may take from a user's code for one block; at least one record always.
struct LaneRoom {
  std::uint64_t records = ~std::uint64_t{0};
  std::uint64_t bytes = ~std::uint64_t{0};
};
/// Called once for a block; empty: any amount.
using AskForRoom = std::function<LaneRoom()>;

/// The passes over what a user's code gives.
class UserPasses {
 public:
  /// 0: without end.
  explicit UserPasses(std::uint64_t passes) : passes_(passes) {}
  /// If a pass of `name` has ended, starts the next one by rewind(). False if none starts: the
  /// block then has the end, or the failure.
  bool Begin(const std::string& name, const std::function<bool()>& rewind, Block* block);

  std::uint64_t records = 0;  ///< of this pass so far
  bool ended = false;         ///< this pass

 private:
  const std::uint64_t passes_;
  std::uint64_t pass_ = 0;
};

/// Instances of a user's reader, as rows.
class InstanceLane final : public Lane {
 public:
  /// Checks them against `slots`, if there are any. `rewind` starts the next pass.
  InstanceLane(InstanceSource* source, std::span<const SlotSpec> slots, std::uint64_t passes,
               LaneContext* context, std::function<bool()> rewind, std::stop_token stop,
               AskForRoom room = {});
  bool Fill(Block* block) override;

 private:
  ReadResult Next(Instance* instance, Status* status);

  InstanceSource* const source_;
  const std::span<const SlotSpec> slots_;
  UserPasses passes_;
  LaneContext* const context_;
  const std::function<bool()> rewind_;
  const std::stop_token stop_;
  const AskForRoom room_;
};

/// Stripes of the files that the schedule assigns to lane `index`.
class FileLane final : public Lane {
 public:
  FileLane(std::size_t index, FileSchedule* schedule, const SourceNode& source,
           LaneContext* context, std::stop_token stop, FileNews news, FileRereads rereads);
  bool Fill(Block* block) override;
  std::span<const std::byte> Upcoming() const override {
    return reader_ ? reader_->Upcoming() : std::span<const std::byte>();
  }
  bool frames_hot() const override { return frames_hot_; }
  bool was_held_up() const override { return waiting_; }
  bool waits() const override { return waiting_ && schedule_->version() == waits_since_; }

 private:
  bool Open(const Assignment& assignment, Block* block);
  /// Valid as long as the assignment is.
  OpenRules RulesFor(const Assignment& assignment) const;
  /// The same for a file of a registered format.
  bool OpenByUser(const Assignment& assignment, Block* block);
  bool FillByUser(Block* block);
  /// Call after the block in which a turn of the file ended.
  void EndTurn(bool file_ends, Block* block);
  void Fail(const Assignment& assignment, const Status& status, Block* block);

  const std::size_t index_;
  FileSchedule* const schedule_;
  const SourceNode& source_;
  LaneContext* const context_;
  const std::stop_token stop_;
  const FileNews news_;
  const FileRereads rereads_;
  std::unique_ptr<StripeReader> reader_;
  std::unique_ptr<FileReader> user_reader_;  ///< or this, and its instances
  std::unique_ptr<InstanceLane> user_lane_;
  Assignment assignment_;          ///< of user_reader_
  bool frames_hot_ = false;        ///< of the file opened last
  std::uint32_t file_index_ = 0;   ///< of the file that is being read, in the list
  bool tells_turns_ = false;       ///< the same: the schedule does not know its stripes
  std::uint64_t turns_left_ = 0;   ///< that the schedule gives it; 0 if the schedule does not know
  bool waiting_ = false;           ///< the schedule does not know this lane's next file yet
  std::uint64_t waits_since_ = 0;  ///< the schedule's version then
};

/// Records of one stream, published as they arrive.
class StreamLane final : public Lane {
 public:
  struct Ends {
    bool outlived = false;      ///< a break is damage, and not the failure of everything
    bool may_be_empty = false;  ///< it need not tell a format if nothing comes
  };
  /// `number`: of the stream among the chain's.
  StreamLane(const StreamInput& input, std::uint32_t number, const Ends& ends, LaneContext* context,
             std::stop_token stop);
  ~StreamLane() override;
  StreamLane(const StreamLane&) = delete;
  StreamLane& operator=(const StreamLane&) = delete;
  bool Fill(Block* block) override;

 private:
  bool Detect(Block* block);
  /// Of what the stream gives from now on, and head_ before it.
  ByteFeed NewFeed(Compression compression);
  bool ReadSome(Block* block);
  bool NoteFailure(const Status& status, Block* block);
  FramerOptions Framing() const;
  /// For a stream that is opened again damage is skipped, whatever is asked for: if the next writer
  /// comes before the end of the last one was seen, a record that was cut looks like that.
  OnDamage on_damage() const {
    return stream_.reopens() ? OnDamage::kSkip : context_->options->on_damage;
  }
  void FrameSome(Block* block);
  /// The block gets what was framed; the rest is kept.
  void TakeFramed(std::size_t bytes, Block* block);
  /// Makes run_ at least so large. False if there is no memory: then the block has a failure.
  bool MakeRoom(std::size_t bytes, Block* block);
  /// At the end: whether the stream was opened once more. The rest of a record is damage.
  bool Reopen(Block* block);
  /// Makes a failure that ends only this stream damage.
  void Outlive(Block* block);
  void FillSome(Block* block);
  /// Whether nothing more comes, and the framer knows it.
  bool has_ended() const;

  ReopenedStream stream_;
  const std::uint32_t number_;
  const std::string format_name_;
  const Ends ends_;
  LaneContext* const context_;
  const std::stop_token stop_;
  std::shared_ptr<const Format> format_;
  std::unique_ptr<Framer> framer_;
  ByteFeed feed_;
  std::vector<std::byte> head_;  ///< of a compressed stream: read to detect the format
  std::span<const std::byte> carry() const { return {run_.data, carried_}; }
  SlabRun run_;                 ///< what is read goes here
  std::size_t carried_ = 0;     ///< bytes of it that no framed record has taken yet
  std::uint64_t position_ = 0;  ///< offset of its first byte in the stream, decompressed
  std::uint64_t records_ = 0;   ///< framed so far, damaged ones too
  std::size_t need_ = 1;
  bool stream_done_ = false;
  bool end_framed_ = false;  ///< the framer was told that nothing more comes
  bool pass_ended_ = false;
};

/// Records that are made in memory, one after another.
class RecordLane final : public Lane {
 public:
  RecordLane(RecordProvider* provider, std::uint64_t passes, LaneContext* context,
             std::stop_token stop, AskForRoom room = {});
  bool Fill(Block* block) override;
  void LetGo() override { provider_->LetGo(); }

 private:
  ReadResult Next(std::span<const std::byte>* record, Status* status);
  static bool Append(std::span<const std::byte> record, BlockMemory* memory, Block* block);

  RecordProvider* const provider_;
  UserPasses passes_;
  LaneContext* const context_;
  const std::stop_token stop_;
  const AskForRoom room_;
};

}  // namespace ringfeed
