"""Batches by content that are planned from lengths: packed rows, token batches and buckets over
ranks."""

import numpy
import pytest
import ringfeed

LENGTHS = [1 + (7 * i) % 29 for i in range(300)]


@pytest.fixture(name="files")
def _files(tmp_path):
    """Three files; record i has LENGTHS[i] tokens, all of them i."""
    names = []
    for file in range(3):
        names.append(str(tmp_path / f"{file}.tfrecord"))
        with ringfeed.open_record_writer(names[-1], "tfrecord") as writer:
            for i in range(100 * file, 100 * (file + 1)):
                tokens = numpy.full(LENGTHS[i], i, numpy.int64)
                writer.write(ringfeed.build_example({"tokens": tokens}))
    return names


PARSER = ringfeed.example({"tokens": ("int64", [-1])})


def loader_of(files, batch, rank=0, ranks=1, **options):
    options = {"shuffle": "global", "seed": 7, **options}
    return ringfeed.Loader(
        files, parse=PARSER, batch=batch, rank=ringfeed.Rank(rank, ranks), **options
    )


def packed_rows(batch):
    """The records of each packed row; [] of one that is empty."""
    rows = []
    for tokens, segments in zip(numpy.asarray(batch["tokens"]), numpy.asarray(
            batch["tokens_segments"])):
        rows.append([int(tokens[segments == s][0]) for s in range(1, segments.max() + 1)])
    return rows


def ids_of(batch):
    """The records of a batch of ragged rows."""
    values, offsets = numpy.asarray(batch["tokens"]), batch["tokens"].offsets.tolist()
    return [int(values[begin]) for begin in offsets[:-1]]


PACK = ringfeed.Pack("tokens", length=64, rows=6, segment=80, rest="pad", balance=(1, 1))


def test_ranks_share_the_rows_of_each_step(files):
    alone = [packed_rows(batch) for batch in loader_of(files, PACK)]
    assert sorted(i for batch in alone for row in batch for i in row) == list(range(300))
    assert {len(batch) for batch in alone} == {6}
    for ranks in (2, 3, 4):
        parts = [[packed_rows(b) for b in loader_of(files, PACK, r, ranks)] for r in range(ranks)]
        assert {len(part) for part in parts} == {len(alone)}
        for step, batch in enumerate(alone):
            joined = sorted(row for part in parts for row in part[step] if row)
            assert joined == sorted(row for row in batch if row)
            # With rest="pad" all ranks have as many rows.
            assert len({len(part[step]) for part in parts}) == 1


def test_another_number_of_ranks_goes_on_from_a_state(files):
    alone = [packed_rows(batch) for batch in loader_of(files, PACK)]
    first = loader_of(files, PACK, 1, 3)
    for _ in range(2):
        next(first)
    state = first.state_dict()
    rest = []
    for rank in range(2):
        loader = loader_of(files, PACK, rank, 2)
        loader.load_state_dict(state)
        assert loader.batch_number == 2
        rest.append([packed_rows(batch) for batch in loader])
    for step, batch in enumerate(alone[2:]):
        joined = sorted(row for part in rest for row in part[step] if row)
        assert joined == sorted(row for row in batch if row)


def test_a_step_tells_its_tokens_on_all_ranks(files):
    loaders = [loader_of(files, PACK, rank, 2) for rank in range(2)]
    with pytest.raises(TypeError, match="planned"):
        plain = loader_of(files, 10)
        next(plain)
        _ = plain.step_units
    steps = 0
    for batches in zip(*loaders):
        tokens = sum(int((numpy.asarray(b["tokens_segments"]) > 0).sum()) for b in batches)
        assert [loader.step_units for loader in loaders] == [tokens, tokens]
        steps += 1
    assert steps == len(loaders[0])


def test_token_batches_come_one_after_another(files):
    batch = ringfeed.TokenBatch("tokens", tokens=100, shares=4, segment=90)
    parts = []
    for rank in range(2):
        loader = loader_of(files, batch, rank, 2)
        parts.append([ids_of(b) for b in loader])
        assert len(loader) == len(parts[-1])
        assert len(parts[-1]) % 2 == 0
    assert len(parts[0]) == len(parts[1])
    for part in parts:
        assert all(sum(LENGTHS[i] for i in ids) <= 100 for ids in part)
    assert sorted(i for part in parts for ids in part for i in ids) == list(range(300))
    # Within a step a state is in front of it, for this and for any other number of ranks.
    loader = loader_of(files, batch, 0, 2)
    for _ in range(3):
        next(loader)
    state = loader.state_dict()
    again = loader_of(files, batch, 0, 2)
    again.load_state_dict(state)
    assert again.batch_number == 2
    assert ids_of(next(again)) == parts[0][2]


def test_buckets_are_shared_too(files):
    batch = ringfeed.BucketBatch(8, "tokens", bounds=[10, 20], segment=80)
    parts = [[ids_of(b) for b in loader_of(files, batch, rank, 3)] for rank in range(3)]
    assert sorted(i for part in parts for ids in part for i in ids) == list(range(300))
    whole = [sorted(LENGTHS[i] for part in parts for i in part[step]) for step in range(3)]
    assert all(len(lengths) == 8 for lengths in whole)


def test_a_batch_need_not_divide_over_the_ranks(files):
    loaders = [loader_of(files, 10, rank, 3) for rank in range(3)]
    parts = [[ids_of(batch) for batch in loader] for loader in loaders]
    assert [len(part[0]) for part in parts] == [3, 3, 4]
    assert sorted(i for part in parts for ids in part for i in ids) == list(range(300))
    assert [len(loader) for loader in loaders] == [30, 30, 30]


def test_rows_are_shared_by_weights_or_by_work(files):
    weighted = ringfeed.Batch(10, rank_weights=[1, 4], rest="drop")
    parts = [[ids_of(b) for b in loader_of(files, weighted, rank, 2)] for rank in range(2)]
    assert [len(part[0]) for part in parts] == [2, 8]
    assert len(parts[0]) == len(parts[1]) == 30
    even = ringfeed.Batch(10, "tokens", balance=(0, 1))
    loaders = [loader_of(files, even, rank, 2) for rank in range(2)]
    work = [[sum(LENGTHS[i] ** 2 for i in ids_of(b)) for b in loader] for loader in loaders]
    assert all(abs(a - b) <= max(LENGTHS) ** 2 for a, b in zip(*work))
    assert [len(loader) for loader in loaders] == [30, 30]
    with pytest.raises(ringfeed.Error, match="field"):
        loader_of(files, ringfeed.Batch(10, balance=(0, 1)))


def test_uneven_ranks_get_shares_in_proportion(files):
    batch = ringfeed.Pack("tokens", length=64, rows=8, rank_weights=[3, 1], balance=(1, 0))
    rows = [len(packed_rows(next(loader_of(files, batch, rank, 2)))) for rank in range(2)]
    assert rows == [6, 2]


def test_lengths_that_a_function_makes_are_named(files):
    def twice(row):
        return {"tokens": numpy.repeat(row["tokens"], 2)}

    outputs = {"tokens": ("int64", [-1])}
    with pytest.raises(ringfeed.Error, match="name them"):
        next(loader_of(files, PACK, map=ringfeed.MapRows(twice, outputs)))
    named = ringfeed.Pack("tokens", length=64, rows=6, lengths="twice")
    parts = [
        [packed_rows(b) for b in loader_of(
            files, named, rank, 2, map=ringfeed.MapRows(twice, outputs))]
        for rank in range(2)
    ]
    assert sorted(i for part in parts for b in part for row in b for i in row) == list(range(300))


def test_arguments_that_cannot_work_are_refused(files):
    with pytest.raises(TypeError, match="rest="):
        loader_of(files, PACK, pad=True)
    with pytest.raises(ValueError, match="rest is"):
        loader_of(files, ringfeed.Pack("tokens", 64, 6, rest="cut"))
    with pytest.raises(ValueError, match="fit is"):
        loader_of(files, ringfeed.Pack("tokens", 64, 6, fit="worst"))
    with pytest.raises(ringfeed.Error, match="more ranks"):
        loader_of(files, PACK, 0, 7)
    with pytest.raises(ringfeed.Error, match="Filter"):
        next(loader_of(files, PACK, filter=lambda record: True))
    with pytest.raises(TypeError, match="Steps"):
        reader = ringfeed.parse(ringfeed.open_files(files), PARSER)
        ringfeed.pack(reader, "tokens", 64, 4, steps={"rest": "pad"})
