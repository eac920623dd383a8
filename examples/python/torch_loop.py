"""A logistic regression in Torch that goes on after a kill; alone, or on ranks of torchrun:
torchrun --nproc-per-node 2 torch_loop.py [FOLDER [EPOCHS [STATE]]]"""

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from torch.nn.functional import softsign

import ringfeed.torch

folder, epochs, state_file = (*sys.argv[1:], *["data/table", 3, "loop.pt"][len(sys.argv) - 1 :])
if "RANK" in os.environ:
    dist.init_process_group("gloo")
rank = ringfeed.torch.find_rank()
if rank.rank == 0 and not Path(folder).exists():
    make = [sys.executable, "-m", "ringfeed", "make", folder, "--kind", "table"]
    subprocess.run([*make, "--records", "20000", "--files", "4"], check=True)
torch.manual_seed(7)
model: torch.nn.Module = torch.nn.Linear(13, 1)
if dist.is_initialized():
    dist.barrier()  # rank 0 made the data
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
parser = ringfeed.example({"dense": ("float32", [13]), "label": ("int64", [1])})
loader = ringfeed.Loader(  # all ranks make the same steps: no batch that some have no rows of
    f"{folder}/*.tfrecord", parse=parser, batch=256, shuffle=True, rank=rank, drop_remainder=True
)
batches = torch.utils.data.DataLoader(ringfeed.torch.IterableDataset(loader), batch_size=None)
parts = {"model": model, "optimizer": optimizer, "loader": loader}
if Path(state_file).exists():
    for name, state in torch.load(state_file).items():
        parts[name].load_state_dict(state)
    print(f"goes on in epoch {loader.epoch} behind batch {loader.batch_number}", flush=True)

for epoch in range(loader.epoch, int(epochs)):
    for batch in batches:
        loss = cross_entropy(model(softsign(batch["dense"])), batch["label"].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank.rank == 0 and loader.batch_number % 20 == 0:  # the state is the same on all ranks
            torch.save({name: part.state_dict() for name, part in parts.items()}, state_file + "~")
            os.replace(state_file + "~", state_file)  # whole, or the one before
    print(f"epoch {epoch}: {loader.batch_number} batches, loss {loss:.4f}", flush=True)
