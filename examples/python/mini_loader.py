"""A loader of one's own: lines "x,y" in part files, a reader, a decoder, and a line fitted to them.

mini_loader.py [FOLDER], where part-000 and part-001 are; without it, ../mini_data.
"""

import os
import sys
from pathlib import Path

import numpy

import ringfeed


class PairParser(ringfeed.Parser):
    fields = {"pair": ("float32", (2,))}

    def parse(self, sample):
        return {"pair": [float(number) for number in sample.split(b",")]}


def MiniReader(data_dir, data_part_num, batch_size, part_name_prefix="part-",
               part_name_suffix_length=-1, random_shuffle=False, shuffle_buffer_size=1024,
               shuffle_after_epoch=False, seed=0, passes=0):
    digits = max(part_name_suffix_length, 0)
    parts = [os.path.join(data_dir, f"{part_name_prefix}{i:0{digits}d}" if digits else
                          f"{part_name_prefix}{i}") for i in range(data_part_num)]
    lines = ringfeed.open_files(parts, format="lines", shuffle_files=shuffle_after_epoch, seed=seed)
    pairs = ringfeed.parse(lines, PairParser())
    if random_shuffle:
        pairs = ringfeed.shuffle(pairs, "window", shuffle_buffer_size, seed)
    return ringfeed.batch(ringfeed.multi_pass(pairs, passes), batch_size)


def MiniDecoder(batch):
    pairs = numpy.from_dlpack(batch[0])
    return pairs[:, 0], pairs[:, 1]


def main(folder):
    options = dict(data_dir=folder, data_part_num=2, part_name_suffix_length=3)
    print(sum(1 for _ in MiniReader(batch_size=1, passes=1, **options)), "samples a pass")
    reader = MiniReader(batch_size=10, random_shuffle=True, shuffle_after_epoch=True, **options)
    weight = bias = loss = 0.0
    for i in range(1, 1001):
        x, y = MiniDecoder(next(reader))
        off = weight * x + bias - y
        weight -= 0.01 * float((off * x).mean())
        bias -= 0.01 * float(off.mean())
        loss += float((off * off).mean()) / 100
        if i % 100 == 0:
            print(f"{i}/1000: {loss:g}")
            loss = 0.0
    print(f"y = {weight:g} x + {bias:g}")


if __name__ == "__main__":
    ours = Path(__file__).parents[1] / "mini_data"
    main(sys.argv[1] if len(sys.argv) > 1 else ours)
