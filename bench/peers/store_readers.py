"""Who reads objects of a store by TLS into host memory: the environment variable STORE_READER says
which one of READERS. A measurement is one pass by a process that has read nothing before."""

import os
import pathlib
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, Mapping

from contestant import digested
from cpu_clock import cpu_seconds
from data_sets import IMAGES, SAMPLE_BYTES, SAMPLES, WORKS, Work

READER = os.environ["STORE_READER"]
STORE = os.environ.get("AWS_ENDPOINT_URL_S3", "")
CHUNK_BYTES = 1 << 20

Batches = Iterator[Mapping[str, Any]]

if READER in ("boto3", "boto3_ranges"):
    import boto3
    import torch
    from torch.utils.data import DataLoader, Dataset, RandomSampler
elif READER == "s3torchconnector":
    from s3torchconnector import S3ClientConfig, S3IterableDataset
elif READER == "mosaicml":
    import mosaicml_shards
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader
elif READER == "litdata":
    import litdata_chunks
    from litdata import StreamingDataLoader, StreamingDataset as LitDataset
    from litdata.streaming.resolver import Dir
else:
    import litdata_chunks
    import mosaicml_shards
    import ringfeed_loader


def by_boto3(data: pathlib.Path) -> Iterator[bytes]:
    """The bytes of the images' files, one after the other."""
    client = boto3.client("s3")
    for file in IMAGES.files(data):
        answer = client.get_object(Bucket=IMAGES.name, Key=pathlib.Path(file).name)
        yield from answer["Body"].iter_chunks(CHUNK_BYTES)


def by_boto3_ranges(data: pathlib.Path) -> Batches:
    """Samples in a random order, each by a GET of its range, as a data set of Torch."""
    class Samples(Dataset):
        """The rows of the samples' files, all of which have as many."""

        def __init__(self) -> None:
            self.client = boto3.client("s3")
            self.files = [pathlib.Path(file).name for file in SAMPLES.files(data)]

        def __len__(self) -> int:
            return SAMPLES.records

        def __getitem__(self, row: int) -> Mapping[str, Any]:
            file, number = divmod(row, SAMPLES.records // len(self.files))
            begin = number * SAMPLE_BYTES
            answer = self.client.get_object(Bucket=SAMPLES.name, Key=self.files[file],
                                            Range=f"bytes={begin}-{begin + SAMPLE_BYTES - 1}")
            sample = bytearray(answer["Body"].read())
            return {"value": torch.frombuffer(sample, dtype=torch.uint8)}

    rows = Samples()
    return iter(DataLoader(rows, batch_size=SAMPLES.batch, sampler=RandomSampler(rows)))


def by_s3torchconnector(data: pathlib.Path) -> Iterator[bytes]:
    """The same by the AWS runtime in C."""
    names = [f"s3://{IMAGES.name}/{pathlib.Path(file).name}" for file in IMAGES.files(data)]
    config = S3ClientConfig(force_path_style=True)
    for reader in S3IterableDataset.from_objects(names, region="us-east-1", endpoint=STORE,
                                                 s3client_config=config):
        while chunk := reader.read(CHUNK_BYTES):
            yield chunk


def by_mosaicml(data: pathlib.Path) -> Batches:
    """The batches of the images in its shards, which it downloads and keeps."""
    name = mosaicml_shards.shards(IMAGES, data).name
    with tempfile.TemporaryDirectory() as local:
        rows = StreamingDataset(remote=f"s3://{name}", local=local, batch_size=IMAGES.batch,
                                shuffle=False, num_canonical_nodes=1)
        yield from DataLoader(rows, batch_size=IMAGES.batch)


def by_litdata(data: pathlib.Path) -> Batches:
    """The same of its chunks."""
    name = litdata_chunks.chunks(IMAGES, data).name
    with tempfile.TemporaryDirectory() as local:
        rows = LitDataset(Dir(path=local, url=f"s3://{name}"), shuffle=False, drop_last=False,
                          storage_options={"endpoint_url": STORE})
        yield from StreamingDataLoader(rows, batch_size=IMAGES.batch, num_workers=0)


def by_ringfeed(data: pathlib.Path) -> Batches:
    """Batches of the objects that STORE_WORK or RINGFEED_FILES says: the files of the images or
    the samples, or a peer's of the images."""
    work = WORKS[os.environ.get("STORE_WORK", IMAGES.name)]
    paths = map(pathlib.Path, ringfeed_loader.files(work, data))
    names = [f"s3://{path.parent.name}/{path.name}" if path.is_file() else f"s3://{path.name}/"
             for path in paths]
    return ringfeed_loader.tensors(ringfeed_loader.loader_of(names, work, True))


READERS: Dict[str, Callable[[pathlib.Path], Iterator[Any]]] = {
    "boto3": by_boto3, "boto3_ranges": by_boto3_ranges, "s3torchconnector": by_s3torchconnector, "mosaicml": by_mosaicml,
    "litdata": by_litdata, "ringfeed": by_ringfeed}
OF_BYTES = (by_boto3, by_s3torchconnector)


def measured(work: Work, data: pathlib.Path, _: float) -> Dict[str, Any]:
    """CPU seconds of one pass, from making the client to the last byte."""
    read = READERS[READER]
    cpu, wall, count = cpu_seconds(), time.perf_counter(), 0
    for batch in read(data):
        if read not in OF_BYTES:
            count += len(next(iter(batch.values())))
    wall_s, cpu_s = time.perf_counter() - wall, cpu_seconds() - cpu
    rows = work.records if read in OF_BYTES else count
    return {"rows": rows, "bytes": rows * work.row_bytes, "wall_s": wall_s, "cpu_s": cpu_s}


def digest(work: Work, data: pathlib.Path) -> Dict[str, Any]:
    """Of the rows of a pass. Who delivers bytes is compared with the files."""
    read = READERS[READER]
    if read not in OF_BYTES:
        return digested(read(data))
    chunks, right = read(data), True
    for name in IMAGES.files(data):
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            while right and file.tell() < size:
                chunk = next(chunks, b"")
                right = chunk != b"" and file.read(len(chunk)) == bytes(chunk)
    return {"verified": right and not any(chunks), "rows": work.records}
