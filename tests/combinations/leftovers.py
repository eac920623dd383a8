"""Folders of a search, named by its process: a search that was killed leaves its own behind, and the next
one that starts removes them."""

import contextlib
import os
import pathlib
import re
import shutil
import tempfile

PREFIX = "ringfeed-combinations-"
#: What chain_search makes has a dot.
NAME = re.compile(r"ringfeed[-_]combinations[-.](\d+)(?:-.*)?")


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def remove_those_of_the_dead(parent):
    """Removes the folders of searches that are no more, as far as they may be removed."""
    for path in pathlib.Path(parent).iterdir():
        name = NAME.fullmatch(path.name)
        if name and not is_alive(int(name[1])):
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def folder_in(parent):
    """A folder below `parent`, removed with all that is in it."""
    remove_those_of_the_dead(parent)
    path = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
