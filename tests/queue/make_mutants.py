#!/usr/bin/env python3
"""Writes the rings with one thing taken away, each in a namespace of its own, from the shipped headers.

make_mutants.py ROOT OUTPUT: the header OUTPUT has a namespace ringfeed::mutants::NAME for each mutant
below, with its rings. A text that is not there once, and once only, is an error: so what a mutant takes
away is in what ships.
"""

import pathlib
import re
import sys

EVENTS = "queue/event_count.h"
PACED = "detail/paced_wait.h"
OPTIONS = "queue/ring_options.h"
RING = "queue/mpmc_ring.h"
SEQUENCED = "queue/sequenced_ring.h"
HEADERS = [EVENTS, PACED, OPTIONS, RING, SEQUENCED]

#: name: (header, what is there, what stands in its place), …
MUTANTS = {
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

INCLUDE = re.compile(r'^#include "ringfeed/([^"]+)"\n', re.MULTILINE)
RINGS = """struct Rings {
  template <typename T, typename Policy>
  using Mpmc = MpmcRing<T, Policy>;
  template <typename T, typename Policy>
  using Sequenced = SequencedRing<T, Policy>;
};
"""


def mutated(name, changes, texts):
    """The headers' text in the mutant's namespace."""
    texts = dict(texts)
    for header, old, new in changes:
        if texts[header].count(old) != 1:
            sys.exit(f"{name}: {header} has {texts[header].count(old)} times: {old}")
        texts[header] = texts[header].replace(old, new)
    space = f"namespace ringfeed::mutants::{name} {{\n"
    return "".join(text.replace("namespace ringfeed {\n", space) for text in texts.values()) + (
        f"{space}{RINGS}}}\n")


def main():
    root, output = map(pathlib.Path, sys.argv[1:])
    texts = {}
    for header in HEADERS:
        text = (root / "include/ringfeed" / header).read_text(encoding="utf-8")
        text = text.replace("#pragma once\n", "")
        texts[header] = INCLUDE.sub(lambda match: "" if match[1] in HEADERS else match[0], text)
    made = "".join(mutated(name, changes, texts) for name, changes in MUTANTS.items())
    # What a mutant leaves unused is no reason for a warning.
    output.write_text(f"#pragma once\n#pragma GCC system_header\n\n{made}", encoding="utf-8")


if __name__ == "__main__":
    main()
