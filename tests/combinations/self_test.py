#!/usr/bin/env python3
"""The search itself: that it covers what it says, and that it would notice.

self_test.py
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import combinations
import files
import leftovers
import model
import reference
import runs
import space
import watchdog

COMMAND = "#!/bin/sh\n"


class SpaceTest(unittest.TestCase):
    covering = None  # takes seconds to make

    def setUp(self):
        SpaceTest.covering = SpaceTest.covering or space.Covering(3)

    def test_every_pair_of_values_occurs_in_the_covering_set(self):
        covering = self.covering
        seen = {}
        for row in covering.rows:
            self.assertTrue(space.valid(row), row)
            for key, pair in space.pairs_of(row):
                seen.setdefault(key, set()).add(pair)
        impossible = {(key, pair) for key, pair in covering.impossible}
        for key, wanted in space.pairs().items():
            for pair in wanted - seen[key]:
                self.assertIn((key, pair), impossible)
        self.assertLess(len(impossible), 1500)

    def test_every_value_occurs(self):
        rows = self.covering.rows
        for name, values in space.DIMENSIONS.items():
            self.assertEqual({row[name] for row in rows}, set(values), name)

    def test_random_ones_are_valid_and_the_same_for_a_seed(self):
        for number in range(50):
            one = combinations.random_one(5, number)
            self.assertTrue(space.valid({name: one[name] for name in space.NAMES}))
            self.assertEqual(one, combinations.random_one(5, number))


class FilesTest(unittest.TestCase):
    def test_every_kind_is_the_same_each_time(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            for name in files.FORMAT_WORDS:
                for compression in files.COMPRESSIONS:
                    for state in files.STATES:
                        if not files.there_is(name, compression, state) or state == "missing":
                            continue
                        full = f"{name}.{compression}.{state}.small.1"
                        made = [files.Library(folder).file(full) for folder in (one, other)]
                        contents = [pathlib.Path(file.path).read_bytes() for file in made]
                        self.assertEqual(contents[0], contents[1], full)
                        self.assertEqual(made[0].records, made[1].records, full)
                        damaged = state in ("flip", "head", "garbage") and made[0].exact
                        if damaged:
                            self.assertTrue(made[0].damaged, full)


class ModelTest(unittest.TestCase):
    def expected(self, **values):
        configuration = {name: choices[0] for name, choices in space.DIMENSIONS.items()}
        configuration.update(values)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        library = files.Library(self.folder.name)
        return model.Expected(configuration, [library.file(n) for n in runs.names_of(configuration)])

    def test_draws_are_those_of_the_generator(self):
        reference.check_known_answer()

    def test_ranks_share_what_one_delivers(self):
        expected = self.expected(format="lines", order="global", batch=6, count=3, scale="medium")
        whole = dict(expected.run()[0])
        shared = [dict(expected.run(rank, 3)[0]) for rank in range(3)]
        for number, rows in whole.items():
            self.assertEqual([row for part in shared for row in part.get(number, [])], rows)

    def test_what_goes_on_completes_what_was_stopped(self):
        expected = self.expected(format="tfrecord", state="flip", damage="skip", order="window", amount=7)
        first, how, behind = expected.run(most=1)
        self.assertEqual(how, model.STOPPED)
        self.assertEqual(first + expected.run(start=behind)[0], expected.run()[0])

    def test_what_precedes_damage_is_delivered_without_the_rest(self):
        fails = self.expected(format="tfrecord", state="flip", scale="medium", drop="drop")
        rows, how, _ = fails.run()
        self.assertEqual(how, model.DAMAGED)
        self.assertEqual(sum(len(batch) for _, batch in rows), fails.files[0].fault)

    def test_an_order_by_number_of_what_has_none_is_refused(self):
        self.assertEqual(self.expected(compression="gzip", order="global").run()[1], model.REFUSED)


class NoticeTest(unittest.TestCase):
    """The search with commands that do it wrong."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(setattr, watchdog, "SLEEPING_S", watchdog.SLEEPING_S)
        self.addCleanup(setattr, watchdog, "SPINNING_S", watchdog.SPINNING_S)
        self.addCleanup(setattr, watchdog, "scale", watchdog.scale)
        watchdog.SLEEPING_S = watchdog.SPINNING_S = 0.7
        watchdog.scale = lambda: 1.0

    def faults(self, script):
        command = self.folder / "command"
        command.write_text(COMMAND + script)
        command.chmod(0o755)
        configuration = combinations.random_one(1, 1)
        configuration.update({name: values[0] for name, values in space.DIMENSIONS.items()})
        place = runs.Place.__new__(runs.Place)
        place.binary, place.folder, place.observed, place.disk = str(command), self.folder, {}, None
        (self.folder / "files").mkdir()
        place.library, place.environment = files.Library(self.folder / "files"), dict(os.environ)
        return runs.Run(place, configuration).run()

    def test_one_that_sleeps(self):
        (fault,) = self.faults("exec sleep 1000\n")
        self.assertIn("stuck: sleeps", fault)
        self.assertIn("thread", fault)

    def test_one_that_spins(self):
        (fault,) = self.faults("while true; do true; done\n")
        self.assertIn("stuck: spins", fault)

    def test_one_that_delivers_nothing(self):
        self.assertTrue(self.faults("exit 0\n"))

    def test_one_that_crashes(self):
        self.assertIn("crashed", self.faults("kill -SEGV $$\n")[0])

    def test_a_report_that_is_false(self):
        report = json.dumps({"records": 0, "batches": 0, "order_digest": ""})
        self.assertTrue(self.faults(f"echo '{report}'\n"))


class SlowMachineTest(unittest.TestCase):
    def test_a_slower_processor_is_given_more_time(self):
        usual = watchdog.slowness(watchdog.USUAL_WORK_S)
        self.assertEqual(usual, 1)
        self.assertEqual(watchdog.slowness(watchdog.USUAL_WORK_S / 5), 1, "never less than usual")
        self.assertEqual(watchdog.slowness(watchdog.USUAL_WORK_S * 3), 3)
        self.assertEqual(watchdog.slowness(watchdog.USUAL_WORK_S * 1000), watchdog.MOST_SLOWNESS)

    def test_processors_that_many_share_are_given_more_time(self):
        self.assertEqual(watchdog.crowding(load=0.1, cpus=4), 1)
        self.assertEqual(watchdog.crowding(load=12, cpus=4), 3)
        self.assertEqual(watchdog.crowding(load=9000, cpus=2), watchdog.MOST_CROWDING)


class LeftoversTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_what_a_killed_search_left_goes_when_the_next_one_starts(self):
        dead = subprocess.Popen(["true"])
        dead.wait()
        alive = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(alive.wait)
        self.addCleanup(alive.kill)
        for pid in (dead.pid, alive.pid):
            for name in (f"ringfeed-combinations-{pid}-x7", f"ringfeed_combinations.{pid}"):
                (self.folder / name / "files").mkdir(parents=True)
        for name in ("ringfeed-combinations-other", f"other-{dead.pid}", "ringfeed"):
            (self.folder / name).mkdir()
        with leftovers.folder_in(self.folder) as made:
            names = {path.name for path in self.folder.iterdir()} - {pathlib.Path(made).name}
            self.assertEqual(names, {
                f"ringfeed-combinations-{alive.pid}-x7", f"ringfeed_combinations.{alive.pid}",
                "ringfeed-combinations-other", f"other-{dead.pid}", "ringfeed"})
            self.assertIn(f"-{os.getpid()}-", made)
        self.assertFalse(os.path.exists(made))

    def test_one_that_is_killed_is_cleaned_up_behind(self):
        program = ("import sys, time, leftovers\n"
                   "with leftovers.folder_in(sys.argv[1]) as made:\n"
                   "    print(made, flush=True)\n"
                   "    time.sleep(1000)\n")
        killed = subprocess.Popen([sys.executable, "-c", program, self.folder], stdout=subprocess.PIPE,
                                  text=True, cwd=pathlib.Path(__file__).parent)
        made = killed.stdout.readline().strip()
        killed.kill()
        killed.communicate()
        self.assertTrue(os.path.isdir(made))
        with leftovers.folder_in(self.folder):
            self.assertFalse(os.path.exists(made))


class ShrinkTest(unittest.TestCase):
    def test_only_what_shows_it_stays(self):
        hurt = lambda each: ["wrong"] if each["order"] == "window" and each["drop"] == "drop" else []
        configuration = next(one for one in (combinations.random_one(2, i) for i in range(5000)) if hurt(one))
        self.addCleanup(setattr, combinations, "faults_of", combinations.faults_of)
        combinations.faults_of = hurt
        small, faults = combinations.shrunk(configuration, ["wrong"])
        self.assertEqual(faults, ["wrong"])
        other = {name for name in combinations.changed(small) if name in space.DIMENSIONS}
        self.assertLessEqual(other - {"kind", "format", "order", "drop", "amount"}, {"compression", "state"})


if __name__ == "__main__":
    random.seed(0)
    unittest.main(argv=sys.argv[:1])
