"""Lightning, which starts its own second process (ddp on gloo): by_lightning.py PROCESSES"""

import logging
import sys
from typing import Any, Callable

import lightning
import torch
from rows import EPOCHS, VALID_ROWS
from task import (
    STOP, Notes, batches_of, model, numbers, open_train, open_valid, sgd, tell, torchs_batches,
    weights_of,
)  # fmt: skip
from torchdata.stateful_dataloader import StatefulDataLoader

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(lightning.LightningModule):
    def __init__(self, make_train: Callable[[], Any], make_valid: Callable[[], Any]) -> None:
        super().__init__()
        self.inner = model()
        self.notes = Notes()
        # Made by then: the processes know each other.
        self.train_dataloader, self.val_dataloader = make_train, make_valid

    def on_train_epoch_start(self) -> None:
        self.notes.trained.append([])

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self.notes.trained[-1].append(numbers(batch["x"]))
        return torch.nn.functional.mse_loss(self.inner(batch["x"]), batch["y"])

    def on_validation_epoch_start(self) -> None:
        self.notes.validated.append([])

    def validation_step(self, batch: Any, index: int) -> None:
        self.notes.validated[-1].append(numbers(batch["x"]))
        errors = (self.inner(batch["x"]) - batch["y"]).square().sum()
        self.log("errors", errors, reduce_fx="sum", sync_dist=True, batch_size=1)

    def on_train_epoch_end(self) -> None:
        if "errors" in self.trainer.callback_metrics:
            errors = self.trainer.callback_metrics["errors"]
            self.notes.losses.append(float(errors) / VALID_ROWS)

    def configure_optimizers(self) -> Any:
        return sgd(self)


class Stop(lightning.Callback):
    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == STOP:
            trainer.save_checkpoint("stopped.ckpt")
            trainer.should_stop = True


def fit(
    make_train: Callable[[], Any], make_valid: Callable[[], Any], **options: Any
) -> tuple[Notes, int]:
    module = Module(make_train, make_valid)
    going_on = options.pop("ckpt_path", None)
    if going_on:
        module.notes.trained.append([])  # no epoch starts where one goes on
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=int(sys.argv[1]),
        strategy="ddp" if sys.argv[1] != "1" else "auto",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        **options,
    )
    trainer.fit(module, ckpt_path=going_on)
    module.notes.weights = weights_of(module)
    return module.notes, trainer.global_rank


def stateful() -> Any:
    return batches_of(open_train(), StatefulDataLoader)


def valid() -> Any:
    return batches_of(open_valid())


whole, rank = fit(lambda: batches_of(open_train()), valid)
by_torch, _ = fit(
    lambda: torchs_batches("train", whole.trained),
    lambda: torchs_batches("valid", whole.validated),
    use_distributed_sampler=False,
)
before, _ = fit(stateful, valid, callbacks=[Stop()])
after, _ = fit(stateful, valid, ckpt_path="stopped.ckpt")
tell(rank, whole=whole, by_torch=by_torch, before=before, after=after)
