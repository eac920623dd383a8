#!/usr/bin/env python3
"""make_switched_feed.py ROOT OUTPUT: writes the feed's sources with switches that leave one step out
(feed_steps.h). In the changes of a step, OUT stands for whether it is left out.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "support"))
sys.dont_write_bytecode = True
import switched_sources  # noqa: E402

FEED = "gpu/feed/"
CORE = FEED + "feed_core.cc"
LANE = FEED + "device_lane.cc"
COPIES = FEED + "slot_copies.cc"
LEASES = FEED + "slot_leases.cc"
MEMORY = FEED + "slot_memory.cc"
#: What a test calls has to be compiled with the switches: what is not here comes from the library.
SOURCES = [FEED + "device_feed.cc", CORE, LANE, COPIES, LEASES, MEMORY]

#: step: (source, what is there, what stands in its place), …
STEPS = {
    "kRegisterSource": [
        (CORE, "  for (const Tensor& tensor : item.batch) pins_->", "  if (OUT) return;\n"
         "  for (const Tensor& tensor : item.batch) pins_->"),
        (COPIES, "part = pins_->Pin(from, bytes);",
         "part = OUT ? HostPins::Part{bytes, true} : pins_->Pin(from, bytes);"),
        (COPIES, "if (!pins_->PinAll(", "if (!OUT && !pins_->PinAll(")],
    "kWaitForReleases": [
        (COPIES, "backend_->StreamWait(copy_stream_, slot->released[s])",
         "OUT ? Status() : backend_->StreamWait(copy_stream_, slot->released[s])")],
    "kWaitForTransforms": [
        (COPIES, "if (slot->used && slot->ready != slot->copied)",
         "if (!OUT && slot->used && slot->ready != slot->copied)")],
    "kRecordCopied": [
        (COPIES, "if (status.ok()) status = backend_->Record(slot->copied, copy_stream_);",
         "if (status.ok() && !OUT) status = backend_->Record(slot->copied, copy_stream_);")],
    "kTransformsWaitForCopy": [
        (COPIES, "Status status = backend_->StreamWait(transform_stream_, slot->copied);",
         "Status status =\n"
         "      OUT ? Status() : backend_->StreamWait(transform_stream_, slot->copied);")],
    "kRecordReady": [
        (COPIES, "return backend_->Record(slot->ready, transform_stream_);",
         "return OUT ? Status() : backend_->Record(slot->ready, transform_stream_);")],
    "kOnWaitsForReady": [
        (LEASES, "backend_->StreamWait(stream, slot->ready)",
         "OUT ? Status() : backend_->StreamWait(stream, slot->ready)")],
    "kHostWaitsForReady": [
        (LEASES, "    const Status status = backend_->Query(slot.ready, &done);",
         "    if (OUT) return {};\n    const Status status = backend_->Query(slot.ready, &done);")],
    "kRecordRelease": [
        (LEASES, "    if (slot->releases[s] != ReleaseMark::kToRecord) continue;",
         "    if (OUT || slot->releases[s] != ReleaseMark::kToRecord) continue;")],
    "kSeeCopyBeforeSlab": [
        (COPIES, "  slot->used = true;",
         "  slot->used = true;\n  if (OUT) slot->item.batch.clear();")],
    "kSeeCopyBeforeStaging": [
        (LANE, "return !slot->copying;", "return OUT || !slot->copying;")],
    "kCheckFit": [
        (MEMORY, "if (slot->memory != nullptr && needed <= slot->capacity)",
         "if (slot->memory != nullptr && (OUT || needed <= slot->capacity))")],
    "kSeeUsersBeforeGrowing": [
        (COPIES, "if (!memory_.Grows(slot) && slot.kept.empty()) return {};",
         "if (OUT || (!memory_.Grows(slot) && slot.kept.empty())) return {};")],
    "kCheckGeneration": [
        (CORE, "  return slot.generation.load(std::memory_order_relaxed) != lease.generation_ ||",
         "  if (OUT) return false;\n"
         "  return slot.generation.load(std::memory_order_relaxed) != lease.generation_ ||")],
    "kCheckOwnLeases": [
        (CORE, "if (slots > 0 && leases.HeldBy", "if (!OUT && slots > 0 && leases.HeldBy")],
    "kCheckPatience": [
        (CORE, "if (waited_ns < patience_ns)", "if (OUT || waited_ns < patience_ns)")],
    "kDrainBeforeFree": [
        (COPIES, "  RecordHalfFilled();\n  Status status = AwaitAll(until_ns);",
         "  if (OUT) return {};\n  RecordHalfFilled();\n  Status status = AwaitAll(until_ns);")],
    "kSeeReleasesBeforeFree": [
        (LEASES, "if (MissesReleases(*slot))", "if (!OUT && MissesReleases(*slot))"),
        (LEASES, "status = AwaitEvent(", "status = OUT ? Status() : AwaitEvent(")],
    "kSeeGatherBeforeSlab": [
        (COPIES, "rows.direct_bytes() > 0 ||", "(!OUT && rows.direct_bytes() > 0) ||")],
}


def changes():
    for step, changed in STEPS.items():
        for source, old, new in changed:
            yield source, old, re.sub(r"\bOUT\b", f"LeavesOut(FeedStep::{step})", new)


switched_sources.write(SOURCES, changes(), "tests/gpu/feed/feed_steps.h")
