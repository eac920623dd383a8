"""Records by their numbers, and which records a batch has."""

import multiprocessing
import pickle
import threading

import numpy
import pytest

import ringfeed


@pytest.fixture
def files(tmp_path):
    """Two files of 20 records: record n has n + 1 tokens, all n."""
    names = []
    for part in range(2):
        name = str(tmp_path / f"part-{part}.tfrecord")
        with ringfeed.open_record_writer(name, "tfrecord") as writer:
            for n in range(20 * part, 20 * part + 20):
                tokens = numpy.full(n + 1, n, dtype=numpy.int64)
                writer.write(ringfeed.build_example({"tokens": tokens, "id": [n]}))
        names.append(name)
    return names


def parser():
    return ringfeed.example({"id": ("int64", []), "tokens": ("int64", [-1])})


def test_a_record_is_had_by_its_number(files):
    records = ringfeed.Records(files, parse=parser())
    assert len(records) == 40
    assert records.names == ("id", "tokens")
    for n in (0, 17, 39, -1):
        record = records[n]
        number = n % 40
        assert int(numpy.asarray(record["id"])) == number
        assert numpy.asarray(record["tokens"]).tolist() == [number] * (number + 1)
    for beyond in (40, -41):
        with pytest.raises(IndexError):
            records[beyond]
    assert [int(numpy.asarray(record["id"])) for record in records] == list(range(40))


def test_several_are_a_batch_in_their_order(files):
    records = ringfeed.Records(files, parse=parser())
    batch = records[[5, 1, 30]]
    assert numpy.asarray(batch["id"]).tolist() == [5, 1, 30]
    assert batch["tokens"].offsets.tolist() == [0, 6, 8, 39]
    assert numpy.asarray(records[38:]["id"]).tolist() == [38, 39]
    with pytest.raises(ValueError, match="no records"):
        records[[]]


def test_what_files_tell_is_parsed_and_bytes_are_had_too(files):
    told = ringfeed.Records(files[0])
    assert set(told.names) == {"id", "tokens"}
    plain = ringfeed.Records(files[0], parse=None)
    assert plain.names == ("bytes",)
    assert len(plain[3]["bytes"]) > 4


def test_damage_is_raised_with_its_place(files):
    with open(files[1], "r+b") as file:
        file.seek(20)
        file.write(b"\xff\xff")
    records = ringfeed.Records(files, parse=parser())
    with pytest.raises(ringfeed.Damaged, match="part-1.*record 0"):
        records[20]
    assert int(numpy.asarray(records[21]["id"])) == 21


def test_threads_a_child_and_a_pickle_read_the_same(files):
    records = ringfeed.Records(files)
    wrong = []

    def read(table):
        for n in range(40):
            if int(numpy.asarray(table[n]["id"])) != n:
                wrong.append(n)

    threads = [threading.Thread(target=read, args=(records,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read(pickle.loads(pickle.dumps(records)))
    assert not wrong
    child = multiprocessing.get_context("fork").Process(target=read_all, args=(records,))
    child.start()
    child.join()
    assert child.exitcode == 0


def read_all(records):
    assert [int(numpy.asarray(records[n]["id"])) for n in range(40)] == list(range(40))


def test_records_of_a_parser_of_ones_own_raise_what_it_raises(files):
    class Ids(ringfeed.Parser):
        fields = {"id": ("int64", [])}

        def parse(self, row):
            if len(row) > 60:
                raise KeyError("too long")
            return {"id": len(row)}

    records = ringfeed.Records(files, parse=Ids())
    assert int(numpy.asarray(records[0]["id"])) > 0
    with pytest.raises(KeyError, match="too long"):
        records[39]


def test_a_loader_tells_which_records_a_batch_has(files):
    def loader(**options):
        return ringfeed.Loader(
            files, parse=parser(), batch=8, shuffle="global", seed=3, rank=None, **options
        )

    told = loader()
    for number, batch in enumerate(loader()):
        which = told.which(number)
        assert [place.number for place in which] == numpy.asarray(batch["id"]).tolist()
        assert [place.row for place in which] == list(range(8))
        for place in which:
            assert place.file == files[place.number // 20]
            assert place.record == place.number % 20
            assert int(numpy.asarray(told.record(place.number)["id"])) == place.number
    with pytest.raises(ringfeed.Error, match="no batch 5"):
        told.which(5)
    with pytest.raises(ringfeed.errors.InvalidArgument, match="no record number 40"):
        told.record(40)
    filtered = loader(filter=lambda record: True)
    with pytest.raises(ringfeed.errors.Unsupported, match="depend on what is in"):
        filtered.which(0)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_each_rank_tells_its_records_of_planned_batches(files, rank):
    def loader():
        return ringfeed.Loader(
            files,
            parse=ringfeed.example({"tokens": ("int64", [-1])}),
            batch=ringfeed.Pack("tokens", length=64, rows=5),
            shuffle="global",
            rank=ringfeed.Rank(rank, 3),
        )

    told = loader()
    for number, batch in enumerate(loader()):
        rows = numpy.asarray(batch["tokens"])
        segments = numpy.asarray(batch["tokens_segments"])
        found = [[] for _ in rows]
        for place in told.which(number):
            assert place.units == place.number + 1
            found[place.row].append(place.number)
        for row, of_row, numbers in zip(rows, segments, found):
            firsts = [int(row[of_row == k + 1][0]) for k in range(int(of_row.max()))]
            assert firsts == numbers


def test_torch_takes_records_with_workers(files):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    records = ringfeed.Records(files, parse=ringfeed.example({"id": ("int64", [])}))
    for workers in (0, 2):
        got = DataLoader(
            records, batch_size=8, shuffle=True, num_workers=workers, collate_fn=ids_of
        )
        assert sorted(n for ids in got for n in ids) == list(range(40))
    assert torch is not None


def ids_of(rows):
    return [int(numpy.asarray(row["id"])) for row in rows]
