#include "readers/order/make_mix_cursor.h"

#include <utility>

#include "readers/order/make_row_cursor.h"

namespace ringfeed {

MixChain MakeMixCursor(std::span<const MixInput> sets, std::uint32_t first_epoch,
                       std::span<const OrderStage> stages, std::uint64_t kept) {
  std::vector<MixCursor::Set> members;
  RowNumber first_row = 0;
  bool even = true;
  for (const MixInput& set : sets) {
    MixCursor::Set member;
    member.rows = MakeRowCursor(*set.layout, set.options, set.stages);
    member.even = HasEvenPasses(set.options);
    member.weight = set.weight;
    member.passes = set.passes;
    member.most_records = set.most_records;
    member.first_row = first_row;
    first_row += set.layout->rows();
    even = even && member.even;
    members.push_back(std::move(member));
  }
  auto mix = std::make_unique<MixCursor>(std::move(members), kept);
  MixCursor* const bottom = mix.get();
  return {AddOrderStages(std::move(mix), first_epoch, even, stages), bottom};
}

}  // namespace ringfeed
