"""Batches that are planned from the records' lengths: shares, which a step has so many of, and the
ranks that split a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Sequence, Union

from .arguments import counted, integers, text
from .ranks import Rank


class Balance(NamedTuple):
    """Splits a step so that all ranks have as much work.

    Attributes:
        linear, square: a record of u units costs linear * u + square * u * u: (24576, 1) is a
            transformer of 7 billion parameters.
        alike: shares are exchanged among so many steps, so that those of a step cost alike: for
            ranks with one row each. Of so many steps, records of one length come together.
    """

    linear: int = 1
    square: int = 0
    alike: int = 1


def is_best(fit: str) -> bool:
    """Whether that fit is best fit. ValueError if there is no such fit."""
    if fit not in ("first", "best"):
        raise ValueError(f'fit is "first" or "best", not {fit!r}')
    return fit == "best"


@dataclass(frozen=True)
class Steps:
    """How ranks share a step of planned batches, and what is done with a rest.

    Attributes:
        rest: of a pass's shares (packed rows, token batches, rows of buckets) that fill no step:
            "short", a smaller step; "drop", none; "pad", a step that is filled up: every batch has
            all its rows, and a last field "mask" that is 0 for those without a record; "repeat", a
            step that is filled up with the first shares of the epoch again, whose "mask" is 0.
        balance: a Balance, or its numbers: all ranks get as much work. None: shares that follow
            each other.
        rank_weights: how many shares each rank gets, in proportion; (): as many.
        seed: of the order of shares by best fit, and of steps that are alike.
        lengths: if a function makes the field, the name under which its lengths are kept. Give it
            another one after the function changed.
    """

    rest: str = "short"
    balance: Union[Balance, Sequence[int], None] = None
    rank_weights: Sequence[int] = ()
    seed: int = 0
    lengths: str = ""

    def as_tuple(self, rank: Optional[Rank]) -> tuple[Any, ...]:
        """What the kernel takes, for this rank."""
        if self.rest not in ("short", "drop", "pad", "repeat"):
            raise ValueError(f'rest is "short", "drop", "pad" or "repeat", not {self.rest!r}')
        several = rank is not None and rank.world_size > 1
        own = rank if several else None
        balance = None
        if self.balance is not None:
            costs = Balance(*integers(self.balance, "balance"))
            balance = tuple(counted(number, "a number of balance") for number in costs)
        weights = [counted(weight, "a weight") for weight in self.rank_weights]
        lengths = text(self.lengths, "lengths")
        return (own, weights, balance, self.rest, counted(self.seed, "seed"), lengths)


@dataclass(frozen=True)
class Pack:
    """Packed rows, for `batch=` of a Loader: `rows` of them are a batch of all ranks together. The
    arguments are those of ringfeed.pack, but for fit="best", and those of Steps; the Loader has
    rank, seed and slots."""

    field: str
    length: int
    rows: int
    fit: str = "best"
    multiple: int = 1
    most_records: int = 0
    segment: int = 0
    pad_value: float = 0
    rest: str = "short"
    balance: Union[Balance, Sequence[int], None] = None
    rank_weights: Sequence[int] = ()
    lengths: str = ""


@dataclass(frozen=True)
class TokenBatch:
    """Token batches, for `batch=` of a Loader: `shares` of them are a step of all ranks together.
    The arguments are those of ringfeed.token_batch, but for fit="best", and those of Steps."""

    field: str
    tokens: int
    shares: int = 1
    most_rows: int = 1024
    fit: str = "best"
    padded: bool = False
    segment: int = 0
    rest: str = "short"
    balance: Union[Balance, Sequence[int], None] = None
    lengths: str = ""


@dataclass(frozen=True)
class BucketBatch:
    """Batches of rows that are alike in length, for `batch=` of a Loader: `size` rows are of all
    ranks together. The arguments are those of ringfeed.bucket_batch and those of Steps."""

    size: int
    field: str
    bounds: Sequence[int]
    segment: int = 0
    rest: str = "short"
    balance: Union[Balance, Sequence[int], None] = None
    rank_weights: Sequence[int] = ()
    lengths: str = ""


@dataclass(frozen=True)
class Batch:
    """`size` rows, for `batch=` of a Loader, of which ranks get some by weights, or, by the units
    of a ragged `field`, as much work. The arguments are those of ringfeed.batch and those of
    Steps."""

    size: int
    field: str = ""
    rest: str = "short"
    balance: Union[Balance, Sequence[int], None] = None
    rank_weights: Sequence[int] = ()
    lengths: str = ""


#: What `batch=` of a Loader takes beside a number of rows.
PlannedBatch = Union[Pack, TokenBatch, BucketBatch, Batch]
PLANNED = (Pack, TokenBatch, BucketBatch, Batch)
