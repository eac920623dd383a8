#!/usr/bin/env python3
"""Searches for configurations of the command that do not do what the model says.

combinations.py RINGFEED [--covering] [--count N] [--seconds N] [--seed S] [--jobs N] [--keep]
                         [--set DIMENSION=VALUE…]   of random ones only such
combinations.py RINGFEED --only FILE.json…     configurations that were kept
combinations.py RINGFEED --regressions         those beside this program

--covering goes through a set in which every pair of values of the space occurs; --count and --seconds
draw at random, both together until the first is reached. A difference is shrunk and printed; --keep puts
it among the regressions. The last line is "N configurations, N differences", and the exit status 1 where
there is one.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback
import zlib

import border
import leftovers
import runs
import space

HERE = pathlib.Path(__file__).resolve().parent
REGRESSIONS = HERE / "regressions"
MOST_SHRINKS = 60
SHOWN = 12
#: Of a worker's files; they are made anew beyond that.
MOST_BYTES = 400 << 20

_place = None


def begin_worker(binary, folder, disk, injector):
    global _place
    own = str(os.getpid())
    _place = runs.Place(binary, pathlib.Path(folder) / own, pathlib.Path(disk) / own, injector)


def faults_of(configuration):
    try:
        return runs.Run(_place, configuration).run()
    except Exception:  # what the model cannot say is a difference too
        return [f"the search itself fails: {traceback.format_exc()[-1500:]}"]


def kind_of(fault):
    """What is the same of two faults of one kind."""
    head = fault.split("\n")[0].split(":")[0]
    return "".join(c for c in head if not c.isdigit())


def plainer(configuration):
    """Every configuration that is one step plainer."""
    for name in space.NAMES:
        plain = space.DIMENSIONS[name][0]
        if configuration[name] == plain or name == "kind":
            continue
        other = {**configuration, name: plain}
        if space.valid({key: other[key] for key in space.NAMES}):
            yield other
        values = list(dict.fromkeys(space.DIMENSIONS[name]))
        for value in values[1:values.index(configuration[name])][:1]:
            other = {**configuration, name: value}
            if space.valid({key: other[key] for key in space.NAMES}):
                yield other


def shrunk(configuration, faults):
    """The plainest one that still shows a fault of the same kind, which it must do twice."""
    kinds = {kind_of(fault) for fault in faults}
    tries, found = 0, True
    while found and tries < MOST_SHRINKS:
        found = False
        for other in plainer(configuration):
            tries += 1
            seen = faults_of(other)
            if kinds & {kind_of(fault) for fault in seen} and faults_of(other):
                configuration, faults, found = other, seen, True
                break
            if tries >= MOST_SHRINKS:
                break
    return configuration, faults


def tidy():
    used = sum(entry.stat().st_size for entry in os.scandir(_place.folder / "files"))
    if used > MOST_BYTES:
        shutil.rmtree(_place.folder / "files")
        (_place.folder / "files").mkdir()
        _place.library.made.clear()
        _place.observed.clear()


def check(task):
    """One configuration: (its name, what differs, the plainest one that differs)."""
    name, configuration, shrink = task
    begin = time.monotonic()
    tidy()
    faults = faults_of(configuration)
    smallest = configuration
    if faults and shrink:
        smallest, faults = shrunk(configuration, faults)
    return name, faults, smallest, time.monotonic() - begin


def random_one(seed, number, fixed=None):
    rng = random.Random(f"{seed} {number}")
    configuration = space.draw(rng, fixed)
    configuration["pick"] = rng.randrange(4)
    return configuration


def kept(path):
    """The configuration in a file; dimensions that it does not name, since they are newer, are plain."""
    plain = {name: values[0] for name, values in space.DIMENSIONS.items()}
    return {**plain, **json.loads(path.read_text())["configuration"]}


def tasks_of(options):
    """(name, configuration, whether it is shrunk)."""
    for path in options.only or []:
        yield path, kept(pathlib.Path(path)), False
    if options.regressions:
        for path in sorted(REGRESSIONS.glob("*.json")):
            yield path.name, kept(path), False
    if options.covering:
        covering = space.Covering(options.seed)
        print(f"a covering set of {len(covering.rows)} configurations, --seed {options.seed}", flush=True)
        for number, configuration in enumerate(covering.rows):
            yield f"covering {number}", {**configuration, "pick": number % 4}, not options.no_shrink
    if options.count is None and options.seconds is None:
        return
    end = time.monotonic() + (options.seconds if options.seconds is not None else 10 ** 9)
    number = 0
    while number < (options.count if options.count is not None else 10 ** 12) and time.monotonic() < end:
        configuration = random_one(options.seed, number, options.fixed)
        yield f"{options.seed}/{number}", configuration, not options.no_shrink
        number += 1


def changed(configuration):
    """What is not plain of it."""
    return {name: value for name, value in configuration.items()
            if name not in space.DIMENSIONS or value != space.DIMENSIONS[name][0] or name in ("kind", "format")}


def keep(configuration, faults):
    text = json.dumps({"configuration": configuration, "found": faults[0].split("\n")[0][:200]}, indent=1)
    name = f"{zlib.crc32(json.dumps(configuration, sort_keys=True).encode()):08x}.json"
    REGRESSIONS.mkdir(exist_ok=True)
    (REGRESSIONS / name).write_text(text + "\n")


def search(options, folder, disk):
    count, differences, slowest = 0, 0, (0.0, "")
    kinds = {}
    given = (options.binary, folder, disk, border.injector(folder))
    with multiprocessing.Pool(options.jobs, begin_worker, given) as pool:
        for name, faults, smallest, seconds in pool.imap_unordered(check, slowly(tasks_of(options), options)):
            options.done += 1
            count += 1
            slowest = max(slowest, (seconds, name)) if not faults else slowest
            if not faults:
                continue
            differences += 1
            kind = kind_of(faults[0])
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= SHOWN:
                print(f"\n{name}: {json.dumps(changed(smallest))}", flush=True)
                for fault in faults[:3]:
                    print(f"  {fault[:3000]}", flush=True)
            if options.keep:
                keep(smallest, faults)
    for kind, number in sorted(kinds.items(), key=lambda each: -each[1]):
        print(f"{number:6d} times: {kind}")
    print(f"slowest: {slowest[1]}, {slowest[0]:.1f} s")
    return count, differences


def slowly(tasks, options):
    """Not far ahead of those that are done, so that --seconds means something."""
    sent = 0
    for task in tasks:
        while sent - options.done > 4 * options.jobs:
            time.sleep(0.002)
        sent += 1
        yield task


def value_of(word):
    name, _, text = word.partition("=")
    return name, next(value for value in space.DIMENSIONS[name] if str(value) == text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--covering", action="store_true")
    parser.add_argument("--regressions", action="store_true")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2 ** 31))
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--set", nargs="+", default=[], metavar="DIMENSION=VALUE")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    options.binary = str(pathlib.Path(options.binary).resolve())
    options.fixed = dict(value_of(word) for word in options.set)
    options.done = 0
    print(f"--seed {options.seed}", flush=True)
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    begin = time.monotonic()
    with leftovers.folder_in(base) as folder, leftovers.folder_in(runs.COLD_FOLDER) as disk:
        count, differences = search(options, folder, disk)
    print(f"{time.monotonic() - begin:.0f} s, --seed {options.seed}")
    print(f"{count} configurations, {differences} differences")
    return 1 if differences or (count == 0 and not options.regressions) else 0


if __name__ == "__main__":
    sys.exit(main())
