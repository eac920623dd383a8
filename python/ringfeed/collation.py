"""Whether a data loader makes batches of batches. Without Torch."""

from __future__ import annotations

from typing import Any


def refuse_collation(caller: Any, default: Any) -> None:
    """Raises ValueError if `caller`, which iterates over batches, puts them into lists and these
    together by `default` or a collator of Transformers: each tensor would be copied and get a
    dimension more.

    Args:
        caller: a fetcher of Torch's DataLoader, or anything else, which may do as it likes. A
            function of the user's that takes a list of batches is none of ringfeed's business.
        default: torch.utils.data.default_collate, None if that is not known.
    """
    if getattr(caller, "auto_collation", False) is not True:
        return
    collate = getattr(caller, "collate_fn", None)
    collate = getattr(collate, "data_collator", collate)  # a Trainer's, around the user's
    is_theirs = str(getattr(collate, "__module__", "")).startswith("transformers.")
    if is_theirs or (collate is default and default is not None):
        raise ValueError(
            "its items are whole batches, and this DataLoader would make batches of them, with a "
            "dimension more: say DataLoader(dataset, batch_size=None), which a Trainer of "
            "Transformers takes from its get_train_dataloader(); the rows of a batch are the "
            "Loader's batch="
        )
