"""A logistic regression in JAX; its step is compiled once, all batches have the same shape.

python jax_loop.py [FOLDER [EPOCHS]]        makes FOLDER (data/table) where there is none
"""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

import ringfeed

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data/table")
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3

if not folder.exists():
    make = [sys.executable, "-m", "ringfeed", "make", str(folder), "--kind", "table"]
    subprocess.run([*make, "--records", "20000", "--files", "4"], check=True)


def loss_of(model, x, y):
    logits = x / (1 + jnp.abs(x)) @ model["weights"] + model["bias"]
    return jnp.mean(jnp.logaddexp(0, jnp.where(y == 1, -logits, logits)))


@jax.jit
def step(model, x, y):
    loss, slopes = jax.value_and_grad(loss_of)(model, x, y)
    return jax.tree.map(lambda value, slope: value - 0.1 * slope, model, slopes), loss


parser = ringfeed.example({"dense": ("float32", [13]), "label": ("int32", [])})
model = {"weights": jnp.zeros(13), "bias": jnp.zeros(())}
loader = ringfeed.Loader(
    folder / "*.tfrecord", parse=parser, batch=256, shuffle=True, seed=7, drop_remainder=True
)
with loader:
    for epoch in range(epochs):
        losses = []
        for batch in loader:
            x, y = (jax.dlpack.from_dlpack(batch[name]) for name in ("dense", "label"))
            model, loss = step(model, x, y)
            losses.append(float(loss))  # waits for the step, which reads the batch's memory
        rows = loader.batch_number * 256
        print(f"epoch {epoch}: {rows} rows, loss {sum(losses) / len(losses):.4f}")
