"""Parquet and Arrow files as groups of rows, by pyarrow's readers."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, NamedTuple, Optional, Union

from .errors import Damaged, Error, from_status

PathLike = Union[str, "os.PathLike[str]"]
_FOOTER_THREADS = 16
#: What Arrow makes at a time of a group, by its size in memory: a nested column of 2 GiB fails.
_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 1 << 29
#: If Arrow asks for so much memory, a length in the file is wrong.
_NO_SIZE = 1 << 40
#: Of files of tables: how their names end, and how they begin.
_ENDINGS = (".parquet", ".parq", ".pq", ".arrow", ".feather", ".ipc")
_MAGICS = (b"PAR1", b"PARE", b"ARRO", b"FEA1", b"\xff\xff\xff\xff")
#: What ends a footer that can be read, of a file with encrypted columns.
_SIGNATURE_BYTES = 28


class Groups(NamedTuple):
    """What open_table takes: each group's name, rows and identity, and a function that opens it;
    without groups `opened` has `__arrow_c_stream__` itself, and `identity` is of it."""

    name: str
    identity: str
    groups: Optional[list[tuple[str, int, str]]]
    schema: Any
    opened: Any


def _arrow() -> Any:
    try:
        import pyarrow.fs
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as missing:
        raise ImportError(
            "pyarrow reads Parquet and Arrow files: pip install 'ringfeed[arrow]'"
        ) from missing
    return pyarrow


def parquet_groups(
    files: Union[PathLike, Iterable[PathLike]], filesystem: Any, wanted: list[str], skips: bool
) -> Groups:
    """The row groups. A file whose footer is damaged is one damaged row if `skips`."""
    filesystem, paths = _files_of(files, filesystem)
    with ThreadPoolExecutor(_FOOTER_THREADS) as threads:
        footers = list(threads.map(lambda path: _footer_of(filesystem, path, skips), paths))
    schema = _one_schema(paths, [footer.schema for footer in footers], wanted)
    places = [(footer, number) for footer in footers for number in range(len(footer.rows))]
    rows = [
        (f"{footer.path}#{number}", footer.rows[number], footer.identity)
        for footer, number in places
    ]
    return _in_groups(
        paths, rows, schema, lambda group: _row_group(filesystem, *places[group], wanted)
    )


def arrow_groups(
    files: Union[PathLike, Iterable[PathLike]], filesystem: Any, wanted: list[str], skips: bool
) -> Groups:
    """The batches of files; of streams, which have no table of them, all as one table."""
    filesystem, paths = _files_of(files, filesystem)
    streams = [_is_stream(filesystem, path) for path in paths]
    if all(streams):
        identities, tables = zip(*(_stream(filesystem, path, wanted) for path in paths))
        _one_schema(paths, [table.schema for table in tables], wanted)
        schema = tables[0].schema
        table = _arrow().concat_tables([_as_in(schema, each) for each in tables])
        if not table.num_rows:
            return _in_groups(paths, [], table.schema, lambda group: table)
        return Groups(_name_of(paths), ", ".join(identities), None, None, table)
    if any(streams):
        text = "a stream of Arrow's beside files with footers: open them by one call each"
        raise _error("invalid_argument", paths[streams.index(True)], text)
    contents = [_batches_of(filesystem, path, skips) for path in paths]
    schema = _one_schema(paths, [file.schema for file in contents], wanted)
    places = [(file.path, file.state, at) for file in contents for at in range(len(file.rows))]
    groups = [
        (f"{file.path}#{at}", count, file.identity)
        for file in contents
        for at, count in enumerate(file.rows)
    ]
    return _in_groups(
        paths, groups, schema, lambda group: _batch(filesystem, *places[group], wanted)
    )


def _in_groups(
    paths: list[str], groups: list[tuple[str, int, str]], schema: Any, opened: Callable[[int], Any]
) -> Groups:
    return Groups(
        _name_of(paths),
        "",
        groups or [(paths[0], 0, "")],
        schema,
        lambda group: _as_in(schema, opened(group)),
    )


def _as_in(schema: Any, table: Any) -> Any:
    """The table's columns that the schema has, in its order."""
    names = [name for name in schema.names if name in table.column_names]
    return table if names == table.column_names else table.select(names)


# Files.


def _files_of(files: Union[PathLike, Iterable[PathLike]], filesystem: Any) -> tuple[Any, list[str]]:
    fs = _arrow().fs
    given = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    names = [os.path.expanduser(os.fspath(each)) for each in given]
    if filesystem is None and any("://" in name for name in names):
        found = [fs.FileSystem.from_uri(name) for name in names]
        filesystem, names = found[0][0], [path for _, path in found]
        if any(other != filesystem for other, _ in found):
            raise ValueError("the files lie in several stores: open each by itself, and mix them")
    elif filesystem is None:
        filesystem = fs.LocalFileSystem()
    elif not isinstance(filesystem, fs.FileSystem):
        filesystem = fs.PyFileSystem(fs.FSSpecHandler(filesystem))
    paths = [path for name in names for path in _matches(filesystem, name)]
    if not paths:
        raise _error("not_found", "", f"there are no files {', '.join(names)}")
    return filesystem, paths


def _matches(filesystem: Any, name: str) -> list[str]:
    """The file, those of a folder, or those that a glob names, sorted."""
    fs = _arrow().fs
    if glob.has_magic(name):
        if isinstance(filesystem, fs.LocalFileSystem):
            return sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
        parts = name.split("/")
        first = next(at for at, part in enumerate(parts) if glob.has_magic(part))
        found = filesystem.get_file_info(fs.FileSelector("/".join(parts[:first]), recursive=True))
        return sorted(info.path for info in found if info.is_file and _fits(info.path, parts))
    info = filesystem.get_file_info(name)
    if info.type != fs.FileType.Directory:
        return [name]
    return _files_in(filesystem, name)


def _files_in(filesystem: Any, folder: str) -> list[str]:
    """Those of a folder. Refuses folders whose files alone are another table than the folder."""
    found = filesystem.get_file_info(_arrow().fs.FileSelector(folder, recursive=True))
    paths = sorted(each.path for each in found if each.is_file and each.base_name[0] not in "_.")
    for each in found:
        inner = each.path[len(folder.rstrip("/")) :]
        if each.base_name in ("_delta_log", ".hoodie") or inner.endswith(".metadata.json"):
            text = f"a table with deleted and outdated rows ({inner[1:]}): let its own library"
            raise _refusal(folder, f"{text} name the files")
        if "=" in os.path.dirname(inner):
            text = f"its folders hold a column ({os.path.dirname(inner)[1:]})"
            remedy = "ringfeed.table(pyarrow.dataset.dataset(folder, partitioning='hive'))"
            raise _refusal(folder, f"{text}: {remedy} reads it, a glob goes without")
    for path in paths:
        if path.endswith(_ENDINGS) or _ends_of(filesystem, path)[0][:4] in _MAGICS:
            continue
        text = (
            "no file of a table, in a folder of them: name those that are, as by folder/*.parquet"
        )
        raise _error("invalid_argument", path, text)
    return paths


def _fits(path: str, parts: Sequence[str]) -> bool:
    names = path.split("/")
    return len(names) == len(parts) and all(map(fnmatch.fnmatchcase, names, parts))


def _name_of(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _error(code: str, path: str, text: str) -> Error:
    return from_status(code, text, path, -1, -1)


def _refusal(path: str, what: str) -> Error:
    return _error("unsupported", path, what)


@contextlib.contextmanager
def _damage_told(filesystem: Any, path: str, what: str) -> Iterator[None]:
    """What Arrow refuses is Damaged, unless the file's end cannot be had again: then its store, or
    the system, fails, and not the data."""
    try:
        yield
    except (_arrow().ArrowException, OSError, ValueError, OverflowError) as error:
        asked = re.search(r"size (\d+)", str(error))
        if isinstance(error, MemoryError) and (asked is None or int(asked[1]) < _NO_SIZE):
            raise
        _ = _ends_of(filesystem, path)
        text = " ".join(str(error).split())
        raise _error("damaged", path, f"{what}: {text}") from error


def _state_of(filesystem: Any, path: str) -> Any:
    """What differs if the file is replaced; of a store's, its size and time."""
    if isinstance(filesystem, _arrow().fs.LocalFileSystem):
        facts = os.stat(path)
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns
    info = filesystem.get_file_info(path)
    return info.size, info.mtime_ns


def _check_state(filesystem: Any, path: str, known: Any) -> None:
    if _state_of(filesystem, path) != known:
        raise _error("damaged", path, "the file was replaced since it was found")


def _ends_of(filesystem: Any, path: str) -> tuple[bytes, bytes]:
    """The first and the last eight bytes."""
    with filesystem.open_input_file(path) as file:
        return file.read_at(8, 0), file.read_at(8, max(0, file.size() - 8))


def _identity_of(file: Any) -> str:
    """As TableSource::identity: what stays on another machine, unlike the state."""
    size = int(file.size())
    head, tail = file.read_at(4096, 0), file.read_at(1 << 16, max(0, size - (1 << 16)))
    return f"{size} {zlib.crc32(head + tail)}"


def _one_schema(paths: Sequence[str], schemas: Sequence[Any], wanted: Sequence[str]) -> Any:
    """The first that is known. Refuses files whose wanted columns are of other types."""
    known = [(path, schema) for path, schema in zip(paths, schemas) if schema is not None]
    if not known:
        raise _error("damaged", paths[0], "it has no footer, and no other file has one")
    first_path, first = known[0]
    names = {name.partition(".")[0] if name not in first.names else name for name in wanted}
    for path, schema in known:
        if schema.equals(first):
            continue
        for field in first:
            if wanted and field.name not in names:
                continue
            at = schema.get_field_index(field.name)
            found = "not there" if at < 0 else str(schema.field(at).type)
            if at < 0 or schema.field(at).type != field.type:
                text = f'column "{field.name}" is {found}, and {field.type} in {first_path}'
                remedy = "ringfeed.table(pyarrow.dataset.dataset(files)) casts them to one type"
                raise _error("invalid_argument", path, f"{text}: {remedy}")
    return first


# Parquet.


class _Footer(NamedTuple):
    """What is known of a file: `damage` if it has no footer, or it is damaged."""

    path: str
    state: Any
    identity: str
    metadata: Any
    schema: Any
    rows: list[int]
    damage: Optional[Error]


def _footer_of(filesystem: Any, path: str, skips: bool) -> _Footer:
    arrow = _arrow()
    head, tail = _ends_of(filesystem, path)
    if head[:6] == b"ARROW1":
        raise _refusal(path, "an Arrow file, no Parquet: ringfeed.arrow_ipc reads it")
    if b"PARE" in (head[:4], tail[-4:]):
        raise _refusal(path, "encrypted Parquet, which is not read: decrypt it by pyarrow")
    state = _state_of(filesystem, path)
    try:
        with filesystem.open_input_file(path) as file:
            identity = _identity_of(file)
            with _damage_told(filesystem, path, "no footer of Parquet"):
                parsed = arrow.parquet.ParquetFile(file)
                metadata, schema = parsed.metadata, parsed.schema_arrow
                rows = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
                if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
                    raise ValueError(f"groups of {rows} rows, {metadata.num_rows} in all")
    except Damaged as damage:
        if not skips:
            raise
        return _Footer(path, state, identity, None, None, [1], damage)
    # (pyarrow ends the process if it is asked for an encrypted column's place.)
    if int.from_bytes(tail[:4], "little") == metadata.serialized_size + _SIGNATURE_BYTES:
        raise _refusal(path, "Parquet with encrypted columns, which is not read")
    return _Footer(path, state, identity, metadata, schema, rows, None)


def _row_group(filesystem: Any, footer: _Footer, number: int, wanted: list[str]) -> Any:
    if footer.damage is not None:
        raise footer.damage
    arrow = _arrow()
    row_group = footer.metadata.row_group(number)
    # (A reader keeps what it read ahead, so that each group has one of its own.)
    with filesystem.open_input_file(footer.path) as file:
        _check_state(filesystem, footer.path, footer.state)
        with _damage_told(filesystem, footer.path, f"row group {number}"):
            reader = arrow.parquet.ParquetFile(
                file, metadata=footer.metadata, pre_buffer=True, page_checksum_verification=True
            )
            fitting = row_group.num_rows * _BATCH_BYTES // max(1, row_group.total_byte_size)
            batches = reader.iter_batches(
                max(1, min(_BATCH_ROWS, fitting)), row_groups=[number], columns=wanted or None
            )
            return arrow.Table.from_batches(list(batches))


# Arrow's files and streams.


def _is_stream(filesystem: Any, path: str) -> bool:
    head, _ = _ends_of(filesystem, path)
    if head[:4] in (b"PAR1", b"PARE"):
        raise _refusal(path, "a Parquet file: ringfeed.parquet reads it")
    if head[:4] == b"FEA1":
        raise _refusal(path, "Feather 1, which is not read: write it again by pyarrow.feather")
    if len(head) < 8:
        raise _error("damaged", path, "too short for a stream or a file of Arrow's")
    return bool(head != b"ARROW1\0\0")


def _opened(filesystem: Any, path: str) -> Any:
    """A local file is mapped: what is not compressed stays where it lies."""
    arrow = _arrow()
    if isinstance(filesystem, arrow.fs.LocalFileSystem):
        return arrow.memory_map(path)
    return filesystem.open_input_file(path)


def _options_of(schema: Any, wanted: Sequence[str]) -> Any:
    tops = {name if name in schema.names else name.partition(".")[0] for name in wanted}
    known = [at for at, name in enumerate(schema.names) if name in tops]
    return _arrow().ipc.IpcReadOptions(included_fields=known)


def _stream(filesystem: Any, path: str, wanted: Sequence[str]) -> tuple[str, Any]:
    """The file's identity, and all that it holds."""
    ipc = _arrow().ipc
    with _opened(filesystem, path) as file:
        with _damage_told(filesystem, path, "no stream of Arrow's"):
            schema = ipc.open_stream(file).schema
            file.seek(0)
            table = ipc.open_stream(file, options=_options_of(schema, wanted)).read_all()
            if file.tell() != file.size():
                raise ValueError(f"it ends at byte {file.tell()} of {file.size()}")
        return _identity_of(file), table


class _IpcFile(NamedTuple):
    """What is known of a file: no schema if its footer is damaged."""

    path: str
    state: Any
    identity: str
    schema: Any
    rows: list[int]


def _batches_of(filesystem: Any, path: str, skips: bool) -> _IpcFile:
    """How many rows each batch has a narrow column tells; one if nothing does, and `skips`."""
    ipc = _arrow().ipc
    state = _state_of(filesystem, path)
    passing: Any = contextlib.suppress(Damaged) if skips else contextlib.nullcontext()
    schema, reader, rows = None, None, [1]
    with _opened(filesystem, path) as file:
        identity = _identity_of(file)
        with passing, _damage_told(filesystem, path, "no footer of Arrow's"):
            schema = ipc.open_file(file).schema
            narrow = min(range(len(schema)), key=lambda at: _bits(schema.field(at).type))
            reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=[narrow]))
            rows *= reader.num_record_batches
        for number in range(len(rows) if reader is not None else 0):
            with passing, _damage_told(filesystem, path, f"batch {number}"):
                rows[number] = reader.get_batch(number).num_rows
    return _IpcFile(path, state, identity, schema, rows)


def _bits(kind: Any) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:
        return 1 << 30


def _batch(filesystem: Any, path: str, state: Any, number: int, wanted: Sequence[str]) -> Any:
    arrow = _arrow()
    with _opened(filesystem, path) as file:
        _check_state(filesystem, path, state)
        with _damage_told(filesystem, path, f"batch {number}"):
            schema = arrow.ipc.open_file(file).schema
            reader = arrow.ipc.open_file(file, options=_options_of(schema, wanted))
            return arrow.Table.from_batches([reader.get_batch(number)])
