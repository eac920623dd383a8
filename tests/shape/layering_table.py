"""The table of docs/ARCHITECTURE.md: which folder may include which, and where public headers live."""

import re

TITLE = "## Who may include whom"
EXCEPTIONS = "Exceptions"
EVERYTHING = "everything below"
LIBRARY = "the library"  #: what stands below the programs
#: What is no part of the library, with the folders beneath.
PROGRAMS = {"tools", "bench", "tests", "examples", "python"}
#: In these one row holds for all that is beneath.
WHOLE = PROGRAMS - {"tools"}
CODE = re.compile(r"`([^`]+)`")
DOCUMENT = "docs/ARCHITECTURE.md"


class Table:
    """Rows from the top down, of a folder or of several that are alike; each names folders of rows
    that stand below it."""

    def __init__(self, text):
        self.faults = []  #: what is wrong with the table itself, as DOCUMENT:LINE: MESSAGE
        self.below = {}  #: folder: the folders that it may include
        self.named = []  #: of each row: line, its folders, those that it names
        self.home = {}  #: public header, as `status.h` or `queue/channel.h`: its folder
        self.exceptions = {}  #: (file or folder, header or folder that it includes): line
        self._read(text)

    def _fault(self, line, message):
        self.faults.append(f"{DOCUMENT}:{line}: {message}")

    def _read(self, text):
        lines = list(enumerate(text.splitlines(), 1))
        start = next((at for at, (_, line) in enumerate(lines) if line.strip() == TITLE), None)
        if start is None:
            return self._fault(1, f'there is no "{TITLE}"')
        section = []
        for number, line in lines[start + 1:]:
            if line.startswith("## "):
                break
            section.append((number, line))
        rows = []
        for number, line in section:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if line.startswith("|") and len(cells) == 3 and CODE.match(cells[0]):
                rows.append((number, cells))
        # Two tables of three columns: that of the folders, then that of the exceptions.
        told = next((number for number, line in section if line.startswith(EXCEPTIONS)), None)
        self._read_folders([row for row in rows if told is None or row[0] < told])
        self._read_exceptions([row for row in rows if told is not None and row[0] > told])

    def _read_folders(self, rows):
        for number, cells in rows:
            self.named.append((number, *([name.rstrip("/") for name in CODE.findall(cell)]
                                         for cell in cells[:2])))
        rows = [(number, (f"`{folder}`", *cells[1:])) for number, cells in rows
                for folder in CODE.findall(cells[0])]
        order = [CODE.match(cells[0]).group(1).rstrip("/") for _, cells in rows]
        for at, (number, (_, below, headers)) in enumerate(rows):
            folder = order[at]
            if folder in self.below:
                self._fault(number, f"{folder}/ has two rows")
            named = [name.rstrip("/") for name in CODE.findall(below)]
            for name in named:
                self._check_named(number, folder, name, order, at, rows)
            if EVERYTHING in below:
                named = order[at + 1:]
            elif LIBRARY in below:
                named += [name for name in order[at + 1:] if name.split("/")[0] not in PROGRAMS]
            self.below[folder] = set(named)
            for header in CODE.findall(headers):
                if header in self.home:
                    self._fault(number, f"{header} has two homes")
                self.home[header] = folder

    def _check_named(self, number, folder, name, order, at, rows):
        if name not in order:
            return self._fault(number, f"{folder}/ names {name}/, which has no row")
        if name in order[at + 1:]:
            return None
        back = CODE.findall(rows[order.index(name)][1][1])
        if folder in [each.rstrip("/") for each in back] and name != folder:
            return self._fault(number, f"{folder}/ and {name}/ would include each other")
        return self._fault(number, f"{folder}/ names {name}/, which does not stand below it")

    def _read_exceptions(self, rows):
        for number, (includer, included, reason) in rows:
            if not reason:
                self._fault(number, "an exception needs its reason")
            key = (CODE.match(includer).group(1).rstrip("/"), *CODE.findall(included))
            if len(key) != 2:
                self._fault(number, "an exception names one thing that is included")
            elif key in self.exceptions:
                self._fault(number, "the exception is there twice")
            else:
                self.exceptions[key[0], key[1].rstrip("/")] = number

    def folder_of(self, path):
        """The row of a file of the project, or of an include of a public header; None without one."""
        parts = path.split("/")
        if parts[0] == "ringfeed":
            return self.home.get("/".join(parts[1:]))
        if parts[:2] == ["include", "ringfeed"]:
            return self.home.get("/".join(parts[2:]))
        folders = parts[:-1]
        for depth in range(len(folders), 1, -1):  # a row of a folder holds for what is beneath it
            if "/".join(folders[:depth]) in self.below:
                return "/".join(folders[:depth])
        alone = len(parts) == 2 or parts[0] in WHOLE
        return parts[0] if alone and parts[0] in self.below else None

    def exception_for(self, path, target):
        """The exception that lets the file at `path` include `target`, or None."""
        for includer in (path, self.folder_of(path)):
            for included in (target, self.folder_of(target)):
                if (includer, included) in self.exceptions:
                    return includer, included
        return None
