"""Pages of HTML, as they stand and as a browser shows them."""

import html.parser
import shutil
import subprocess

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(html.parser.HTMLParser):
    """What a page takes from outside, and the texts and titles of its drawings."""

    def __init__(self, text):
        super().__init__()
        self.outside, self.titles, self.text, self.inside, self.tags = [], [], "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside.append(tag)
        self.tags.append(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action")]

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "script" in self.inside or "style" in self.inside:
            return
        self.text += data
        if self.inside[-1:] == ["title"]:
            self.titles.append(data)


def run_browser(test, *words):
    """What the browser prints; skips where there is none (Debian: chromium)."""
    if BROWSER is None:
        test.skipTest("no chromium is installed")
    result = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={test.folder}/browser", *words],
        capture_output=True, text=True, timeout=240, check=False)
    test.assertEqual(result.returncode, 0, result.stderr[-2000:])
    return result.stdout


def browse(test, address, seconds):
    """The page as it stands behind so many seconds of the browser's own time."""
    return run_browser(test, f"--virtual-time-budget={1000 * seconds}", "--dump-dom", address)


def print_page(test, address):
    """The page on paper, as PDF."""
    printed = test.folder / "page.pdf"
    run_browser(test, "--no-pdf-header-footer", f"--print-to-pdf={printed}", address)
    return printed.read_bytes()
