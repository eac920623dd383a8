#!/usr/bin/env python3
"""Checks the built site: each link inside it leads to a page and an anchor that are there, nothing is
loaded from elsewhere, and every page can be reached from the first one.

check_site.py FOLDER: prints what is wrong; exit status 1 if anything is.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

FIRST = "index.html"
#: What a page loads by itself, by the attribute that names it.
LOADED = {"script": "src", "img": "src", "link": "href", "object": "data", "iframe": "src",
          "source": "src", "embed": "src"}
LOADED_BY_STYLE = re.compile(r"""(?:@import\s+|url\()\s*["']?([^"')]+)""")

SEARCH = "search"  #: what a script loads to search: its pages need no link
SEARCH_RESULT = re.compile(r"'(\.\./[^']+)'")


class Page(html.parser.HTMLParser):
    """What a page has: anchors, links to follow, what it loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag in ("a", "area") and values.get("href"):
            self.links.append(values["href"])
        elif values.get(LOADED.get(tag)):
            self.loaded.append(values[LOADED[tag]])
        self.loaded += LOADED_BY_STYLE.findall(values.get("style") or "")
        self._in_style = tag == "style"

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        if self._in_style:
            self.loaded += LOADED_BY_STYLE.findall(data)

    def handle_endtag(self, tag):
        self._in_style = False


def is_outside(target):
    return bool(re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.I))


class Site:
    def __init__(self, folder):
        self._folder = folder
        self._pages = {path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8"))
                       for path in sorted(folder.rglob("*.html"))}

    def faults(self):
        if FIRST not in self._pages:
            return [f"{FIRST} is missing"]
        found = []
        for name, page in self._pages.items():
            found += [f"{name}: {wrong}" for link in page.links for wrong in self._wrong_link(name, link)]
            found += [f"{name}: {wrong}" for each in page.loaded for wrong in self._wrong_load(name, each)]
        for style in sorted(self._folder.rglob("*.css")):
            name = style.relative_to(self._folder).as_posix()
            loaded = LOADED_BY_STYLE.findall(style.read_text(encoding="utf-8"))
            found += [f"{name}: {wrong}" for each in loaded for wrong in self._wrong_load(name, each)]
        for script in sorted(self._folder.glob(f"{SEARCH}/*.js")):
            name = script.relative_to(self._folder).as_posix()
            results = SEARCH_RESULT.findall(script.read_text(encoding="utf-8"))
            found += [f"{name}: {wrong}" for link in results for wrong in self._wrong_link(name, link)]
        unreached = self._pages.keys() - self._reached()
        found += [f"{name}: no link leads there" for name in unreached if not name.startswith(f"{SEARCH}/")]
        return sorted(set(found))

    def _target(self, name, link):
        """The file that a link of the page `name` leads to, by its path in the site, and the anchor."""
        path, _, anchor = link.partition("#")
        path = urllib.parse.unquote(path.partition("?")[0])
        if not path:
            return name, urllib.parse.unquote(anchor)
        parts = []
        for part in [*pathlib.PurePosixPath(name).parent.parts, *path.split("/")]:
            if part == ".." and parts and parts[-1] != "..":
                parts.pop()
            elif part not in (".", ""):
                parts.append(part)
        return "/".join(parts), urllib.parse.unquote(anchor)

    def _wrong_link(self, name, link):
        if is_outside(link):
            if not link.startswith(("https://", "mailto:", "javascript:")):
                yield f"links to {link}"
            return
        target, anchor = self._target(name, link)
        if target.startswith("..") or not (self._folder / target).is_file():
            yield f"links to {link}, which is not there"
        elif anchor and target in self._pages and anchor not in self._pages[target].anchors:
            yield f"links to {link}, an anchor that is not there"

    def _wrong_load(self, name, loaded):
        if loaded.startswith(("data:", "javascript:")):
            return
        target, _ = self._target(name, loaded)
        if is_outside(loaded) or target.startswith(".."):
            yield f"loads {loaded} from outside"
        elif not (self._folder / target).is_file():
            yield f"loads {loaded}, which is not there"

    def _reached(self):
        """The pages to which links lead from the first one, step by step."""
        reached, new = {FIRST}, [FIRST]
        while new:
            name = new.pop()
            for link in self._pages[name].links:
                target = None if is_outside(link) else self._target(name, link)[0]
                if target in self._pages and target not in reached:
                    reached.add(target)
                    new.append(target)
        return reached


def check_site(folder):
    """What is wrong with the site in the folder."""
    return Site(folder).faults()


def main():
    found = check_site(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "every link of the site leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
