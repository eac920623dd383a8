"""The clicks model by Lightning, which starts the second process itself (ddp, gloo, on the CPU).

    python clicks_by_lightning.py [FOLDER [EPOCHS]]

Each process gets its part of every batch from its own Loader, and Lightning adds no sampler. At the
end of each epoch, and of each validation, the program checks that the two saw each row once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from clicks_from_tfrecord import Clicks, write_examples
from clicks_on_ranks import check, loss_of, open_batches, rows_of


class Module(lightning.LightningModule):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.model = folder, Clicks()
        self.trained: list[int] = []
        self.validated: list[int] = []

    def train_dataloader(self) -> Any:
        """Makes the Loader here: by now the processes know each other."""
        return open_batches(self.folder)

    def val_dataloader(self) -> Any:
        return open_batches(self.folder)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self.trained += rows_of(batch)
        return loss_of(self.model, batch)

    def validation_step(self, batch: Any, index: int) -> None:
        self.validated += rows_of(batch)
        self.log("loss", loss_of(self.model, batch), sync_dist=True, batch_size=1)

    def on_validation_epoch_end(self) -> None:
        check("validated", self.validated)
        self.validated = []

    def on_train_epoch_end(self) -> None:
        check(f"epoch {self.current_epoch}", self.trained)
        self.trained = []

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data/clicks")
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if not folder.exists():
        write_examples(folder)
    module = Module(folder)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module)
    if trainer.is_global_zero:
        print(f"loss {float(trainer.callback_metrics['loss']):.6f}")


if __name__ == "__main__":
    main()
