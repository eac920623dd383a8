"""What ringfeed has for arguments that other loaders (Torch, tf.data, Keras) have names for."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Mapping, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NO_WORKERS = (
    "leave it out: there are no worker processes, threads of this process read and parse (threads=)"
)
_PASSES = "each `for` over a Loader is an epoch, passes= joins several of them without a seam"
_SEED = "seed="
_THREADS = "threads= says how many threads read and parse, 0: one a core"
_RANK = "rank=, which finds torchrun, Open MPI and Slurm by itself"
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
    "epochs": _PASSES,
    "num_epochs": _PASSES,
    "repeat": _PASSES,
    "pin_memory": "leave it out: batches lie in pinned memory; devices= puts them on GPUs",
    "pin_memory_device": "devices=",
    "prefetch": "slots=, the places for batches",
    "prefetch_factor": "slots=, the places for batches",
    "buffer_size": "shuffle=, a number is the records of a window",
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

#: What functions take that make batches of a reader.
BATCHING: Mapping[str, str] = {
    "batch": "size=",
    "batch_size": "size=",
    "drop_last": "drop_remainder=",
    "num_workers": "leave it out: there are no worker processes, open_files takes threads=",
    "collate_fn": "leave it out: rows come as one Array for each field of the parser",
    "prefetch": "slots=, the places for batches",
}

SHUFFLING: Mapping[str, str] = {
    "buffer_size": 'size=, of mode="window"',
    "generator": _SEED,
}

REPEATING: Mapping[str, str] = {name: "passes=" for name in ("count", "epochs", "num_epochs")}


def hints(names: Iterable[str], counterparts: Mapping[str, str]) -> list[str]:
    """What to say instead of each of `names` that another loader has."""
    return [f"{name} → {counterparts[name]}" for name in names if name in counterparts]


def hinting(counterparts: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Makes a function raise a TypeError with ringfeed's counterpart of an argument that it does
    not have, before one that is missing is named."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            found = hints(named, counterparts)
            if found:
                raise TypeError("ringfeed calls it otherwise: " + "; ".join(found))
            return function(*arguments, **named)

        return cast(_Function, checked)

    return decorate
