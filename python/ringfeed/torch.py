"""Batches as Torch's tensors, for a loop of Torch's. Needs Torch; `import ringfeed.torch`."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, NoReturn

import torch
import torch.distributed
import torch.utils.data
import torch.utils.dlpack

from . import ranks, trainers
from ._core import Array
from .collation import refuse_collation
from .devices import StageCall
from .loader import EpochLoop, Loader
from .ranks import Rank

_HOST = 1  # kDLCPU
_CUDA = 2  # kDLCUDA
_DEFAULT_STREAM = 1  # as DLPack numbers CUDA's default stream; Torch calls it 0
_ARRAY = "_ringfeed_array"  # of a tensor in a device's memory: what record_stream uses
_MOST_WRAPPERS = 8
_ONE_PROCESS = (
    "a Loader is live (threads, memory, open files) and works in the process that made it alone: "
    "use num_workers=0; its threads read and parse ahead without worker processes"
)


def find_rank() -> Rank:
    """The rank in torch.distributed or jax.distributed if one is initialised, whatever a launcher
    left, else what the launcher left. It is what rank="auto" of a Loader finds.

    Raises:
        InvalidArgument: if nothing is initialised, and a launcher's variables contradict each
            other.
    """
    return ranks.own_rank()


def rank_of(mesh: Any) -> Rank:
    """The rank in a device mesh of one dimension, for `rank=` of a Loader: `rank_of(mesh["dp"])`
    gives all ranks of a tensor- or pipeline-parallel group the same data.

    Raises:
        ValueError: the mesh has several dimensions; name that of the data.
    """
    if mesh.ndim != 1:
        raise ValueError(
            f"a mesh of {mesh.ndim} dimensions: name that of the data, as mesh['dp']"
        )
    own = ranks.own_rank()
    # The ranks of a mesh's dimension are as far from each other.
    size, step = mesh.size(), 1
    if size > 1:
        step = int(mesh.mesh[1]) - int(mesh.mesh[0])
    return own._replace(
        rank=mesh.get_local_rank(),
        world_size=size,
        source="a device mesh of Torch",
        replica=own.rank % step + own.rank // (step * size) * step,
        replicas=own.world_size // size,
    )


def tensors(batch: Any, ragged: str = "offsets") -> Any:
    """A batch's Arrays as tensors that share their memory, on the device where they lie.

    Args:
        batch: an Array, or a dict, tuple or list of them; anything else is left as it is.
        ragged: what becomes of a ragged field. "offsets": a tuple (values, offsets), offsets int64
            [rows + 1]; of nested sequences one for each level, the top one first. "nested": a
            jagged torch.nested tensor of the same memory; its field has one level.

    Raises:
        ValueError: `ragged` is neither, or a field of several levels cannot be nested.
    """
    if isinstance(batch, dict):
        return {name: tensors(value, ragged) for name, value in batch.items()}
    if type(batch) in (tuple, list):
        return type(batch)(tensors(value, ragged) for value in batch)
    if not isinstance(batch, Array):
        return batch
    values = _tensor(batch)
    top = batch.offsets
    if top is None:
        return values
    offsets = [_tensor(level) for level in (top, *batch.lod[1:])]
    if _known(ragged) == "offsets":
        return (values, *offsets)
    if len(offsets) > 1:
        raise ValueError('a field of several levels cannot be nested: take ragged="offsets"')
    return torch.nested.nested_tensor_from_jagged(values, offsets[0])


def record_stream(batch: Any, stream: Any) -> None:
    """Lets `stream` be used for work on a batch: it waits for the batch, and the batch's memory is
    written again only after what is enqueued on it before the batch's last Array and tensor goes.

    Torch's own Tensor.record_stream does nothing for these tensors, without a word: their memory is
    not of Torch's allocator. The stream that is current in `tensors` needs no call.

    Args:
        batch: what `tensors` gave, views of that, or Arrays; also a dict, tuple or list of them.
            What is in host memory, or is neither, is left as it is.
        stream: a torch.cuda.Stream; it must live until then.

    Raises:
        ValueError: a tensor in a device's memory that is not from `tensors`, nor a view of one.
        BufferError: the stream cannot be used, of another device say.
    """
    if isinstance(batch, dict):
        batch = list(batch.values())
    if type(batch) in (tuple, list):
        for value in batch:
            record_stream(value, stream)
    elif isinstance(batch, Array):
        if batch.__dlpack_device__()[0] == _CUDA:
            batch.on(stream.cuda_stream or _DEFAULT_STREAM)
    elif isinstance(batch, torch.Tensor) and batch.is_cuda:
        record_stream(_array_of(batch), stream)


def stage_stream(call: StageCall) -> Any:
    """For the function of a `Stage`: Torch's work in its `with` goes to the call's stream. On
    emulated devices, which have none, it is done on the host."""
    if call.stream is None:
        return contextlib.nullcontext()
    # Torch and ringfeed number GPUs alike.
    return torch.cuda.stream(torch.cuda.ExternalStream(call.stream, device=call.device))


def slot_memory() -> tuple[Callable[[int, int, int], int], Callable[[int, int, int, int], None]]:
    """For `memory=` of a DevicePlan: slots in memory of Torch's caching allocator, which Torch
    counts, and takes back from its cache if it lacks some. Torch and ringfeed number GPUs alike."""

    def allocate(device: int, size: int, stream: int) -> int:
        return int(torch.cuda.caching_allocator_alloc(size, device, stream))

    def free(device: int, address: int, size: int, stream: int) -> None:
        torch.cuda.caching_allocator_delete(address)

    return allocate, free


def _array_of(tensor: torch.Tensor) -> Array:
    base = tensor if tensor._base is None else tensor._base
    array = getattr(base, _ARRAY, None)
    if not isinstance(array, Array):
        raise ValueError(
            "this tensor does not come from ringfeed.torch.tensors: give its batch's Arrays, or, "
            "if Torch made it, call its own record_stream"
        )
    return array


def _tensor(array: Array) -> torch.Tensor:
    if array.__dlpack_device__()[0] == _HOST:
        # What torch.from_dlpack finds out for any object, which costs as much again.
        return torch.utils.dlpack.from_dlpack(array.__dlpack__())
    tensor = torch.from_dlpack(array)  # by the stream that is current there
    setattr(tensor, _ARRAY, array)
    return tensor


def _known(ragged: str) -> str:
    if ragged not in ("offsets", "nested"):
        raise ValueError(f'ragged is "offsets" or "nested", not {ragged!r}')
    return ragged


class _NoLength(AttributeError, TypeError):
    """For hasattr(dataset, "__len__"), and for len(dataset)."""


class IterableDataset(torch.utils.data.IterableDataset):  # type: ignore[misc,unused-ignore]
    """A Loader as a data set of Torch's, whose items are whole batches of tensors.

    Give it to `DataLoader(dataset, batch_size=None)` or to torchdata's
    `StatefulDataLoader(dataset, batch_size=None)`, with num_workers=0, the default. Nothing is
    copied: a batch's memory is its tensors', and goes back to the Loader with the last of them.
    Epochs are the Loader's: each `iter` starts one, unless no batch of it was taken yet.

    Who divides batches among processes itself (Accelerate's prepare) needs a Loader with rank=None.

    Args:
        loader: gives the batches. Its rank is its own; see find_rank.
        ragged: what becomes of ragged fields, see `tensors`.

    Raises:
        ValueError: `ragged` is nothing that there is; from the loop: batch_size is not None, and
            there is no collate_fn that takes a list of batches; the Loader gives a rank's part, and
            Accelerate would divide that again; skip_first_batches would leave out others than those
            that came before a stop.
        RuntimeError: from the loop or by pickling: num_workers is not 0.
    """

    def __init__(self, loader: Loader, ragged: str = "offsets") -> None:
        super().__init__()
        self.loader = loader
        self.ragged = _known(ragged)

    def __iter__(self) -> Iterator[Any]:
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError(_ONE_PROCESS)
        callers = list(ranks.callers())
        fetcher = _fetcher_of(callers[:_MOST_WRAPPERS])
        refuse_collation(fetcher, getattr(torch.utils.data, "default_collate", None))
        divider = ranks.divider_of(callers)
        ranks.refuse_division(self.loader.rank, divider)
        if divider is None:
            ranks.refuse_alone(self.loader.rank)
        self.loader._start_epoch()
        trainers.refuse_skipping(self.loader, callers)
        return trainers.noted(self.loader, self.rest(), callers)

    def rest(self) -> Iterator[Any]:
        """What is left of the Loader's epoch, see Loader.rest."""
        self.loader._held_back = None
        return EpochLoop(self.loader, lambda batch: tensors(batch, self.ragged))

    @property
    def __len__(self) -> Callable[[], int]:  # type: ignore[override,unused-ignore]
        """The Loader's length. Without one it is as if there were no such method: Keras looks for
        the method, and others call it."""
        try:
            length = len(self.loader)
        except TypeError as error:
            raise _NoLength(str(error)) from error
        return lambda: length

    def state_dict(self) -> dict[str, Any]:
        """The Loader's: after the last batch that the loop got."""
        if trainers.is_saved_in_time(list(ranks.callers())):
            return self.loader._state()
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on there, see Loader.load_state_dict."""
        self.loader.load_state_dict(state)

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(_ONE_PROCESS)


def _fetcher_of(callers: list[Any]) -> Any:
    """The DataLoader's fetcher that asks for an iterator, None if none does. A DataLoader tells
    a data set nothing of itself, so it is looked for among the callers; between it and the data set
    are those that Torch's ChainDataset and data sets of the program's own put there."""
    return next((caller for caller in callers if hasattr(caller, "auto_collation")), None)
