"""python -m ringfeed: the command, which is part of the package."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Becomes the command."""
    command = Path(__file__).with_name("bin") / "ringfeed"
    # Python ignores it, and what it becomes would: `ringfeed cat FILE | head` is no failure.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(command, [str(command), *sys.argv[1:]])


if __name__ == "__main__":
    main()
