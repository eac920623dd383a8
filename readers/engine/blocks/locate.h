#pragma once

#include "readers/engine/blocks/block.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Runs a two-phase parser's first phase over a framed block. A row that cannot be parsed fails
/// (Block::FailAt), or, where damage is skipped, becomes a damaged row; a user's exception always
/// fails. `explain`: the block notes which rows were refused, and why.
void LocateRows(const Parser& parser, Parser::Scratch* scratch, OnDamage on_damage, bool explain,
                Block* block);

/// Makes rows of mapped files that were found shorter than their mappings damaged, or ends the
/// block with the first of them: what was looked for in them (fields, a filter's answer) was looked
/// for in zeros. To be called behind everything that looked.
void LoseShrunkRows(OnDamage on_damage, Block* block);
/// Why such a row fails.
Status ShrunkWhileRead();

/// The range of a record that was found damaged by its parser: its payload's bytes where its place
/// is known, else an empty one. The reason names its number.
DamagedRange DamagedRecord(const Status& why, const RecordSpan& record);

/// The failures of rows that a block's or a batch's rows met: true where the policy lets it be
/// skipped.
bool IsSkippable(const Status& status, OnDamage on_damage);

}  // namespace ringfeed
