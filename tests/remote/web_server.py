"""nginx on the loopback address, for tests: it serves the files of a folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from s3_server import S3Server

PATH = os.environ.get("PATH", "") + ":/usr/sbin"
KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class WebServer(S3Server):
    """As an S3Server is, without buckets."""

    name = "nginx"
    checks_signatures = False

    def __init__(self, root: Path, more: str = "") -> None:
        """Serves `root`. `more` are other lines of nginx's "server"."""
        super().__init__()
        self.root = root
        self.more = more

    @classmethod
    def missing(cls) -> str:
        return "" if shutil.which("nginx", path=PATH) else "nginx is not installed (nginx-light)"

    def begin(self, port: int) -> None:
        config = self.folder / "nginx.conf"
        places = "".join(f"{kind}_temp_path {self.folder}/{kind};\n" for kind in KINDS)
        config.write_text(
            f"daemon off; master_process off; pid {self.folder}/pid;\n"
            "events { worker_connections 2048; }\n"
            f"http {{ access_log off; {places} keepalive_requests 1000000;\n"
            f"server {{ listen 127.0.0.1:{port}; root {self.root}; {self.more} }} }}\n"
        )
        nginx = shutil.which("nginx", path=PATH)
        self.spawn(nginx, "-p", self.folder, "-c", config, "-e", self.folder / "output")

    def set_up(self) -> None:
        pass

    def url(self, path: Path) -> str:
        return f"{self.endpoint}/{path.relative_to(self.root)}"
