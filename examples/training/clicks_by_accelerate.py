"""The clicks model by Accelerate on two processes (gloo, on the CPU).

    torchrun --standalone --nproc-per-node 2 clicks_by_accelerate.py [FOLDER [EPOCHS]]

Each process gets its part of every batch from its own Loader, so the DataLoader stays out of
prepare(): nothing is divided twice, and nothing is sent. At the end of each epoch the program
checks that the two saw each row once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator
from clicks_from_tfrecord import Clicks, write_examples
from clicks_on_ranks import check, loss_of, open_batches, rows_of


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data/clicks")
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    accelerator = Accelerator(cpu=True)
    with accelerator.main_process_first():
        if not folder.exists():
            write_examples(folder)
    model = Clicks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model, optimizer = accelerator.prepare(model, optimizer)
    batches = open_batches(folder)
    for epoch in range(epochs):
        rows: list[int] = []
        total = torch.zeros(())
        for batch in batches:
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            rows += rows_of(batch)
            total += loss.detach()
        check(f"epoch {epoch}", rows)
        mean = float(accelerator.reduce(total, "mean")) / len(batches)
        accelerator.print(f"loss {mean:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
