"""torchvision: JPEGs out of tar files, decoded, resized and cropped in Torch's DataLoader.

The environment variable LOADER_WORKERS says how many worker processes there are (0)."""

import pathlib
from typing import Dict, Iterator, List, Tuple

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.io import decode_jpeg
from torchvision.transforms import v2

from contestant import passes, workers
from data_sets import CROP, SHORTER_SIDE, Work, members


class Images(Dataset):
    """The images by number, each with its number."""

    def __init__(self, files: List[str]) -> None:
        self._places = sorted((number, file, offset, size) for file in files
                              for number, offset, size in members(file))
        self._files = {file: open(file, "rb", buffering=0) for file in files}
        self._resize = v2.Compose([v2.Resize(SHORTER_SIDE, antialias=True), v2.CenterCrop(CROP)])

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Tuple[int, torch.Tensor]:
        number, file, offset, size = self._places[index]
        source = self._files[file]
        source.seek(offset)
        content = torch.frombuffer(bytearray(source.read(size)), dtype=torch.uint8)
        return number, self._resize(decode_jpeg(content)).permute(1, 2, 0)


def stream(work: Work, data: pathlib.Path, once: bool) -> Iterator[Dict[str, torch.Tensor]]:
    """Batches in the order of the numbers."""
    loader = DataLoader(Images(work.files(data)), batch_size=work.batch, num_workers=workers(),
                        persistent_workers=workers() > 0)
    return ({"cls": cls, "jpg": image} for cls, image in passes(loader, once))


STREAMS = {"jpegs": stream}
