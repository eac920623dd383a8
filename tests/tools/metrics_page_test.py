#!/usr/bin/env python3
"""The page of a running job, as a browser draws it. Skips where there is none (Debian: chromium)."""

import re

from browser import Page, browse
from command_line import CommandTest, await_that, main
from shown_job import Job, ask, make_files


class MetricsPageTest(CommandTest):
    def setUp(self):
        super().setUp()
        job = Job("127.0.0.1:0", self.folder, make_files(self.folder), "--devices", "emu:2", "--step-ms", 2)
        self.addCleanup(job.__exit__)
        self.address = job.note()
        await_that(lambda: "ringfeed_device" in ask(self.address)[0], "a device")

    def test_it_is_one_file_that_takes_nothing_from_outside(self):
        text, kind = ask(self.address, "/")
        self.assertEqual(kind, "text/html; charset=utf-8")
        self.assertEqual(Page(text).outside, ["data:,", "metrics"])
        self.assertNotRegex(text, r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(")

    def test_a_browser_draws_it_live_and_it_is_readable_without_colours(self):
        # The browser's time passes as fast as it can, and the job counts anew only every 200 ms of ours: a fast
        # machine is given more of it.
        looks, seconds = 0, 8
        while looks <= 2 and seconds < 5000:
            shown = browse(self, f"http://{self.address}/?every=500", seconds)
            page = Page(shown)
            looked = re.search(r"looked at (\d+) times", page.text)
            self.assertIsNotNone(looked, page.text[:500])
            looks, seconds = int(looked[1]), 4 * seconds
        self.assertGreater(looks, 2)
        for device in "01":
            self.assertIn(f"batches ahead of device {device}", page.titles)
            self.assertIn(f"stall of device {device}", page.titles)
        chain = next(title for title in page.titles if title.startswith("waits of each stage"))
        self.assertIn("0:", chain)
        # Each line has its name and its figure beside it, and dashes of its own.
        for stage in ("read", "frame", "plan", "write", "idle", "deliver"):
            self.assertRegex(page.text, rf"{stage} (\d+\.\d\d|–)")
        self.assertRegex(page.text, r"\d+ ahead, \d+ with the loop, \d+ slots")
        self.assertRegex(page.text, r"last \d+\.\d\d ms")
        dashes = set(re.findall(r'stroke-dasharray="([^"]*)"', shown))
        self.assertGreaterEqual(len(dashes), 5)


main()
