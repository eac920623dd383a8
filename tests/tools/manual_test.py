#!/usr/bin/env python3
"""Help fits a screen or two; manual pages and completions have every option."""

import os
import pathlib
import re
import shutil
import subprocess

from command_line import BINARY, CommandTest, main, run
from interface_test import OPTIONS

MANUAL = pathlib.Path(BINARY).parent / "manual"


class ManualTest(CommandTest):
    def test_help_has_at_most_60_lines_of_100_characters(self):
        for words in ([], *([command] for command in OPTIONS)):
            with self.subTest(words):
                lines = run(*words, "--help").stdout.splitlines()
                self.assertLessEqual(len(lines), 60)
                self.assertLessEqual(max(map(len, lines)), 120)

    def test_what_help_leaves_out_is_counted_and_shown_by_help_all(self):
        for command in OPTIONS:
            with self.subTest(command):
                short, long = (run(command, option).stdout for option in ("--help", "--help-all"))
                left_out = re.search(r"^--help-all shows (\d+) more options\.$", short, re.MULTILINE)
                options = [set(re.findall(r"^  (?:-[a-zA-Z], *)?(--[a-z-]+)", text, re.MULTILINE)) for text in (short, long)]
                self.assertEqual(int(left_out[1]) if left_out else 0, len(options[1] - options[0]))

    def test_each_command_has_a_manual_page_with_its_options(self):
        for command, options in OPTIONS.items():
            page = (MANUAL / f"ringfeed-{command}.1").read_text()
            for option in options.split():
                self.assertIn(option.replace("-", "\\-"), page)
        if shutil.which("man"):
            for page in MANUAL.glob("*.1"):
                shown = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, check=True, cwd=MANUAL,
                                       env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8", "MANPATH": str(MANUAL.parent)})
                if not page.name.startswith("recordio_"):  # these lead to another page, where it is installed
                    self.assertEqual(shown.stderr, "")
                    self.assertIn("SYNOPSIS", shown.stdout)

    def completed(self, *words):
        """What bash offers for the last of these words."""
        line = " ".join(f"'{word}'" for word in words)
        script = (f"source {MANUAL}/ringfeed.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _ringfeed; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.completed("ringfeed", "shuf"), ["shuffle-quality"])
        self.assertEqual(set(self.completed("ringfeed", "")) - set(OPTIONS), {"--help", "--help-all", "--version"})
        for command, options in OPTIONS.items():
            self.assertEqual(set(self.completed("ringfeed", command, "-")) - {"-h", "-o", "--help", "--help-all"}, set(options.split()))
        self.assertEqual(self.completed("ringfeed", "feed", "--on-damage", ""), ["fail", "skip"])
        self.assertEqual(self.completed("ringfeed", "feed", "--on-damage", "=", "s"), ["skip"])
        self.assertEqual(self.completed("ringfeed", "feed", "--on-damage", "="), ["fail", "skip"])
        self.assertEqual(self.completed("ringfeed", "feed", "--shuffle", "g"), ["global"])
        self.assertEqual(self.completed("ringfeed", "feed", "a"), [])  # then bash offers files

    def test_other_shells_have_every_option_and_take_the_scripts(self):
        for name, shell, words in (("_ringfeed", "zsh", "'{}["), ("ringfeed.fish", "fish", " -l {} ")):
            text = (MANUAL / name).read_text()
            for command, options in OPTIONS.items():
                self.assertIn(command, text)
                for option in options.split():
                    self.assertIn(words.format(option if shell == "zsh" else option[2:]), text)
            if shutil.which(shell):
                subprocess.run([shell, "-n", MANUAL / name], check=True)


if __name__ == "__main__":
    main()
