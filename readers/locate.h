#pragma once

#include "readers/block.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Runs a two-phase parser's first phase over a framed block. A row that cannot be parsed ends the
/// block with its failure, or, where damage is skipped, becomes a damaged row; a user's exception
/// always fails.
void LocateRows(const Parser& parser, Parser::Scratch* scratch, OnDamage on_damage, Block* block);

/// The range of a record that was found damaged by its parser: its payload's bytes where its place
/// is known, else an empty one. The reason names its number.
DamagedRange DamagedRecord(const Status& why, const RecordSpan& record);

/// The failures of rows that a block's or a batch's rows met: true where the policy lets it be
/// skipped.
bool IsSkippable(const Status& status, OnDamage on_damage);

}  // namespace ringfeed
