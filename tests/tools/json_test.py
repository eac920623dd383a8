#!/usr/bin/env python3
"""docs/JSON.md has each field that a command prints with --json, and no other."""

import json
import os
import pathlib
import re
import subprocess

from cache_test import make_cache
from command_line import BINARY, DATA, CommandTest, await_that, main, run
from interface_test import OPTIONS
from run_test import READ_ALL

PAGE = pathlib.Path(__file__).parents[2] / "docs/JSON.md"
SHAPES = ("range", "warning", "stage", "spread", "speed", "tried", "against")
FREE = re.compile(r"^sections\.[^.]+")  # a section's name is the device's business


def fields_of(section):
    """{field: whether it is always there} of a section of the page, shapes written out."""
    fields = {}
    for row in re.findall(r"^\| (`.+?) \| ", section, re.MULTILINE):
        names, shape = re.findall(r"`([^`]+)`", row), re.search(r"\(\[(\w+)\]", row)
        inner = fields_of(SECTIONS[shape[1]]) if shape else {}
        for name in names:
            of_name = {f"{name}.{field}": always for field, always in inner.items()}
            # A list of plain values may be empty, and then nothing shows.
            fields.update(of_name or {name.removesuffix("[]"): not name.endswith("[]")})
            if "(maybe)" in row:
                fields.update(dict.fromkeys(of_name or [name.removesuffix("[]")], False))
    return fields


def printed(value, at=""):
    """The fields in a report; those of an object in a list have the list's name with [] before theirs."""
    if isinstance(value, dict) and not at.endswith(".details"):
        for name, inner in value.items():
            yield from printed(inner, f"{at}.{name}" if at else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from printed(inner, at + "[]")
    elif not (isinstance(value, list) and not value and at):
        yield FREE.sub("sections.*", at).removesuffix("[]")


PARTS = re.split(r"^##+ (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
SECTIONS = dict(zip(PARTS[1::2], PARTS[2::2]))


class JsonTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.seen = {}  # of each command, the fields that it printed
        self.data = self.folder / "data"
        self.check("make", self.data, "--bytes", "4MiB", "--files", 2)
        self.paths = sorted(self.data.iterdir())
        self.damaged = self.folder / "damaged.tfrecord"
        content = bytearray(self.paths[0].read_bytes())
        content[100] ^= 1
        self.damaged.write_bytes(content)
        self.cut = self.folder / "cut.tar"
        whole = (DATA / "webdataset/basic.tar").read_bytes().rstrip(b"\0")
        self.cut.write_bytes(whole + bytes(-len(whole) % 512))

    def check(self, command, *words, status=0):
        """Notes what a command prints, all of which the page has."""
        result = run(command, *words, "--json", timeout=280)
        self.assertEqual(result.returncode, status, result.stderr)
        self.note(command, json.loads(result.stdout))

    def note(self, command, report):
        self.assertEqual(list(report)[:2], ["version", "command"])
        self.assertEqual((report.pop("version"), report.pop("command")), (1, command))
        found = set(printed(report))
        self.assertEqual(found - set(fields_of(SECTIONS[command])), set(), command)
        self.seen.setdefault(command, set()).update(found)

    def test_the_page_has_what_is_printed_and_nothing_else(self):
        chain = ["--parse", "example: image=u1[] label=i8[1]", "--batch", 8]
        journal, traces = self.folder / "journal", [self.folder / f"{rank}.trace" for rank in range(2)]
        self.check("feed", *self.paths, *chain, "--journal", journal)
        self.check("feed", *self.paths, "--devices", "emu:2", "--batch", 8, "--verify", "--trace", traces[0])
        self.check("feed", self.damaged, self.cut, "--on-damage", "skip", status=1)
        self.check("feed", self.damaged, status=1)
        run("feed", *self.paths, "--devices", "emu:2", "--batch", 8, "--trace", traces[1])
        self.check("trace", *traces, "--out", self.folder / "all.json")
        self.check("audit", journal, "--files", *self.paths)
        self.check("shuffle-quality", self.damaged, "--on-damage", "skip", *chain, "--shuffle", "global", status=1)
        for command in ("digest", "verify"):
            self.check(command, self.data, self.damaged, self.cut, "--on-damage", "fail", status=1)
        self.check("index", *self.paths, "--lengths", "raw")
        self.check("plan", *self.paths, "--parse", "raw", "--pack", 1 << 20, "--batch", 4, "--ranks", 2)
        self.check("which", *self.paths, "--number", "0-2")
        self.check("subset", *self.paths, "--parse", "raw", "--units", "1:", "-o", self.folder / "kept.rfs")
        self.check("index", self.folder / "none", status=1)
        make_cache(self.folder / "cache")
        self.check("cache", self.folder / "cache")
        self.check("info")
        self.check("info", self.data, self.cut, self.folder / "none", status=2)
        self.check("devices", *self.paths, "--devices", "emu:2")
        self.check("devices", self.folder / "none", status=2)
        self.check("convert", *self.paths, self.damaged, self.folder / "out/", "--to", "recordio", status=1)
        self.check("bench", *self.paths, "--seconds", 0.05)
        self.check("bench", "--gpu", "--devices", "emu:1", "--seconds", 0.2)
        self.check("tune", *self.paths, "--batch", 8, "--seconds", 4, "--cache", "warm", "--out", self.folder / "tuned.json")
        program = self.folder / "a.program"
        startup = f'startup {{ op {{ open_files {{ name: "a" file_names: "{self.damaged}" on_damage: "skip" }} }} }}'
        program.write_text(startup + READ_ALL.replace("READER", "a"))
        self.check("run", program, status=1)
        self.look_at_a_job()
        for command in sorted(self.seen):
            with self.subTest(command):
                always = {field for field, always in fields_of(SECTIONS[command]).items() if always}
                self.assertEqual(always - self.seen[command], set())
        self.assertEqual(set(self.seen), set(SECTIONS) - set(SHAPES) - {"Shapes that several have"})
        self.assertEqual(set(self.seen), {command for command, options in OPTIONS.items() if "--json" in options.split()})

    def look_at_a_job(self):
        """What `ringfeed top` says of a running feed, if this build shows metrics."""
        socket = self.folder / "job"
        job = subprocess.Popen([BINARY, "feed", *self.paths, "--passes", "0", "--batch", "8", "--devices", "emu:1"],
                               stdout=subprocess.DEVNULL, env={**os.environ, "RINGFEED_METRICS": f"unix:{socket}"})
        try:
            await_that(socket.exists, "its socket", job)
            self.note("top", await_that(lambda: self.shown(job.pid), "its chain and its feed", job))
        finally:
            job.kill()
            job.wait()

    @staticmethod
    def shown(pid):
        """The report on a job, if a device has had a batch."""
        report = json.loads(run("top", pid, "--json", "--interval", 0.2).stdout)
        (job,) = report["jobs"]
        return report if job["chains"] and job["feeds"] and job["feeds"][0]["devices"] else None


if __name__ == "__main__":
    main()
