"""Which of several processes this one is, and who else divides the batches among them."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Union

from . import _core
from .errors import InvalidArgument, Unsupported

_MOST_CALLERS = 24

#: What takes a data set for all of the data and gives each process a part, by the name of its
#: class: who makes it, and the attributes that lead to the number of processes.
_DIVIDERS = {
    "DataLoaderDispatcher": ("Accelerate", "state.num_processes"),
    "IterableDatasetShard": ("Accelerate", "num_processes"),
    "ShardingFilterIterDataPipe": ("sharding_filter", "num_of_instances"),
}


class Rank(NamedTuple):
    """Which of several like processes this one is.

    Attributes:
        local_rank: on this machine; -1: not known.
        local_world_size: 0: not known.
        replica: among the `replicas` that get the same data (data_rank), from 0.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    source: str = "none"
    replica: int = 0
    replicas: int = 1


class Divider(NamedTuple):
    """Who divides what it reads, and among how many processes."""

    name: str
    processes: int


def find_rank() -> Rank:
    """The rank that a launcher left in the environment (torchrun, Open MPI, Slurm, Kubernetes, …).

    Raises:
        InvalidArgument: if its variables contradict each other; it names them.
    """
    return Rank(*_core.find_rank())


def own_rank() -> Rank:
    """The rank in torch.distributed or jax.distributed if the program has started one, else what
    the launcher left."""
    group = _process_group()
    if group is None:
        return find_rank()
    launched: Optional[Rank] = None
    try:
        launched = find_rank()
    except InvalidArgument:
        pass  # the group knows better
    if launched is not None and launched[:2] == group[:2]:
        return launched
    return group


def data_rank(
    tensor: int = 1,
    context: int = 1,
    pipeline: int = 1,
    order: str = "tp-cp-dp-pp",
    rank: Optional[Rank] = None,
) -> Rank:
    """The rank among those that get different data, for `rank=`: all ranks that share a tensor, a
    context or a pipeline group have the same.

    Args:
        tensor: ranks that split each layer.
        context: ranks that split the sequences.
        pipeline: ranks that split the layers.
        order: the groups, "dp" for the data, the one whose ranks follow each other first: that of
            Megatron-LM is the default. In a device mesh of Torch the last dimension comes first;
            `ringfeed.torch.rank_of` takes a mesh.
        rank: of all ranks; None: this process's (as rank="auto").

    Raises:
        InvalidArgument: the groups do not divide the number of ranks, or `order` lacks one.
    """
    of_all = own_rank() if rank is None else rank
    return Rank(*_core.data_rank(of_all, tensor, context, pipeline, order))


def rank_of(rank: Union[Rank, str, None]) -> Optional[Rank]:
    """The rank that an argument stands for: "auto", a Rank or None."""
    if rank == "auto":
        return own_rank()
    if rank is None or isinstance(rank, Rank):
        return rank
    raise TypeError('rank is "auto", a Rank or None')


def refuse_parts(rank: Union[Rank, str, None], function: str) -> None:
    """Raises Unsupported if there are several processes: `function` has no parts for them, and each
    would get everything."""
    found = rank_of(rank)
    if found is None or found.world_size == 1:
        return
    raise Unsupported(
        f"this is rank {found.rank} of {found.world_size} (by {found.source}), and {function} "
        "cannot divide its batches among ranks: each would get everything. If that is meant, or "
        "the data are divided already, say rank=None"
    )


def _process_group() -> Optional[Rank]:
    """The rank in torch.distributed, or in jax.distributed; None if neither has begun. Imports
    nothing."""
    torchs: Any = sys.modules.get("torch.distributed")
    jax: Any = sys.modules.get("jax")
    if _has_begun(torchs):
        return Rank(torchs.get_rank(), torchs.get_world_size(), -1, 0, "torch.distributed")
    if _has_begun(getattr(jax, "distributed", None)):
        return Rank(jax.process_index(), jax.process_count(), -1, 0, "jax.distributed")
    return None


def _has_begun(distributed: Any) -> bool:
    # A module that is being imported, is older, or was built without it, has no such function.
    is_initialized = getattr(distributed, "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())


def refuse_alone(rank: Optional[Rank]) -> None:
    """Raises InvalidArgument if a Loader found itself alone, and torch.distributed or
    jax.distributed has started several processes since: each would read everything."""
    group = _process_group()
    if rank is None or rank.source != "none" or rank.world_size > 1:
        return
    if group is None or group.world_size == 1:
        return
    raise InvalidArgument(
        f"this Loader was made before {group.source} started its {group.world_size} processes, and "
        "found itself alone: make it after that (with Lightning in train_dataloader()), or say "
        "rank=ringfeed.Rank(…); rank=None: each process reads everything"
    )


def divider_of(callers: Iterable[Any]) -> Optional[Divider]:
    """Who of these divides what it reads among several processes."""
    for caller in callers:
        for kind in type(caller).__mro__:
            name, path = _DIVIDERS.get(kind.__name__, ("", ""))
            number: Any = caller
            for attribute in path.split("."):
                number = getattr(number, attribute, None)
            if name and type(number) is int and number > 1:
                return Divider(name, number)
    return None


def refuse_division(rank: Optional[Rank], divider: Optional[Divider]) -> None:
    """Raises InvalidArgument if the Loader's batches are this rank's part already."""
    if divider is None or rank is None or rank.world_size == 1:
        return
    remedy = "leave it out"
    if divider.name == "Accelerate":
        remedy = "leave its DataLoader out of accelerator.prepare()"
    raise InvalidArgument(
        f"{divider.name} divides the batches among {divider.processes} processes, and this Loader "
        f"gives the part of rank {rank.rank} of {rank.world_size} already, so most rows would be "
        f"lost: {remedy}, or say rank=None to the Loader"
    )


def callers() -> Iterator[Any]:
    """The objects whose methods are under way, the innermost first, but for this package's."""
    frame: Optional[FrameType] = sys._getframe(2)
    for _ in range(_MOST_CALLERS):
        if frame is None:
            return
        if "self" in frame.f_code.co_varnames:
            yield frame.f_locals.get("self")
        frame = frame.f_back
