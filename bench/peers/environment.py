"""The environment that the contestants run in."""

import json
import pathlib
import subprocess
import sys
from typing import Dict, Optional

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
# Of these pip is not to look at what they ask for: the file says why.
ALONE = pathlib.Path(__file__).with_name("requirements_without_dependencies.txt")


class Environment:
    """A virtual environment with the peers and ringfeed, or this Python if there is none.

    Args:
        folder: of the virtual environment.
        command: the path of `ringfeed`, if it is not the environment's.
    """

    def __init__(self, folder: pathlib.Path, command: Optional[str] = None) -> None:
        self._folder = folder
        self._command = command

    @property
    def python(self) -> str:
        """The interpreter that the contestants are run by."""
        own = self._folder / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def command(self) -> str:
        """The command `ringfeed`, of the same build as the package if it is the package's."""
        own = pathlib.Path(self.python).with_name("ringfeed")
        return self._command or (str(own) if own.exists() else "ringfeed")

    def install(self) -> None:
        """Makes the environment: the peers as requirements*.txt name them, and the package built
        from this tree. It is a download of several GB.

        Raises:
            subprocess.CalledProcessError: pip failed; it has said why.
        """
        if not (self._folder / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(self._folder)], check=True)
        pip = [self.python, "-m", "pip", "install"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True, stdout=sys.stderr)
        subprocess.run([*pip, str(ROOT / "python")], check=True, stdout=sys.stderr)
        # At the end: pip complains of them whenever it installs something else.
        subprocess.run([*pip, "--no-deps", "-r", str(ALONE)], check=True, stdout=sys.stderr)

    def variables(self) -> Dict[str, str]:
        """Environment variables of the contestants."""
        return {"RINGFEED_COMMAND": self.command, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def versions(self) -> Dict[str, str]:
        """Versions of Python and of all that is installed there."""
        listed = subprocess.run([self.python, "-m", "pip", "list", "--format", "json"], check=True,
                                stdout=subprocess.PIPE)
        version = subprocess.run([self.python, "-c", "import platform as p;"
                                  "print(p.python_version())"], check=True,
                                 stdout=subprocess.PIPE, text=True)
        packages = {package["name"]: package["version"] for package in json.loads(listed.stdout)}
        named = {line.split("==")[0] for path in (REQUIREMENTS, ALONE)
                 for line in path.read_text("utf-8").splitlines() if "==" in line}
        asked = {name.lower().replace("_", "-") for name in named | {"ringfeed"}}
        chosen = {name: value for name, value in packages.items()
                  if name.lower().replace("_", "-") in asked}
        return {"python": version.stdout.strip(), **chosen}
