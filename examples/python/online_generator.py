"""A generator that may die, and a loop that goes on with the next one.

    python online_generator.py                     # both sides, the generator started three times
    python online_generator.py generate FIFO FIRST # one generator alone

The loop reads a FIFO whoever writes to it; here until it has all rows, in real life until Ctrl-C.
With reopen_until=60 it would end by itself, a minute after a generator that no other followed.
What a generator that was killed left of its last record is passed over and reported.
"""

import os
import subprocess
import sys
import tempfile
import threading

import ringfeed

RECORDS = 200  # of one generator
STARTS = 3


def generate(fifo: str, first: int) -> None:
    """Writes records 'first' and so on: numbers, a line each."""
    with open(fifo, "w") as stream:
        for number in range(first, first + RECORDS):
            stream.write(f"{number}\n")


def supervise(fifo: str) -> None:
    """Starts one generator after the other, as a service manager would."""
    for start in range(STARTS):
        command = [sys.executable, __file__, "generate", fifo, str(start * RECORDS)]
        subprocess.run(command, check=True)


def train(fifo: str) -> int:
    """The loop; how many rows it got."""
    number = ringfeed.csv({"number": ("int64", [])})
    rows = 0
    with ringfeed.Loader(
        fifo, format="lines", parse=number, batch=25, reopen_until="close", ahead=64
    ) as loader:
        for batch in loader:
            rows += len(batch["number"])
            if rows == STARTS * RECORDS:
                break
        print(f"{rows} rows, and {loader.stats()['damaged_records']} damaged ones")
    return rows


def main() -> None:
    if sys.argv[1:2] == ["generate"]:
        generate(sys.argv[2], int(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        fifo = os.path.join(folder, "online.fifo")
        os.mkfifo(fifo)
        generators = threading.Thread(target=supervise, args=(fifo,))
        generators.start()
        rows = train(fifo)
        generators.join()
        assert rows == STARTS * RECORDS, rows


if __name__ == "__main__":
    main()
