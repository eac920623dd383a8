"""That no secret stands in what the command prints or writes:

    secrets_test.py RINGFEED

It reads from nginx with secrets in the environment, in files of credentials and in addresses, well
and in ways that fail, and looks for each secret in all output and in all files. Status 77: no
nginx.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent))

from web_server import WebServer  # noqa: E402

SECRETS = {
    name: f"{name}+Secret0f"
    for name in ("Aws", "Session", "Profile", "Gs", "Google", "Sas", "AzToken", "Hub", "Query")
    + ("Signature", "Password", "Container")
}
#: Answers that a store would give.
FAILURES = """
location /denied/ { return 403; }
location /late/ { return 503; }
location /moved/ { return 302 http://127.0.0.1:1/elsewhere?sig=Query+Secret0f; }
location /loop/ { return 302 $request_uri; }
location /odd/ { return 200 'x'; }
"""


def environment(folder: Path, server: str) -> dict[str, str]:
    (folder / "credentials").write_text(
        f"[default]\naws_access_key_id = AK\naws_secret_access_key = {SECRETS['Profile']}\n"
    )
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": server,
        "GS_ACCESS_KEY_ID": "GK",
        "GS_SECRET_ACCESS_KEY": SECRETS["Gs"],
        "AZURE_STORAGE_BLOB_ENDPOINT": server,
        "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=" + quote(SECRETS["Sas"], safe=""),
        "HF_ENDPOINT": server,
        "HF_TOKEN": SECRETS["Hub"],
        "https_proxy": server,
        "no_proxy": "127.0.0.1",
        "RINGFEED_LOG": "info",
        "RINGFEED_INDEX_FOLDER": str(folder / "written"),
    }


#: More than one way for each store.
MORE: list[dict[str, str]] = [
    {},
    {
        "AWS_ACCESS_KEY_ID": "AK",
        "AWS_SECRET_ACCESS_KEY": SECRETS["Aws"],
        "AWS_SESSION_TOKEN": SECRETS["Session"],
        "GS_ACCESS_KEY_ID": "",
        "GS_SECRET_ACCESS_KEY": "",
        "GOOGLE_OAUTH_ACCESS_TOKEN": SECRETS["Google"],
        "AZURE_STORAGE_SAS_TOKEN": "",
        "AZURE_STORAGE_ACCESS_TOKEN": SECRETS["AzToken"],
    },
    # What cannot be understood.
    {
        "AWS_ACCESS_KEY_ID": "A K\n",
        "AWS_SECRET_ACCESS_KEY": SECRETS["Aws"] + "\x01",
        "AWS_ENDPOINT_URL": f"http://user:{SECRETS['Password']}@127.0.0.1",
        "GOOGLE_OAUTH_ACCESS_TOKEN": SECRETS["Google"] + "\n\x02",
        "GS_SECRET_ACCESS_KEY": "",
        "AZURE_STORAGE_SAS_TOKEN": SECRETS["Sas"] + " \x03",
        "HF_TOKEN": SECRETS["Hub"] + "\x04x",
    },
    {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:1/x?t={SECRETS['Container']}",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": SECRETS["Container"],
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    },
]

QUERY = f"?X-Amz-Signature={SECRETS['Signature']}&sig={SECRETS['Query']}"


def addresses(server: str) -> list[str]:
    """What is read at once, or fails at once."""
    host = server.removeprefix("http://")
    names = ("data/a.tfrecord", "data/none", "data/broken.tfrecord", "data/text", "data/")
    listed = [f"{server}/{name}{QUERY}" for name in (*names, "denied/a", "odd/a.tfrecord")]
    listed += [f"http://user:{SECRETS['Password']}@{host}/data/a.tfrecord"]
    listed += [f"http:/{host}/data/a{QUERY}", f"{server}/data/a.tfrecord{QUERY}#x"]
    for store in ("s3://", "az://", "hf://datasets/o/"):
        listed += [f"{store}data/{name}" for name in ("a.tfrecord", "none", "broken.tfrecord", "*")]
    for scheme in ("s3", "az", "hf"):
        listed.append(f"{scheme}://user:{SECRETS['Password']}@data/a")
    return listed


def patient_addresses(server: str) -> list[str]:
    """What is waited for as long as remote_patience_ms."""
    listed = [f"{server}/{name}{QUERY}" for name in ("late/a", "moved/a", "loop/a")]
    host = server.removeprefix("http://")
    listed.append("gs://data/a.tfrecord")  # by a proxy that is none
    return [*listed, f"http://127.0.0.1:1/a{QUERY}", f"https://{host}/data/a.tfrecord{QUERY}"]


def short_commands(address: str, out: Path) -> list[list[str]]:
    trail = ["--journal", f"{out}/journal", "--batch", "2", "--position-out", f"{out}/position"]
    cache = ["--cache", f"{out}/cache"]
    return [
        ["info", address],
        ["feed", address, "--json", *cache, *trail, "--devices", "emu:1"]
        + ["--trace", f"{out}/trace"],
        ["index", address, "--manifest", f"{out}/all.manifest"],
    ]


def other_commands(address: str, out: Path) -> list[list[str]]:
    return [
        ["info", address, "--json"],
        ["verify", address, address],
        ["digest", address],
        ["cat", address],
        ["index", address],
        ["convert", address, f"{out}/converted.recordio"],
        ["plan", address, "--json"],
        ["subset", address, "--output", f"{out}/subset.rfs"],
        ["which", address, "--batch", "2"],
        ["feed", address, "--verify", "--on-damage", "skip"],
        ["feed", address, "--journal", f"{out}/journal", "--shuffle", "global", "--batch", "2"],
        ["feed", address, "--position-in", f"{out}/position", "--batch", "2"],
        ["audit", f"{out}/journal", "--files", address],
        ["shuffle-quality", address],
    ]


def slow_commands(address: str, out: Path) -> list[list[str]]:
    page = ["--out", f"{out}/tuned", "--report", f"{out}/page"]
    return [
        ["tune", address, "--seconds", "0.1", *page],
        ["bench", address, "--seconds", "0.01"],
        ["cache", f"{out}/cache"],
    ]


class Search:
    def __init__(self, command: str, folder: Path) -> None:
        self.command = command
        self.folder = folder
        self.found: dict[str, bytes] = {}
        self.runs = 0

    def look(self, where: str, content: bytes) -> None:
        for name, secret in SECRETS.items():
            at = max(content.find(form.encode()) for form in (secret, quote(secret)))
            if at >= 0:
                self.found.setdefault(f"{name} in {where}", content[max(0, at - 90) : at + 20])

    def run(self, words: list[str], given: dict[str, str]) -> None:
        metrics = self.folder / "written" / "metrics-%p.prom"
        done = subprocess.run(
            [self.command, *words],
            env={**given, "RINGFEED_METRICS": str(metrics)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
            check=False,
        )
        self.runs += 1
        self.look(f"the output of {words[0]}", done.stdout + done.stderr)
        if done.returncode < 0:
            self.found[f"{words} died by {-done.returncode}"] = done.stderr[-300:]

    def look_at_files(self) -> None:
        for path in (self.folder / "written").rglob("*"):
            self.look(f"the name of a {path.suffix} of {path.parent.name}", str(path).encode())
            if path.is_file():
                self.look(f"a {path.suffix} of {path.parent.name}", path.read_bytes())


def main() -> int:
    if WebServer.missing():
        print(WebServer.missing())
        return 77
    command = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "written"
        out.mkdir()
        data = folder / "data"
        subprocess.run(
            [command, "make", data, "--records", "9", "--files", "1", "--kind", "image"],
            check=True,
            capture_output=True,
        )
        content = next(data.iterdir()).rename(data / "a.tfrecord").read_bytes()
        (data / "broken.tfrecord").write_bytes(content[:5000] + b"x" + content[5001:])
        (data / "text").write_text("no records\n")
        (folder / "datasets/o").mkdir(parents=True)
        search = Search(command, folder)
        with WebServer(folder, FAILURES) as server:
            given = environment(folder, server.endpoint)
            waiting = [
                (words, {**given, **more})
                for more in MORE[:2]
                for address in patient_addresses(server.endpoint)
                for words in short_commands(address, out)[:1]
            ]
            container = [(["info", "s3://data/none"], {**given, **MORE[-1]})]
            at_once = [
                (words, {**given, **more})
                for more in MORE[:-1]
                for address in addresses(server.endpoint)
                for words in short_commands(address, out)
                + (other_commands(address, out) if more is MORE[0] else [])
            ]
            good = addresses(server.endpoint)[0]
            at_once += [(words, given) for words in slow_commands(good, out)]
            with ThreadPoolExecutor(20) as patient, ThreadPoolExecutor(2) as others:
                runs = [patient.submit(search.run, *run) for run in waiting + container]
                runs += [others.submit(search.run, *run) for run in at_once]
            for run in runs:
                run.result()
        search.look_at_files()
    print(f"{search.runs} runs")
    for what, beside in search.found.items():
        print(f"{what}: {beside!r}")
    return 1 if search.found else 0


if __name__ == "__main__":
    sys.exit(main())
