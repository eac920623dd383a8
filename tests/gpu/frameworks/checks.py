"""What the programs of this folder share: checks that go on after a failed one, and small data."""

import json
import os
import pathlib
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, List, Optional

PASSED, FAILED, SKIPPED = 0, 1, 77


class Skip(Exception):
    """A check cannot be made here; says why."""


class Failed(Exception):
    """A check found something wrong; says what, with a detail for the report."""

    def __init__(self, message: str, detail: Any = None) -> None:
        super().__init__(message)
        self.detail = detail


def say(text: str) -> None:
    """Progress, to standard error."""
    print(text, file=sys.stderr, flush=True)


class Checks:
    """Runs checks one after the other and keeps what came of them.

    Attributes:
        results: a dict of "name", "ok" (None: skipped), "seconds", and "detail", "error" or
            "skipped".
        extra: more fields of the report.
    """

    def __init__(self, out: pathlib.Path, label: str) -> None:
        self.out = out
        self.label = label
        self.results: List[Dict[str, Any]] = []
        self.extra: Dict[str, Any] = {}
        self._begin = time.monotonic()

    def run(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Calls the function; what it returns is the detail. Returns that, None if it failed. The
        report is written after each check, so that a crash leaves those before."""
        begin = time.monotonic()
        entry: Dict[str, Any] = {"name": name, "ok": True}
        detail = None
        try:
            detail = function(*args)
            if detail is not None:
                entry["detail"] = detail
        except Skip as why:
            entry.update(ok=None, skipped=str(why))
        except Failed as failure:
            entry.update(ok=False, error=str(failure), detail=failure.detail)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a library may end the program, too
            entry.update(ok=False, error=traceback.format_exc())
        entry["seconds"] = round(time.monotonic() - begin, 3)
        self.add(entry)
        return detail if entry["ok"] else None

    def add(self, entry: Dict[str, Any]) -> None:
        """Takes up a result that was made elsewhere."""
        self.results.append(entry)
        word = {True: "ok", False: "FAILED", None: "skipped"}[entry["ok"]]
        why = entry.get("skipped") or entry.get("error") or ""
        say(f"{self.label}: {word:8s}{entry['seconds']:8.2f} s  {entry['name']}"
            + (f": {why.strip().splitlines()[-1][:160]}" if why.strip() else ""))
        self.write()

    def report(self) -> Dict[str, Any]:
        """All of it."""
        counts = [entry["ok"] for entry in self.results]
        return {
            "program": self.label,
            "passed": counts.count(True),
            "failed": counts.count(False),
            "skipped_checks": counts.count(None),
            "seconds": round(time.monotonic() - self._begin, 2),
            **self.extra,
            "checks": self.results,
        }

    def write(self) -> None:
        """Writes the report, whole or not at all."""
        write_json(self.out, self.report())

    def status(self) -> int:
        """The exit status."""
        return FAILED if any(entry["ok"] is False for entry in self.results) else PASSED


def write_json(path: pathlib.Path, document: Any) -> None:
    """A JSON document, whole or not at all; what JSON has no word for becomes text."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    os.replace(partial, path)


def why_no_devices(devices: str) -> Optional[str]:
    """What ringfeed says why there are no such devices, None where there are some. Makes no
    context."""
    import ringfeed

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "one.rows"
        path.write_bytes(bytes(8))
        try:
            ringfeed.Loader(
                path,
                format="rows:8",
                parse=ringfeed.rows({"x": ("int64", ())}),
                batch=1,
                rank=None,
                devices=devices,
            ).close()
        except ringfeed.Error as error:
            return str(error)
    return None


def skip_all(out: pathlib.Path, why: str) -> int:
    """The report and the exit status where there is no device."""
    say(f"skipped: {why}")
    write_json(out, {"skipped": why})
    return SKIPPED
