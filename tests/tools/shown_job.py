"""A job that shows what it does: `ringfeed feed` without end, under RINGFEED_METRICS."""

import os
import pathlib
import signal
import socket
import subprocess
import urllib.request

from command_line import BINARY, await_that, run_json

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
CHAIN = ["--parse", "example: image=u1[] label=i8[1]", "--batch", "16", "--shuffle", "100"]


def make_files(folder):
    run_json("make", folder / "d", "--bytes", "4MiB", "--files", 2)
    return [str(path) for path in sorted((folder / "d").iterdir())]


class Job:
    """Runs from `with` on; `folder` is its runtime folder, where its note is."""

    def __init__(self, where, folder, files, *words, variables=None):
        environment = dict(os.environ, RINGFEED_METRICS=where, XDG_RUNTIME_DIR=str(folder), **(variables or {}))
        command = [BINARY, "feed", *files, *CHAIN, "--passes", "0", "--no-digest", *map(str, words)]
        self.folder = pathlib.Path(folder)
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.errors = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()

    def end(self):
        """Ctrl-C; its exit status."""
        self.process.send_signal(signal.SIGINT)
        self.errors += self.process.communicate(timeout=120)[1]
        return self.process.returncode

    def note(self):
        """Where it shows itself, by its note."""
        notes = self.folder / "ringfeed"
        note = await_that(lambda: next(notes.glob(f"{self.pid}-*[0-9]"), None), "its note", self.process)
        return note.read_text().splitlines()[2]


def ask(address, path="/metrics", accept=OPEN_METRICS):
    """What the job answers at host:port or unix:PATH; its body and its type."""
    if address.startswith("unix:"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(address[len("unix:"):])
            connection.sendall(f"GET {path} HTTP/1.1\r\nAccept: {accept}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        kind = next(line for line in head.decode().splitlines() if line.startswith("Content-Type: "))
        return body.decode(), kind[len("Content-Type: "):]
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]
