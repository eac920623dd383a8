"""A generator in Python feeds a chain in C++, which shuffles what it gives and makes batches."""

import numpy

import ringfeed


def samples():
    """Points of y = 2 x + 1, a row at a time, in one array that is used again and again."""
    row = numpy.empty((1, 2), numpy.float32)
    for i in range(1000):
        row[0] = i / 1000, 2 * i / 1000 + 1
        yield [row]


def main():
    feed = ringfeed.py_reader(capacity=64, shapes=[[-1, 2]], dtypes=["float32"])
    feed.decorate_tensor_provider(samples)
    batches = ringfeed.batch(ringfeed.shuffle(feed.reader, "window", 256, seed=7), 50)
    weight = bias = 0.0
    for epoch in range(20):
        feed.start()
        count = 0
        for (batch,) in batches:
            x, y = numpy.from_dlpack(batch).T
            off = weight * x + bias - y
            weight -= float((off * x).mean())
            bias -= float(off.mean()) / 2
            count += len(x)
        feed.reset()
    print(f"{count} rows an epoch: y = {weight:.3f} x + {bias:.3f}")


if __name__ == "__main__":
    main()
