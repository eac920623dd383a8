"""What ringfeed raises. The end of data is none of these: iterators raise StopIteration."""

from __future__ import annotations

import os
import re


class Error(Exception):
    """A failure of data, system or set-up.

    Attributes:
        code: what kind it is: "damaged", "not_found", "resource_exhausted", …
        file: the file that it concerns, or "".
        offset: bytes from the start of that file, or -1.
        record: number of the record in that file, from 0, or -1.
    """

    code: str = ""
    file: str = ""
    offset: int = -1
    record: int = -1


class InvalidArgument(Error, ValueError):
    """An option or a call that cannot work; the message names the remedy."""


class NotFound(Error, FileNotFoundError):
    """A file, a format or a name that does not exist."""


class PermissionDenied(Error, PermissionError):
    """The system refuses; the message names what was asked."""


class IoError(Error, OSError):
    """The medium or the system failed while reading or writing."""


class Damaged(Error):
    """A checksum, a length or a structure in the data is wrong."""


class Truncated(Damaged):
    """The data end inside a record."""


class ResourceExhausted(Error):
    """Memory, descriptors or slots ran out against a stated limit."""


class Unsupported(Error, NotImplementedError):
    """Valid, but nothing that this build or machine can do."""


class DeadlineExceeded(Error, TimeoutError):
    """A wait reached its deadline."""


class Cancelled(Error):
    """Stopped by close, kill or a destructor."""


class UserError(Error):
    """A function of the user's threw, and its own exception is not at hand."""


class DeviceLost(Error):
    """A device failed for good, or its driver did."""


_CLASSES: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgument,
    "not_found": NotFound,
    "permission_denied": PermissionDenied,
    "io_error": IoError,
    "damaged": Damaged,
    "truncated": Truncated,
    "resource_exhausted": ResourceExhausted,
    "unsupported": Unsupported,
    "deadline_exceeded": DeadlineExceeded,
    "cancelled": Cancelled,
    "user_error": UserError,
    "device_lost": DeviceLost,
}


_CPP_OPTION = re.compile(r"\b(?:[A-Z]\w*)?Options::(\w+)")


#: A remedy of the library's, and how Python takes it.
_COPY = "copy what is to be kept"
_COPY_IN_PYTHON = f"{_COPY} (array.copy() in host memory, clone() of Torch's tensor on a GPU)"


#: How the library calls what opens streams, and how Python does.
_STREAMS = (
    "Multiplex joins streams as they are opened: OpenStreamSource, or OpenFiles with the name of "
    "one"
)
_STREAMS_IN_PYTHON = (
    "what is joined are streams as they are opened: by open_file, create_recordio_reader or "
    "open_files with the name of one"
)
#: If a first row is no numbers.
_HEADER = "take header and format of ReadCsvColumns (for the command --parse 'csv: -header …')"
#: Each of the library's texts that Python says otherwise.
_IN_PYTHON = {
    _COPY: _COPY_IN_PYTHON,
    _STREAMS: _STREAMS_IN_PYTHON,
    _HEADER: "say csv(…, header=True)",
    "ahead_records and ahead_bytes": "ahead and ahead_bytes",
    "its stripes with a window (ShuffleMode::kStripes)": 'by "stripes" and a window',
    ", or take batches without rows too (BatchOptions::empty_batches)": "",
}
#: Options that have another name as arguments.
_ARGUMENTS = {"arena": "arena_bytes", "files": "shuffle_files"}


def _in_python(message: str) -> str:
    """The library's text with its options as Python's arguments, "slots=" for
    "BatchOptions::slots", and with Python's ways to copy and to open streams."""
    for theirs, ours in _IN_PYTHON.items():
        message = message.replace(theirs, ours)
    return _CPP_OPTION.sub(lambda name: _ARGUMENTS.get(name[1], name[1]) + "=", message)


def from_status(code: str, message: str, file: str, offset: int, record: int) -> Error:
    """The exception of a status of the library's. Its text names the place."""
    # A name that is no UTF-8 can be opened as it is in `file`, but not printed.
    place = [os.fsencode(file).decode(errors="backslashreplace")] if file else []
    if offset >= 0:
        place.append(f"offset {offset}")
    if record >= 0:
        place.append(f"record {record}")
    error = _CLASSES.get(code, Error)(": ".join([*place, _in_python(message)]))
    error.code, error.file, error.offset, error.record = code, file, offset, record
    return error
