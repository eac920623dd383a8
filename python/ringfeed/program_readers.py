"""The readers of Fluid's data pipeline, by the names and attributes that programs have for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Optional, Union

from . import _core
from .arguments import at_least
from .chains import PathLike, file_name, reader_of

__all__ = ["create_multiplex_reader", "create_recordio_reader", "open_file", "read_recordio"]


def open_file(
    filename: PathLike, reopen_limit: int = 0, reopen_until: Union[float, str] = ""
) -> _core.Reader:
    """A file or a stream ("/dev/stdin", a FIFO, "unix:PATH", "tcp:HOST:PORT"), whose records a
    reader on it finds: `create_recordio_reader`, or `read_as` for other formats.

    Args:
        reopen_limit: how often a stream is opened again at its end, for a generator that is started
            again. A file refuses it, and so does stdin.
        reopen_until: or until nothing came for so many seconds, or "close".

    Raises:
        InvalidArgument: what cannot be opened so.
        NotFound: there is no such file: the first read, as other failures of opening it.
    """
    attributes = {
        "filename": file_name(filename),
        "reopen_limit": reopen_limit,
        "reopen_until": _seconds_or_close(reopen_until),
    }
    return _core.create_reader("open_file", attributes, [])


def _seconds_or_close(until: Union[float, str, None]) -> str:
    """As programs write it: their attribute is a text."""
    if until is None or isinstance(until, str):
        return until or ""
    if isinstance(until, bool):
        raise TypeError(f'reopen_until is a number of seconds, or "close", not {until!r}')
    return "" if until == 0 else "close" if until == math.inf else repr(float(until))


def create_recordio_reader(
    source: Union[_core.Reader, PathLike, None] = None,
    parse: str = "",
    *,
    filename: Optional[PathLike] = None,
    input: Optional[_core.Reader] = None,
) -> _core.Reader:
    """The records of a RecordIO file, or of what `open_file` opened and nobody reads yet.

    Args:
        source: one or the other; or by the names that programs have for them:
        filename: of a RecordIO file.
        input: what `open_file` opened.
        parse: what records become, as `ringfeed feed --parse` takes it: "lod: x=f4[,13] y=f4[,1]".
            Without it they come as their bytes; `ringfeed.parse` takes other parsers.
    """
    given = [each for each in (source, filename, input) if each is not None]
    if len(given) != 1:
        raise TypeError("create_recordio_reader takes a filename, or an open_file as its input")
    if isinstance(given[0], _core.Reader) or input is not None:
        inputs = [reader_of(given[0])]
        return _core.create_reader("create_recordio_reader", {"parse": parse}, inputs)
    attributes = {"filename": file_name(given[0]), "parse": parse}
    return _core.create_reader("create_recordio_reader", attributes, [])


def create_multiplex_reader(
    streams: Iterable[_core.Reader] = (),
    parse: str = "",
    on_damage: str = "fail",
    *,
    input: Iterable[_core.Reader] = (),
) -> _core.Reader:
    """Records of several streams, of whichever has some: a slow one holds up none. `multiplex` has
    more options.

    Args:
        streams: FIFOs, sockets or stdin, as `open_file`, `create_recordio_reader` or `open_files`
            opened them, without a parser. Files are refused: `open_files` reads many.
        input: the same, by the name that programs have for them.
        parse: as of `create_recordio_reader`.
        on_damage: "fail", or "skip": a stream that dies is reported in `stats`, the others go on.
    """
    attributes = {"parse": parse, "on_damage": on_damage}
    inputs = [reader_of(stream) for listed in (streams, input) for stream in listed]
    return _core.create_reader("create_multiplex_reader", attributes, inputs)


def read_recordio(reader: _core.Reader, count: int = 1) -> list[tuple[_core.Array, ...]]:
    """The next `count` instances; fewer, or none, at the end of the data.

    What comes before a failure is returned, and the next call raises that. An interrupt (Ctrl-C)
    loses what the call had read: read one by one if that matters.
    """
    instances: list[tuple[Any, ...]] = []
    source = reader_of(reader)
    limit = at_least(0, count, "count")
    try:
        while len(instances) < limit:
            instances.append(next(source))
    except StopIteration:
        pass
    except Exception:
        if not instances:
            raise
    return instances
