#!/usr/bin/env python3
"""Makes the site of the guides and the public headers: build/docs/site/index.html.

make_site.py: first the reference alone, to know the names, then all of it. A warning of Doxygen's,
a guide that no group names and a link to what is not there end it with status 1.
"""

import fnmatch
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path("docs/site")
BUILD = pathlib.Path("build/docs")
PAGES = BUILD / "pages"

HEADERS = "docs/HEADERS.md"
#: The navigation: groups of guides with their short titles.
GROUPS = {
    "Start": {
        "README.md": "What it is",
        "examples/README.md": "Examples",
        HEADERS: "Which header",
        "docs/GLOSSARY.md": "Terms",
        "CHANGELOG.md": "Changelog",
    },
    "Use": {
        "docs/PYTHON.md": "Python",
        "docs/COMMAND.md": "The command",
        "docs/REMOTE.md": "Data in stores",
        "docs/PACKING.md": "Language models",
        "docs/TUNING.md": "Tuning",
        "docs/METRICS.md": "Seeing a job",
        "docs/ENVIRONMENT.md": "Environment variables",
        "docs/JSON.md": "Reports for machines",
        "docs/GPUDIRECT.md": "GPUDirect",
        "docs/SHARING_A_GPU.md": "Sharing a GPU",
        "docs/CONTAINERS.md": "Containers, Kubernetes",
        "docs/PROGRAMS.md": "Programs as text",
        "docs/GUARANTEES.md": "Guarantees",
        "docs/PERFORMANCE.md": "Performance",
        "examples/training/README.md": "Training on real data",
    },
    "Move": {
        "docs/moving/README.md": "To ringfeed",
        "docs/moving/torch.md": "From Torch",
        "docs/moving/tf_data.md": "From tf.data",
        "docs/moving/dali.md": "From DALI",
        "docs/moving/grain.md": "From Grain",
        "docs/moving/mosaicml.md": "From MosaicML",
        "docs/moving/webdataset.md": "From WebDataset",
        "docs/moving/paddle.md": "From Paddle",
        "docs/moving/oneflow.md": "From OneFlow",
        "docs/PORTING.md": "Port a reader",
        "docs/ANCESTORS.md": "What ancestors promised",
    },
    "Formats": {
        "docs/FORMATS.md": "Formats",
        "docs/ORDER.md": "Order",
    },
    "Internals": {
        "docs/ARCHITECTURE.md": "Architecture",
        "docs/internals/LIFE_OF_A_BLOCK.md": "The life of a block",
        "docs/internals/ENGINE.md": "The engine",
        "docs/internals/SCHEDULE.md": "Carrying the order out",
        "docs/internals/WAITING.md": "Who waits for whom",
        "docs/internals/DEVICES.md": "To a device",
        "docs/internals/PYTHON.md": "Inside Python",
        "docs/QUEUES.md": "Rings",
        "docs/MEMORY_ORDER.md": "Memory order",
        "docs/internals/DECISIONS.md": "Decisions",
        "docs/internals/RECIPES.md": "Recipes",
        "docs/internals/FIGURES.md": "What was tried",
        "CONTRIBUTING.md": "Contributing",
    },
}
REFERENCE = {
    "annotated.html": "Classes",
    "namespaceringfeed.html": "Functions and types",
    "files.html": "Headers",
    "examples.html": "Programs",
}
GUIDES = {path: title for group in GROUPS.values() for path, title in group.items()}
#: Of the project's documents those that are for its own folder alone.
NOT_SHOWN = {"bench/peers/README.md", "python/README.md", "tests/combinations/README.md"}
#: Names in these are of Python or of other loaders.
OTHER_NAMES = re.compile(r"docs/(internals/)?PYTHON\.md|docs/moving/.*|CHANGELOG\.md")

#: What make_site.py looks at in a guide; all else stays as it is.
TOKEN = re.compile(
    r"""(?P<fence>^(?P<indent>[ ]*)```[ ]*(?P<language>\S*)[^\n]*\n(?P<program>.*?)^[ ]*```$)
    |(?P<heading>^(?P<level>\#{1,6})[ ](?P<title>[^\n]*)$)
    |(?P<ticks>`+)(?P<code>(?:(?!\n\n).)+?)(?P=ticks)
    |(?P<open>!?\[)(?P<shown>(?:[^\]`]|`[^`]*`)*)\]\((?P<target>[^)\s]+)\)
    |(?P<special>[@\\]|::)
    |(?P<word>\b[A-Z]\w+\b)""", re.MULTILINE | re.DOTALL | re.VERBOSE)
FEWEST_FOR_CONTENTS = 5  #: headings of a page that begins with a list of them
NAMESPACE = "/** @namespace ringfeed\n@brief The library: all that is public, but DLPack's types. */\n"
KEPT = "KeptFromDoxygen"  #: how a word begins that stands for what Doxygen does not see
#: Languages that Doxygen colours; it shows any other as it is.
COLOURED = {"cpp": "{.cpp}", "c++": "{.cpp}", "python": "{.py}"}
PROGRAM_SUFFIXES = {".cc", ".h", ".cu", ".py"}
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
MOST_USERS = 6  #: programs that are listed at a name
REFERENCE_PAGE = re.compile(r"class|struct|namespace|.*_8h\.html")
HEADER_ROW = re.compile(r"^\| (`[\w/]+\.h`(?:, `[\w/]+\.h`)*) \| (.*) \|$", re.MULTILINE)


def page_name(path):
    """The page of a guide, without its suffix: docs/moving/README.md is guide-moving."""
    if path == "README.md":
        return "index"
    words = pathlib.PurePosixPath(path).with_suffix("").parts
    words = [word for word in words if word not in ("docs", "README")]
    return "guide-" + "-".join(words).lower()


def anchor(heading):
    """The anchor of a heading, as those who show Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def label(path, heading):
    """The same in a site where no two pages have an anchor of one name."""
    return re.sub(r"[^a-z0-9_-]", "", f"{page_name(path)}-{anchor(heading)}")


def is_example(path):
    return path.startswith("examples/") and pathlib.PurePosixPath(path).suffix in PROGRAM_SUFFIXES


def shown_name(path):
    """The page that shows a file or what a folder has; an example's name follows Doxygen's rule."""
    if is_example(path):
        return path.replace("/", "_2").replace(".", "_8") + "-example.html"
    return "shown-" + re.sub(r"[^a-z0-9]+", "-", path.lower()) + ".html"


class Names:
    """The public names of the reference and where they stand, from Doxygen's XML of it."""

    def __init__(self, folder):
        self.classes = set()  #: their last names
        self.declared = {}  #: by their last names: how Doxygen is told which are meant
        self._places = {}  #: without the namespace
        self._headers = {
            path.removeprefix("include/ringfeed/"): f"{pathlib.Path(path).stem.replace('_', '__')}_8h.html"
            for path in kept_files("include/ringfeed/*.h") if "/detail/" not in path}
        for entry in xml.parse(folder / "index.xml").getroot():
            if entry.get("kind") in ("class", "struct", "namespace"):
                self._add_compound(xml.parse(folder / f"{entry.get('refid')}.xml").getroot()[0])

    def _add_compound(self, compound):
        name = compound.findtext("compoundname")
        if compound.get("kind") != "namespace":
            self.classes.add(name.rpartition("::")[2])
            self._declare(name, f"@{compound.get('kind')} {name}")
            self._add(name, f"{compound.get('id')}.html")
        for member in compound.iter("memberdef"):
            if member.get("prot") == "public":
                page, _, place = member.get("id").rpartition("_1")
                self._add(f"{name}::{member.findtext('name')}", f"{page}.html#{place}")
                if compound.get("kind") == "namespace":
                    self._declare_member(name, member)

    def _declare_member(self, namespace, member):
        if member.get("kind") == "enum":
            self._declare(member.findtext("name"), f"@enum {namespace}::{member.findtext('name')}")
        # A template would need its parameters told, and a function without a word has no entry.
        is_told = "".join(member.find("briefdescription").itertext()).strip()
        if member.get("kind") == "function" and is_told and member.find("templateparamlist") is None:
            declaration = member.findtext("definition") + member.findtext("argsstring")
            self._declare(member.findtext("name"), f"@fn {declaration}")

    def _declare(self, name, words):
        self.declared.setdefault(name.rpartition("::")[2], []).append(words)

    def _add(self, name, place):
        self._places.setdefault(name.removeprefix("ringfeed::"), place)

    def place(self, code):
        """Where on the site the name in `code` is explained; None if it is no public name."""
        if code.endswith(".h"):
            return self._headers.get(code)
        name = code.removeprefix("ringfeed::").removesuffix("()")
        # A single small word is more often a word of a shell or of Python.
        return self._places.get(name) if name[:1].isupper() else None


class Page:
    """A guide as Doxygen is to read it. Lines stay where they are, so that its warnings lead there.

    Doxygen takes a quotation mark in code for the beginning of a text, and more of the kind. So in
    place of code and links it gets words that say nothing, and fill_in puts those into its pages.

    Attributes:
        shown: files of the project that it links to and that are no guides.
        faults: links that lead nowhere.
    """

    def __init__(self, path, names, kept):
        self._path = path
        self._names = names
        self._kept = kept
        self._labels = set()
        self.shown = set()
        self.faults = []

    def of(self, text):
        """The page's text, or some of it, for Doxygen."""
        text = TOKEN.sub(self._token, text)
        if len(self._labels) >= FEWEST_FOR_CONTENTS:
            text = text.replace("\n\n", "\n[TOC]\n", 1)  # behind the title
        return text

    def _token(self, found):
        if found["fence"]:
            language = COLOURED.get(found["language"], "{.unparsed}")
            return f"{found['indent']}```{language}\n{found['program']}{found['indent']}```"
        if found["heading"]:
            return self._heading(found["level"], found["title"])
        if found["code"]:
            return self._keep(found[0], self._code(found["code"]))
        if found["open"]:
            return self._link(found)
        if found["word"]:  # Doxygen would link the word to the class of that name
            return ("%" if found["word"] in self._names.classes else "") + found["word"]
        return "\\" + found["special"]  # else Doxygen sees a command or a name

    def _heading(self, level, title):
        if len(level) == 1:
            name = "mainpage" if self._path == "README.md" else page_name(self._path)
        else:
            first = name = label(self._path, title)
            again = 0
            while name in self._labels:  # as those who show Markdown number them
                again += 1
                name = f"{first}-{again}"
        self._labels.add(name)
        return f"{level} {title.replace('`', '')} {{#{name}}}"

    def _code(self, code):
        place = None if OTHER_NAMES.fullmatch(self._path) else self._names.place(code)
        shown = f"<code>{html.escape(code)}</code>"
        return f'<a href="{place}">{shown}</a>' if place else shown

    def _link(self, found):
        target = self._target(found["target"], picture=found["open"] == "![")
        if found["open"] == "![":
            return f"![{found['shown']}]({target})"
        shown = re.sub("`(.*?)`", r"<code>\1</code>", html.escape(found["shown"]))
        return self._keep(found[0], f'<a href="{html.escape(target)}">{shown}</a>')

    def _keep(self, as_it_stands, text):
        """A word for Doxygen in place of what stands there, and of as many lines."""
        self._kept.append(text.replace("\n", " "))
        return "\n" * as_it_stands.count("\n") + f"{KEPT}{len(self._kept) - 1}x"

    def _target(self, target, picture):
        """Where a link of the guide leads on the site."""
        if "://" in target:
            return target
        path, _, heading = target.partition("#")
        path = os.path.normpath(pathlib.PurePosixPath(self._path).parent / path) if path else self._path
        if path in GUIDES:
            return f"{page_name(path)}.html" + (f"#{label(path, heading)}" if heading else "")
        if picture:
            return pathlib.PurePosixPath(path).name
        if not (ROOT / path).exists():
            self.faults.append(f"{self._path}: links to {target}, which the site has not")
        self.shown.add(path)
        return shown_name(path)


def link_to_guide(found):
    """A guide that a header's comment names, as a link to its page."""
    page = f"{page_name(found[0])}.html" if found[0] in GUIDES else None
    return f'<a href="{page}">{found[0]}</a>' if page else found[0]


def fill_in(folder, kept):
    """Puts what was kept from Doxygen into its pages, and links to the guides that comments name."""
    for path in folder.glob("*.html"):
        text = before = path.read_text(encoding="utf-8")
        text = re.sub(rf"{KEPT}(\d+)x", lambda found: kept[int(found[1])], text)
        if REFERENCE_PAGE.match(path.name):
            text = re.sub(r"(?<![\w/\">])docs/[\w/]+\.md", link_to_guide, text)
            # What Doxygen found of the programs that are listed already.
            text = re.sub(r'(<dt>Programs</dt>[^\n]*</dl>)\s*<dl class="section examples">.*?</dl>', r"\1",
                          text, flags=re.DOTALL)
            if 'name="nested-classes"' not in text:  # Doxygen links to its list of private ones, too
                text = re.sub(r'<a href="#nested-classes">Classes</a> &#124;\s*', "", text)
        if text != before:
            path.write_text(text, encoding="utf-8")


def drop_lists(folder):
    """Doxygen writes lists by letter where the layout has none, and pages of the guides' folders."""
    for pattern in ("functions*", "namespacemembers*", "classes", "hierarchy", "namespaces", "pages"):
        for path in folder.glob(f"{pattern}.html"):
            path.unlink()
    folders = set(folder.glob("dir_*.html"))
    text = "".join(path.read_text(encoding="utf-8") for path in set(folder.glob("*.html")) - folders)
    for path in folders:
        if path.name not in text:
            path.unlink()


def kept_files(*patterns):
    """The files that the project keeps, or will with the next commit; in an archive all that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:
        files = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*"))
        names = [name for name in files if not name.startswith(("build/", "dist/")) and any(
            fnmatch.fnmatch(name, each) or name.startswith(f"{each}/") for each in patterns)]
    return sorted(name for name in names if (ROOT / name).is_file())


def program_folders():
    """Where the programs are that are shown by their paths from the root. Not the root itself: builds
    may lie there, and whole systems that `scripts/package --try` unpacked."""
    return sorted({path.split("/")[0] for path in kept_files("*")})


def described_headers(page):
    """What docs/HEADERS.md, which is `page`, says of each header, by its path under include/ringfeed."""
    rows = HEADER_ROW.finditer((ROOT / HEADERS).read_text(encoding="utf-8"))
    return {name.strip("`"): page.of(row[2]) for row in rows for name in row[1].split(", ")}


def uses_of_names(names):
    """For each name a list of the programs that use it. (Doxygen finds few of them by itself.)"""
    programs = {path: NO_CODE.sub(" ", (ROOT / path).read_text(encoding="utf-8"))
                for path in kept_files("examples/*.cc", "examples/*.cu")}
    # Programs about one part of the headers come first.
    programs = {path: set(re.findall(r"\w+", programs[path]))
                for path in sorted(programs, key=lambda path: ("/topics/" not in path, path))}
    for name, declarations in sorted(names.declared.items()):
        users = [path for path, words in programs.items() if name in words][:MOST_USERS]
        links = ", ".join(f"[{path}]({shown_name(path)})" for path in users)
        for declaration in declarations if users else ():
            yield f"/** {declaration}\n@par Programs\n{links} */\n"


def shown_page(path):
    """A page with the text of a file, or with what stands in a folder."""
    name = pathlib.PurePosixPath(shown_name(path)).stem
    if (ROOT / path).is_dir():
        files = "\n".join(kept_files(path))
        return f"/** @page {name} {path}\n@verbatim\n{files}\n@endverbatim */\n"
    return f"/** @page {name} {path}\n@verbinclude {path}\n*/\n"


def reference_texts(names, shown, headers):
    """What the reference has besides the headers' comments: headers, programs, files in a word each."""
    texts = []
    for header, words in headers.items():
        texts.append(f"/** @file ringfeed/{header}\n@brief {words[0].upper()}{words[1:]}. */\n")
    texts += [f"/** @example {path} */\n" for path in kept_files("examples") if is_example(path)]
    texts += uses_of_names(names)
    texts += [shown_page(path) for path in sorted(shown) if not is_example(path)]
    return "".join(texts)


def navigation():
    """The lists of all pages, for the header of each."""
    lists = {group: {f"{page_name(path)}.html": title for path, title in pages.items()}
             for group, pages in GROUPS.items()}
    lists["Reference"] = REFERENCE
    lines = []
    for group, pages in lists.items():
        items = "".join(f'<li><a href="$relpath^{page}">{title}</a></li>' for page, title in pages.items())
        lines.append(f"<h2>{group}</h2>\n<ul>{items}</ul>\n")
    return "".join(lines)


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"VERSION\s+(\d+\.\d+\.\d+)", text)[1]


def doxygen(**settings):
    """Runs Doxygen with the Doxyfile and these settings; what it warned of, by the project's paths."""
    lines = [(ROOT / HERE / "Doxyfile").read_text(encoding="utf-8")]
    lines += [f"{key} = {value}" for key, value in settings.items()]
    done = subprocess.run(["doxygen", "-"], cwd=ROOT, input="\n".join(lines), capture_output=True, text=True)
    said = done.stderr.replace(f"{ROOT}/", "").replace(f"{PAGES}/", "").strip()
    return [*said.splitlines(), *([] if done.returncode == 0 or said else [f"doxygen: {done.returncode}"])]


def write_pages(names, kept):
    """The guides for Doxygen, and what goes with them; what is wrong with the guides."""
    documents = {path for path in kept_files("*.md") if not path.startswith("tests/data/")}
    faults = [f"{path}: in no group of {HERE}/make_site.py"
              for path in sorted(documents - GUIDES.keys() - NOT_SHOWN)]
    shown = set()
    for path in GUIDES:
        page = Page(path, names, kept)
        target = ROOT / PAGES / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.of((ROOT / path).read_text(encoding="utf-8")), encoding="utf-8")
        shown |= page.shown
        faults += page.faults
    headers = described_headers(Page(HEADERS, names, kept))
    (ROOT / PAGES / "reference.dox").write_text(reference_texts(names, shown, headers), encoding="utf-8")
    header = (ROOT / HERE / "header.html").read_text(encoding="utf-8")
    (ROOT / BUILD / "header.html").write_text(header.replace("<!-- lists -->", navigation()), encoding="utf-8")
    return faults


def make():
    """Makes the site; what is wrong with it."""
    shutil.rmtree(ROOT / BUILD, ignore_errors=True)
    (ROOT / PAGES).mkdir(parents=True)
    headers = f"include/ringfeed {PAGES}/namespace.dox"
    (ROOT / PAGES / "namespace.dox").write_text(NAMESPACE, encoding="utf-8")
    faults = doxygen(OUTPUT_DIRECTORY=BUILD, INPUT=headers, FILE_PATTERNS="*.h *.dox", GENERATE_HTML="NO")
    if faults:
        return faults
    kept = []
    faults = write_pages(Names(ROOT / BUILD / "xml"), kept)
    guides = " ".join(str(PAGES / path) for path in GUIDES)
    faults = faults or doxygen(
        OUTPUT_DIRECTORY=BUILD, INPUT=f"{headers} {PAGES}/reference.dox {guides}",
        EXAMPLE_PATH=" ".join(program_folders()), FILE_PATTERNS="*.h *.md *.dox",
        PROJECT_NUMBER=version(), GENERATE_XML="NO",
        USE_MDFILE_AS_MAINPAGE=PAGES / "README.md", HTML_HEADER=BUILD / "header.html",
        HTML_FOOTER=HERE / "footer.html")
    if not faults:
        fill_in(ROOT / BUILD / "site", kept)
        drop_lists(ROOT / BUILD / "site")
    return faults


def main():
    if shutil.which("doxygen") is None:
        print("doxygen is missing")
        return 2
    faults = make()
    print("\n".join(faults) or f"{BUILD}/site/index.html")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
