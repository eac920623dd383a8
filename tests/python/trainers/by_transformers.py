"""The Trainer of Transformers on ranks of torchrun: its DataLoaders are made by the program."""

import json
from pathlib import Path
from typing import Any, Optional

import torch
import torch.distributed as dist
from rows import BATCH, EPOCHS
from task import (
    STOP, Notes, Rows, batches_of, model, numbers, open_train, open_valid, sgd, tell,
    torchs_batches, weights_of,
)  # fmt: skip
from transformers import EvalPrediction, Trainer, TrainerCallback, TrainingArguments


class Model(torch.nn.Module):
    """What a Trainer wants: the loss, and what was found."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.notes = model(), Notes()

    def forward(self, x: Any, y: Any, mask: Any = None) -> dict[str, torch.Tensor]:
        seen = self.notes.trained if self.training else self.notes.validated
        seen[-1].append(numbers(x if mask is None else x[mask.bool()]))
        found = self.inner(x)
        return {"loss": torch.nn.functional.mse_loss(found, y), "found": found}


class State(TrainerCallback):
    """The Loader's state stands beside the model's in each checkpoint."""

    def __init__(self, loader: Any, goes_on: bool, stop: int) -> None:
        self.loader, self.goes_on, self.stop = loader, goes_on, stop

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.goes_on:
            self.loader.load_state_dict(json.loads(self._path(args, state).read_text()))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self._path(args, state).write_text(json.dumps(self.loader.state_dict()))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.stop:
            control.should_save = control.should_training_stop = True

    @staticmethod
    def _path(args: Any, state: Any) -> Path:
        return Path(args.output_dir) / f"checkpoint-{state.global_step}" / "loader.json"


class Epochs(TrainerCallback):
    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self.notes.trained.append([])


def mean_error(found: EvalPrediction) -> dict[str, float]:
    """Over all rows of all ranks, without those that only fill a batch."""
    wanted = found.label_ids
    (y, counts) = wanted if isinstance(wanted, tuple) else (wanted, None)
    errors = ((found.predictions - y) ** 2)[:, 0].astype("float64")
    return {"error": float((errors if counts is None else errors[counts > 0]).mean())}


class FedTrainer(Trainer):
    """Its own DataLoaders are Torch's over a map-style data set; those of a Loader replace them."""

    def __init__(self, by_torch: Optional[Notes] = None, stop: int = 0, goes_on: bool = False):
        self.by_torch = by_torch
        trained = Model()
        self.notes, self.loader = trained.notes, open_train()
        callbacks: list[TrainerCallback] = [Epochs(self.notes)]
        if by_torch is None:
            callbacks.append(State(self.loader, goes_on, stop))
        rows = BATCH // dist.get_world_size()
        arguments = TrainingArguments(
            output_dir="trainer",
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=rows,
            per_device_eval_batch_size=rows,
            eval_strategy="epoch",
            save_strategy="no",
            label_names=["y"] if by_torch else ["y", "mask"],
            max_grad_norm=0,
            ignore_data_skip=goes_on,  # the Loader's state says where to go on
            remove_unused_columns=False,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        )
        optimizer = sgd(trained)
        super().__init__(
            trained,
            arguments,
            eval_dataset=Rows("valid"),
            compute_metrics=mean_error,
            callbacks=callbacks,
            optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1)),
        )
        self.train("trainer/checkpoint-%d" % STOP if goes_on else None)
        self.notes.weights = weights_of(trained)

    def get_train_dataloader(self) -> Any:
        if self.by_torch:
            return torchs_batches("train", self.by_torch.trained)
        return batches_of(self.loader)

    def get_eval_dataloader(self, dataset: Any = None) -> Any:
        self.notes.validated.append([])
        if self.by_torch:
            return super().get_eval_dataloader(dataset)
        return batches_of(open_valid(pad=True))  # a Trainer gathers equal parts of the ranks

    def evaluate(self, *arguments: Any, **named: Any) -> dict[str, float]:
        metrics = super().evaluate(*arguments, **named)
        self.notes.losses.append(metrics["eval_error"])
        return metrics


# On several processes without a GPU Transformers loads an optimizer to "cpu:0". Torch has no such
# place.
torch.serialization.register_package(
    0, lambda _: None, lambda storage, place: storage if place == "cpu:0" else None
)
dist.init_process_group("gloo")
whole = FedTrainer().notes
by_torch = FedTrainer(by_torch=whole).notes
before = FedTrainer(stop=STOP).notes
after = FedTrainer(goes_on=True).notes
tell(dist.get_rank(), whole=whole, by_torch=by_torch, before=before, after=after)
dist.destroy_process_group()
