"""Whether a data loader makes batches of batches. Without Torch."""

from __future__ import annotations

from typing import Any


def refuse_collation(caller: Any, default: Any) -> None:
    """Raises ValueError if `caller`, which iterates over batches, puts them into lists and these
    together by `default`: each tensor would be copied and get a dimension more.

    Args:
        caller: a fetcher of Torch's DataLoader, or anything else, which may do as it likes. A
            function of the user's that takes a list of batches is none of ringfeed's business.
        default: torch.utils.data.default_collate, None if that is not known.
    """
    collates = getattr(caller, "auto_collation", False) is True and default is not None
    if collates and getattr(caller, "collate_fn", None) is default:
        raise ValueError(
            "its items are whole batches, and this DataLoader would make batches of them, with a "
            "dimension more: say DataLoader(dataset, batch_size=None); the rows of a batch are "
            "the Loader's batch="
        )
