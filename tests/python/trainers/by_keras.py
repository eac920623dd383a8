"""Keras, by its backend of Torch, in one process."""

import json
import os
from pathlib import Path
from typing import Any, Optional

os.environ["KERAS_BACKEND"] = "torch"

import keras
from rows import BATCHES, EPOCHS
from task import (
    LEARNING_RATE, STOP, Notes, batches_of, numbers, open_train, open_valid, tell, torchs_batches,
)  # fmt: skip


class Model(keras.Sequential):
    notes: Notes

    def train_step(self, data: Any) -> Any:
        self.notes.trained[-1].append(numbers(data[0]))
        return super().train_step(data)

    def test_step(self, data: Any) -> Any:
        self.notes.validated[-1].append(numbers(data[0]))
        return super().test_step(data)


class Callback(keras.callbacks.Callback):
    """Notes the epochs; stops in the middle, and goes on there."""

    def __init__(self, loader: Any, stop: int, goes_on: bool) -> None:
        super().__init__()
        self.loader, self.stop, self.goes_on, self.steps = loader, stop, goes_on, 0

    def on_train_begin(self, logs: Any = None) -> None:
        if self.goes_on:  # by now Keras has taken a batch to build the model
            self.loader.load_state_dict(json.loads(Path("loader.json").read_text()))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.notes.trained.append([])

    def on_test_begin(self, logs: Any = None) -> None:
        self.model.notes.validated.append([])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += 1
        if self.steps == self.stop:
            self.model.save("stopped.keras")
            Path("loader.json").write_text(json.dumps(self.loader.state_dict()))
            self.model.stop_training = True


def fit(by_torch: Optional[Notes] = None, stop: int = 0, goes_on: bool = False) -> Notes:
    if goes_on:
        model = keras.models.load_model("stopped.keras", custom_objects={"Model": Model})
    else:
        keras.utils.set_random_seed(7)
        layers = [keras.Input((3,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
        model = Model(layers)
        model.compile(keras.optimizers.SGD(LEARNING_RATE, momentum=0.9), "mse")
    model.notes = Notes()
    loader = None
    if by_torch is None:
        loader = open_train(as_tuple=True)
        train, valid = batches_of(loader), batches_of(open_valid(as_tuple=True))
    else:
        # Keras takes a batch of the first epoch before it begins.
        def pair(batch: Any) -> Any:
            return batch["x"], batch["y"]

        train = torchs_batches("train", by_torch.trained[:1] + by_torch.trained, pair)
        valid = torchs_batches("valid", by_torch.validated, pair)
    history = model.fit(
        train,
        initial_epoch=STOP // BATCHES if goes_on else 0,
        epochs=EPOCHS,
        validation_data=valid,
        callbacks=[Callback(loader, stop, goes_on)],
        verbose=0,
    )
    model.notes.losses = [float(loss) for loss in history.history["val_loss"]]
    model.notes.weights = [float(w).hex() for part in model.weights for w in part.numpy().flatten()]
    return model.notes


whole = fit()
by_torch = fit(by_torch=whole)
before = fit(stop=STOP)
after = fit(goes_on=True)
tell(0, whole=whole, by_torch=by_torch, before=before, after=after)
