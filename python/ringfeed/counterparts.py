"""What ringfeed has for arguments that other loaders (Torch, tf.data, Keras) have names for."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any, Callable, Collection, Iterable, Mapping, Optional, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NO_WORKERS = (
    "leave it out: there are no worker processes, threads of this process read and parse (threads=)"
)
_PASSES = "each `for` over a Loader is an epoch, passes= joins several of them without a seam"
_SEED = "seed="
_SLOTS = "slots=, the places for batches"
_WINDOW = "shuffle=, a number is the records of a window"
_THREADS = "threads= says how many threads read and parse, 0: one a core"
_RANK = "rank=, which finds torchrun, Slurm, JAX and others by itself"
_MAP = "map=, a Python function of a whole batch, or a compiled one of each record"
_DECOMPRESSED = "leave it out: compressed files are found by their first bytes"

#: What takes arguments of open_files.
OPENING: Mapping[str, str] = {
    "num_workers": f"leave it out: there are no worker processes, {_THREADS}",
    "num_parallel_calls": _THREADS,
    "num_parallel_reads": "cycle=, how many files are open at a time",
    "cycle_length": "cycle=",
    "block_length": "stripe_bytes=, how much of a file is read in turn",
    "deterministic": "unordered=, the opposite",
    "in_order": "unordered=, the opposite",
    "compression_type": _DECOMPRESSED,
    "generator": _SEED,
    "random_state": _SEED,
}

#: What a Loader takes.
LOADER: Mapping[str, str] = {
    **OPENING,
    "batch_size": "batch=, the rows of a batch over all ranks",
    "drop_last": "drop_remainder=",
    "collate_fn": "leave it out: rows come as one Array for each field that parse= declares, "
    f"ragged ones with their lod; for more there is {_MAP}",
    "epoch": f"{_PASSES}; first_epoch= is the number of the first",
    "epochs": _PASSES,
    "num_epochs": _PASSES,
    "repeat": _PASSES,
    "pin_memory": "leave it out: batches lie in pinned memory; devices= puts them on GPUs",
    "pin_memory_device": "devices=",
    "prefetch": _SLOTS,
    "prefetch_factor": _SLOTS,
    "buffer_size": _WINDOW,
    "shuffle_buffer_size": _WINDOW,
    "reshuffle_each_iteration": "leave it out: each epoch has a shuffle of its own",
    "sampler": "shuffle= for the order, filter= for what is left out",
    "batch_sampler": "shuffle= for the order, filter= for what is left out",
    "transform": _MAP,
    "map_func": _MAP,
    "worker_init_fn": _NO_WORKERS,
    "persistent_workers": _NO_WORKERS,
    "multiprocessing_context": _NO_WORKERS,
    "num_replicas": _RANK,
    "world_size": _RANK,
    "num_shards": _RANK,
    "shard_id": _RANK,
}

#: What Loader.from_reader does not take, since the chain that it reads has it already.
FROM_READER: Mapping[str, str] = {
    name: f"the chain has it: by ringfeed.{name}(reader, …)"
    for name in ("batch", "filter", "parse", "shuffle")
}

#: What functions take that make batches of a reader.
BATCHING: Mapping[str, str] = {
    "batch": "size=",
    "batch_size": "size=",
    "drop_last": "drop_remainder=",
    "num_workers": "leave it out: there are no worker processes, open_files takes threads=",
    "collate_fn": "leave it out: rows come as one Array for each field of the parser",
    "prefetch": _SLOTS,
}

#: The same if the size of a batch is not a number of rows.
TOKEN_BATCHING: Mapping[str, str] = {
    "batch_size": "tokens= or bytes=, what a batch holds at the most, or most_rows=",
    "prefetch": _SLOTS,
}

PACKING: Mapping[str, str] = {
    "batch": "rows=",
    "batch_size": "rows=",
    "drop_last": "drop_remainder=",
    "prefetch": _SLOTS,
}

SHUFFLING: Mapping[str, str] = {
    "buffer_size": 'size=, of mode="window"',
    "generator": _SEED,
}

REPEATING: Mapping[str, str] = {name: "passes=" for name in ("count", "epochs", "num_epochs")}


def refuse_unknown(
    names: Iterable[str], options: Collection[str], counterparts: Mapping[str, str]
) -> None:
    """Raises TypeError for those of `names` that are none of `options`, with what ringfeed has
    instead of another loader's, and with the nearest option if it is a slip of that."""
    unknown = sorted(set(names) - set(options))
    if not unknown:
        return
    hints = [f"{name} → {counterparts[name]}" for name in unknown if name in counterparts]
    slips = [name for name in unknown if name not in counterparts]
    if not slips:
        raise TypeError("ringfeed calls it otherwise: " + "; ".join(hints))
    remedies = [f"no such option: {_with_nearest(slips, options)}", *hints]
    raise TypeError(f"{'; '.join(remedies)}; there are {', '.join(sorted(options))}")


def _with_nearest(names: Iterable[str], options: Collection[str]) -> str:
    """ "colour, shuffel (did you mean shuffle?)": a strange name has no nearest."""
    described = []
    for name in names:
        nearest = difflib.get_close_matches(name.lower(), sorted(options), 1, 0.7)
        described.append(name + "".join(f" (did you mean {option}?)" for option in nearest))
    return ", ".join(described)


def hinting(
    counterparts: Mapping[str, str], options: Optional[type] = None
) -> Callable[[_Function], _Function]:
    """Makes a function refuse arguments that it does not have, as refuse_unknown does, before one
    that is missing is named. `options` is the TypedDict of those that it takes by ``**options``:
    the function's signature, and so help() and editors, show each of them."""

    def decorate(function: _Function) -> _Function:
        kinds = inspect.Parameter
        signature = inspect.signature(function)
        shown = [each for each in signature.parameters.values() if each.kind != kinds.VAR_KEYWORD]
        for name, kind in getattr(options, "__annotations__", {}).items():
            annotation = getattr(kind, "__forward_arg__", kind)
            shown.append(kinds(name, kinds.KEYWORD_ONLY, default=None, annotation=annotation))
        known = {each.name for each in shown} - {"self", "cls"}

        @functools.wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            if not known.issuperset(named):
                refuse_unknown(named, known, counterparts)
            return function(*arguments, **named)

        checked.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return cast(_Function, checked)

    return decorate
