"""Records of several kinds written and read, streams joined, and pushes by Paddle's names.

    python records.py       # makes its data in a folder that goes away again
"""

import os
import tempfile
import threading

import numpy

import ringfeed


def write_and_read(folder: str) -> None:
    """ringfeed's own records, with their ragged rows."""

    def write(writer: ringfeed.RecordWriter) -> None:
        for row in range(4):
            words = numpy.arange(row + 1, dtype="int64")
            writer.write(ringfeed.build_instance({"words": (words, [[0, row + 1]])}))

    path = os.path.join(folder, "rows.recordio")
    with ringfeed.open_record_writer(path, "recordio") as writer:
        write(writer)
    parser: ringfeed.RecordParser = ringfeed.instance([("words", "int64", [-1], 1)])
    with ringfeed.Loader(path, parse=parser, batch=4) as loader:
        assert next(loader)["words"].lod[0].tolist() == [0, 1, 3, 6, 10]


def part(number: int, content: bytes) -> bytes:
    """A field of a protobuf message, shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def sequence(label: int, steps: list[list[int]]) -> bytes:
    """A tf.SequenceExample, which TensorFlow writes in earnest."""

    def feature(values: list[int]) -> bytes:
        return part(3, part(1, bytes(values)))

    context = part(1, part(1, b"label") + part(2, feature([label])))
    listed = part(2, b"".join(part(1, feature(step)) for step in steps))
    return part(1, context) + part(2, part(1, part(1, b"clicks") + listed))


def read_sequences(folder: str) -> None:
    """Steps of any length: which steps are a row's, and which clicks are a step's."""
    path = os.path.join(folder, "sequences.tfrecord")
    with ringfeed.open_record_writer(path, "tfrecord") as writer:
        writer.write(sequence(1, [[5, 6], [7]]))
        writer.write(sequence(0, [[8]]))
    parser = ringfeed.sequence_example(
        context={"label": ("int64", [])}, sequences={"clicks": ("int64", [-1, -1])}
    )
    with ringfeed.Loader(path, parse=parser, batch=2) as loader:
        clicks = next(loader)["clicks"]
        assert clicks.tolist() == [5, 6, 7, 8]
        assert [level.tolist() for level in clicks.lod] == [[0, 2, 3], [0, 2, 3, 4]]


def read_tables(folder: str) -> None:
    """A chain of CSV files by their columns' names; and a mistake, with its place."""
    path = os.path.join(folder, "points.csv")
    with open(path, "w") as file:
        file.write("y,x\n0,0\n1,1\n4,two\n")
    header, format = ringfeed.csv_columns(path)
    records = ringfeed.open_files(path, format=format)
    points = ringfeed.parse(records, ringfeed.csv({"x": ("int64", [])}, header=header))
    try:
        for _ in ringfeed.batch(points, 2):
            pass
    except ringfeed.Error as error:
        assert (error.code, error.record) == ("damaged", 2) and '"two"' in str(error)


def fifo(folder: str, name: str, content: bytes) -> str:
    """A stream that a thread writes."""
    path = os.path.join(folder, name)
    os.mkfifo(path)

    def write() -> None:
        with open(path, "wb") as stream:
            stream.write(content)

    threading.Thread(target=write, daemon=True).start()
    return path


def join_streams(folder: str) -> None:
    """Whichever has a record is read: by ringfeed's names, and by those of programs."""
    lines = [
        ringfeed.read_as(ringfeed.open_file(fifo(folder, f"lines-{i}", b"1\n2\n")), "lines")
        for i in range(2)
    ]
    number = ringfeed.csv({"n": ("int64", [])})
    (batch,) = next(ringfeed.batch(ringfeed.parse(ringfeed.multiplex(lines), number), 4))
    assert sorted(batch.tolist()) == [1, 1, 2, 2]

    with open(os.path.join(folder, "rows.recordio"), "rb") as file:
        content = file.read()
    streams = [
        ringfeed.create_recordio_reader(ringfeed.open_file(fifo(folder, f"rows-{i}", content)))
        for i in range(2)
    ]
    joined = ringfeed.create_multiplex_reader(streams, on_damage="skip")
    assert len(ringfeed.read_recordio(joined, 100)) == 8


def pushed() -> ringfeed.PyReader:
    """Mini-batches of samples as Paddle has them, by slots that are declared one by one."""
    image, words = ringfeed.data("image", [-1, 2]), ringfeed.data("words", [-1, 1], "int64", 1)
    reader = ringfeed.create_py_reader_by_data(capacity=4, feed_list=[image, words])
    reader.decorate_paddle_reader(lambda: [[([1, 2], [5, 6]), ([3, 4], [7])]])
    return reader


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_and_read(folder)
        read_sequences(folder)
        read_tables(folder)
        join_streams(folder)
    with pushed() as reader:
        reader.start()
        image, words = next(reader)
        assert image.shape == (2, 2) and words.lod[0].tolist() == [0, 2, 3]
    print("rows, sequences, tables, streams and pushes")


if __name__ == "__main__":
    main()
