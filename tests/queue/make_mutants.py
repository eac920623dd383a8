#!/usr/bin/env python3
"""Writes shipped headers with one thing taken away, each in a namespace of its own.

make_mutants.py ROOT OUTPUT [SET]: the header OUTPUT has a namespace ringfeed::mutants::NAME for each
mutant below: of the rings, or of TURN, or of LANE. A text that is not there once, and once only, is an error: so
what a mutant takes away is in what ships.
"""

import pathlib
import re
import sys

PUBLIC = "include/ringfeed/"
EVENTS = PUBLIC + "queue/event_count.h"
PACED = PUBLIC + "detail/paced_wait.h"
OPTIONS = PUBLIC + "queue/ring_options.h"
RING = PUBLIC + "queue/mpmc_ring.h"
SEQUENCED = PUBLIC + "queue/sequenced_ring.h"
TURN = "readers/engine/waiting/reading_turn.h"
LANE = "gpu/feed/lane_sleep.h"

#: name: (header, what is there, what stands in its place), …
RING_MUTANTS = {
    "no_notify_consumers": [
        (RING, "not_empty_.NotifyAfterSeqCst(count);", ""),
        (SEQUENCED, "not_empty_.NotifyAfterSeqCst(1);", "")],
    "no_notify_producers": [
        (RING, "not_full_.NotifyAfterSeqCst(count);", ""),
        (SEQUENCED, "Room(pos).NotifyAllAfterSeqCst();", ""),
        (SEQUENCED, "room.Notify(kEveryone);", ";"),
        (SEQUENCED, "Room(pos + i).Notify(kEveryone);", ";")],
    "no_pass_on": [
        (SEQUENCED, "not_empty_.Notify(1);", "")],
    "no_last_out": [
        (SEQUENCED, "if (next >= end_.load(std::memory_order_relaxed)) not_empty_.NotifyAll();", "")],
    "close_leaves_consumers": [
        (RING, "    not_empty_.NotifyAll();\n", ""),
        (SEQUENCED, "    not_empty_.NotifyAll();\n    if (not_empty_watcher_", "    if (not_empty_watcher_")],
    "close_leaves_producers": [
        (RING, "    not_full_.NotifyAll();\n", ""),
        (SEQUENCED, "room.NotifyAll();", ";")],
    "no_pass_on_when_giving_up": [
        (EVENTS, "    Notify(1);\n    return result;", "    return result;")],
    "stop_wakes_nobody": [
        (EVENTS, "{ events->NotifyAll(); }", "{}")],
    "cancel_ignores_the_epoch": [
        (EVENTS, "EpochOf(word) == key.epoch", "EpochOf(word) >= key.epoch")],
}
TURN_MUTANTS = {
    # Wakes.
    "end_of_look_wakes_nobody": [
        (TURN, "    looking_ = false;\n    takers_.NotifyAll();", "    looking_ = false;")],
    "end_of_take_wakes_nobody": [
        (TURN, "if (looking_) lookers_.NotifyAll();", "")],
    "only_the_last_end_of_a_take_wakes": [
        (TURN, "if (looking_) lookers_", "if (looking_ && taking_ == 0) lookers_")],
    "failure_leaves_takers": [
        (TURN, "    failed_ = true;\n    takers_.NotifyAll();", "    failed_ = true;")],
    "failure_leaves_lookers": [
        (TURN, "    lookers_.NotifyAll();\n  }\n  bool failed", "  }\n  bool failed")],
    "stop_wakes_nobody": [
        (TURN, "{ events->NotifyAll(); }", "{}")],
    # Whom they wait for.
    "registers_late": [
        (TURN, "      lock.unlock();\n", ""),
        (TURN, "      const auto key = events->PrepareWait();",
         "      lock.unlock();\n      const auto key = events->PrepareWait();"),
        (TURN, "events->CancelWait(key);", "events->CancelWait(key), lock.lock();")],
    "stop_is_looked_for_early": [
        (TURN, "    while (true) {\n", "    while (true) {\n      const bool stopped = stop.stop_requested();\n"),
        (TURN, "if (stop.stop_requested())", "if (stopped)")],
    "takes_beside_a_look": [
        (TURN, "return !looking_ || failed_;", "return true;")],
    "looks_beside_a_take": [
        (TURN, "taking_ == 0 || IsKnown()", "true || IsKnown()")],
    "takes_what_comes_first": [
        (TURN, "if (found_.empty()) return std::nullopt;", "if (!is_shown_) return std::nullopt;")],
    "shows_what_was_taken": [
        (TURN, "    if (found_.empty()) is_shown_ = false;\n", "")],
    "a_failure_is_not_known": [
        (TURN, "return failed_ || is_shown_;", "return is_shown_;")],
}

LANE_MUTANTS = {
    # Wakes.
    "the_last_one_wakes_nobody": [
        (LANE, "if ((before & ~what) == 0) events_.Notify(1);", "(void)before;")],
    "what_was_there_wakes_nobody": [
        (LANE, "(before & ~what) == 0", "before == what")],
    "a_wake_wakes_nobody": [
        (LANE, "{ events_.NotifyAll(); }", "{}")],
    # What the thread does before it sleeps.
    "what_is_there_is_missing": [
        (LANE, "missing_.fetch_and(~there(), std::memory_order_acq_rel)", "there()")],
    "looks_early": [
        (LANE, "    const auto key =", "    const auto found = there();\n    const auto key ="),
        (LANE, "~there()", "~found")],
    "registers_late": [
        (LANE, "    const auto key = events_.PrepareWait();\n", ""),
        (LANE, "if (has_work()) {", "const bool has = has_work();\n"
               "    const auto key = events_.PrepareWait();\n    if (has) {")],
    "sleeps_on_work": [
        (LANE, "if (has_work())", "if (false)")],
    # Orders.
    "brought_is_relaxed": [
        (LANE, "missing_.fetch_and(~what, std::memory_order_acq_rel)",
         "missing_.fetch_and(~what, std::memory_order_relaxed)")],
    "exchange_is_relaxed": [
        (LANE, "(kBatch | kSlot, std::memory_order_acq_rel)",
         "(kBatch | kSlot, std::memory_order_relaxed)")],
    "second_step_is_relaxed": [
        (LANE, "(~there(), std::memory_order_acq_rel)", "(~there(), std::memory_order_relaxed)")],
}

INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
RINGS = """struct Rings {
  template <typename T, typename Policy>
  using Mpmc = MpmcRing<T, Policy>;
  template <typename T, typename Policy>
  using Sequenced = SequencedRing<T, Policy>;
};
"""


#: argument: (headers, each behind those that it includes; mutants; what stands in each besides)
SETS = {
    "RINGS": ([EVENTS, PACED, OPTIONS, RING, SEQUENCED], RING_MUTANTS, RINGS),
    "TURN": ([TURN], TURN_MUTANTS, ""),
    "LANE": ([LANE], LANE_MUTANTS, ""),
}


def mutated(name, changes, texts, besides):
    """The headers' text in the mutant's namespace."""
    texts = dict(texts)
    for header, old, new in changes:
        if texts[header].count(old) != 1:
            sys.exit(f"{name}: {header} has {texts[header].count(old)} times: {old}")
        texts[header] = texts[header].replace(old, new)
    space = f"namespace ringfeed::mutants::{name} {{\n"
    return "".join(text.replace("namespace ringfeed {\n", space) for text in texts.values()) + (
        f"{space}{besides}}}\n")


def main():
    root, output = map(pathlib.Path, sys.argv[1:3])
    headers, mutants, besides = SETS[sys.argv[3] if len(sys.argv) > 3 else "RINGS"]
    included = {header.replace(PUBLIC, "ringfeed/") for header in headers}
    texts = {}
    for header in headers:
        text = (root / header).read_text(encoding="utf-8").replace("#pragma once\n", "")
        texts[header] = INCLUDE.sub(lambda match: "" if match[1] in included else match[0], text)
    made = "".join(mutated(name, changes, texts, besides) for name, changes in mutants.items())
    # What a mutant leaves unused is no reason for a warning.
    output.write_text(f"#pragma once\n#pragma GCC system_header\n\n{made}", encoding="utf-8")


if __name__ == "__main__":
    main()
