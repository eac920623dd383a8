#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/tar/tar_members.h"
#include "readers/formats/tar/tar_unit.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Headers that were lost between two members, and whose they were. A sample that lost a member
/// must not be delivered. Its neighbour, which lost none, must be. So this reads what is still
/// readable in the damaged headers.
class TarLoss {
 public:
  /// The samples around the loss. A key is empty if there is no sample or it is not known.
  struct Around {
    std::string_view before;                        ///< key
    const TarExtensions* before_members = nullptr;  ///< never null
    std::string_view after;
    std::string_view after_member;         ///< extension of its first one that is left
    const TarExtensions* usual = nullptr;  ///< members of a whole sample before; never null
  };
  /// Which of the samples around the loss are incomplete by it.
  struct Verdict {
    bool before = false;
    bool after = false;
  };

  /// Starts over.
  void Begin(std::uint64_t begin, std::uint64_t at, StatusCode code, std::string reason);
  /// A header whose checksum does not match; fewer bytes if the file ends inside it.
  void AddHeader(std::span<const std::byte> block);
  /// A lost member whose name is known.
  void AddName(std::string_view name);

  /// Whose the lost headers were. If that cannot be told, both samples are taken for incomplete.
  Verdict Whose(const Around& around) const;
  /// Whether none of the lost headers was of a sample around them, so that a sample was lost by
  /// itself. False if the lost bytes may have been no header at all.
  bool stands_alone(const Verdict& verdict) const;

  /// The lost header announced the name of the next member, so that is lost too.
  bool takes_next() const { return takes_next_; }
  void TakeNext(std::string_view name);

  std::uint64_t begin() const { return begin_; }
  std::uint64_t at() const { return at_; }
  StatusCode code() const { return code_; }
  const std::string& reason() const { return reason_; }

 private:
  struct Lost {
    std::string name;
    bool name_holds = false;       ///< a checksum vouches for it
    bool cut = false;              ///< the file ends inside the header
    std::vector<std::byte> block;  ///< a whole header, or nothing
  };
  struct Options {
    bool before = false;
    bool after = false;
    bool alone = false;
    int count() const { return int{before} + int{after} + int{alone}; }
  };
  static Verdict OwnersOf(const Lost& lost, const Around& around);
  static Options OwnersByName(const Lost& lost, const Around& around);
  static Options OwnerByMembers(const Around& around);

  std::uint64_t begin_ = 0;  ///< the loss starts here
  std::uint64_t at_ = 0;     ///< the header that is wrong
  StatusCode code_ = StatusCode::kDamaged;
  std::string reason_;
  std::vector<Lost> lost_;
  bool too_many_ = false;
  bool takes_next_ = false;
};

}  // namespace ringfeed
