"""S3 servers on the loopback address, for tests and for trying things by hand.

    python3 tests/remote/s3_server.py run moto|radosgw|pys3local
                        starts one and prints the environment of its clients, until Ctrl-C
    python3 tests/remote/s3_server.py unpack [FOLDER]
                        fetches Debian's packages of radosgw (70 MB) and unpacks them there, without
                        installing anything; else into build/ceph, where tests look for it

moto (PyPI: `moto[s3,iam,sts]`, flask, flask-cors) checks signatures, and closes each connection.
radosgw (Debian) is Ceph's: it checks them strictly and keeps connections. It takes 12 s to start.
pys3local (PyPI) knows no ranges: it answers 200 with the whole object where 206 was asked for.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from importlib import util
from pathlib import Path
from typing import Callable

PROJECT = Path(__file__).resolve().parents[2]
CEPH = PROJECT / "build" / "ceph"
REGION = "us-east-1"
BUCKET = "bucket"
#: How long a server may take to start, on a machine that does other things.
START_SECONDS = 120
PR_SET_PDEATHSIG = 1


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [its.getsockname()[1] for its in sockets]
    for its in sockets:
        its.close()
    return ports


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class S3Server:
    """A server of one empty bucket, BUCKET, from start() to stop() or as a context. What it started
    ends with this process, too. start() raises RuntimeError with what the server said."""

    name = ""
    #: Whether it refuses what is not signed well.
    checks_signatures = True

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ringfeed-s3-"))
        self.endpoint = ""
        self.access_key = "ringfeedtest"
        self.secret_key = "ringfeed-secret-of-a-test"
        self.processes: list[subprocess.Popen[bytes]] = []

    @classmethod
    def missing(cls) -> str:
        """"", or why it cannot be started here."""
        raise NotImplementedError

    def begin(self, port: int) -> None:
        """Starts it on that port; need not wait for it."""
        raise NotImplementedError

    def set_up(self) -> None:
        """Makes the user and the bucket."""
        self.client().create_bucket(Bucket=BUCKET)

    def start(self) -> S3Server:
        try:
            port = free_ports(1)[0]
            self.endpoint = f"http://127.0.0.1:{port}"
            self.begin(port)
            self.wait_for_answers()
            self.set_up()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.processes.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """What a client of it needs, whatever the user's own variables and files are."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str = "s3", **more: str):  # type: ignore[no-untyped-def]
        """boto3's client of it."""
        import boto3
        from botocore.config import Config

        keys = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=Config(
                s3={"addressing_style": "path"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                proxies={},
                retries={"max_attempts": 1},
            ),
            **{**keys, **more},
        )

    def spawn(self, *command: object, **environment: str) -> None:
        with open(self.folder / "output", "ab") as output:
            self.processes.append(
                subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, **environment},
                    preexec_fn=end_with_parent,
                )
            )

    def said(self) -> str:
        return (self.folder / "output").read_text(errors="replace")[-3000:]

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + START_SECONDS
        while not ready():
            if any(process.poll() is not None for process in self.processes):
                raise RuntimeError(f"{self.name} ended at its start:\n{self.said()}")
            if time.monotonic() > until:
                raise RuntimeError(f"{self.name} is without {what} after {START_SECONDS} s")
            time.sleep(0.1)

    def wait_for_answers(self) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def answers() -> bool:
            try:
                opener.open(self.endpoint, timeout=10).close()
            except urllib.error.HTTPError:
                pass
            except OSError:
                return False
            return True

        self.wait(answers, "an answer")


class MotoServer(S3Server):
    name = "moto"

    @classmethod
    def missing(cls) -> str:
        names = ("moto", "flask", "flask_cors", "boto3")
        absent = [name for name in names if not util.find_spec(name)]
        return f"moto needs {', '.join(absent)}, by pip" if absent else ""

    def begin(self, port: int) -> None:
        # Signatures are checked behind the first four requests, which make the user and the bucket.
        # So wait_for_answers asks for nothing.
        self.port = port
        self.spawn(
            *(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port),
            INITIAL_NO_AUTH_ACTION_COUNT="4",
        )

    def wait_for_answers(self) -> None:
        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        self.wait(listens, "a socket")

    def set_up(self) -> None:
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
        iam = self.client("iam")
        iam.create_user(UserName="ringfeed")
        key = iam.create_access_key(UserName="ringfeed")["AccessKey"]
        iam.put_user_policy(UserName="ringfeed", PolicyName="all", PolicyDocument=policy)
        super().set_up()
        self.access_key, self.secret_key = key["AccessKeyId"], key["SecretAccessKey"]


class Pys3Local(S3Server):
    name = "pys3local"

    @classmethod
    def missing(cls) -> str:
        absent = [name for name in ("pys3local", "boto3") if not util.find_spec(name)]
        return f"pys3local needs {', '.join(absent)}, by pip" if absent else ""

    def begin(self, port: int) -> None:
        program = Path(sys.executable).with_name("pys3local")
        self.spawn(
            *(program, "serve", "--path", self.folder / "data", "--listen", f"127.0.0.1:{port}"),
            *("--access-key-id", self.access_key, "--secret-access-key", self.secret_key),
            *("--region", REGION, "--allow-bucket-creation"),
            HOME=str(self.folder),
        )


CEPH_CONFIG = """[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon2},v1:127.0.0.1:{mon1}]
mon initial members = a
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 1
keyring = {folder}/keyring
log file = {folder}/$name.log
admin socket = {folder}/$name.$pid.asok
pid file =
run dir = {folder}
erasure code dir = {libraries}/ceph/erasure-code
plugin dir = {libraries}/ceph
osd class dir = {libraries}/rados-classes
[mon.a]
mon data = {folder}/mon
[osd.0]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 1073741824
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw enable usage log = false
rgw thread pool size = 32
"""


class RadosGateway(S3Server):
    """A monitor, a storage daemon that keeps everything in memory, and radosgw."""

    name = "radosgw"

    @staticmethod
    def root() -> Path | None:
        """Where its packages are: unpacked, or installed."""
        names = ("radosgw", "ceph-mon", "ceph-osd")
        for root in (CEPH, Path("/")):
            if all((root / "usr/bin" / name).exists() for name in names):
                return root
        return None

    @classmethod
    def missing(cls) -> str:
        if cls.root() is None:
            return "radosgw is not here (python3 tests/remote/s3_server.py unpack fetches it)"
        return "" if util.find_spec("boto3") else "the tests of radosgw need boto3, by pip"

    def begin(self, port: int) -> None:
        root = self.root() or Path("/")
        libraries = next((root / "usr/lib").glob("*-linux-gnu"))
        more = [libraries / "ceph", root / "usr/lib/ceph"]
        paths = [root / "lib" / libraries.name, libraries, *more]
        self.bin = root / "usr/bin"
        self.variables = {"CEPH_CONF": str(self.folder / "ceph.conf")}
        if root != Path("/"):
            self.variables["LD_LIBRARY_PATH"] = ":".join(str(path) for path in paths)
        mon1, mon2 = free_ports(2)
        fsid = str(uuid.uuid4())
        (self.folder / "ceph.conf").write_text(
            CEPH_CONFIG.format(
                **dict(fsid=fsid, mon1=mon1, mon2=mon2, port=port),
                **dict(folder=self.folder, libraries=libraries),
            )
        )
        self.make_cluster(fsid, f"[v2:127.0.0.1:{mon2},v1:127.0.0.1:{mon1}]")
        self.spawn(self.bin / "ceph-mon", "-f", "-i", "a", **self.variables)
        self.do("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", uuid.uuid4())  # asks the monitor
        self.spawn(self.bin / "ceph-osd", "-f", "-i", "0", **self.variables)
        self.spawn(self.bin / "radosgw", "-f", "-n", "client.rgw", **self.variables)

    def make_cluster(self, fsid: str, addresses: str) -> None:
        """What a monitor needs at its first start: keys, its own map, and a map with one daemon. So
        neither a manager nor the command ceph, which is Python, has to add these later."""
        (self.folder / "mon").mkdir()
        (self.folder / "osd").mkdir()
        keyring, monmap, osdmap = (self.folder / name for name in ("keyring", "monmap", "osdmap"))
        allowed = {
            "mon.": {"mon": "allow *"},
            "client.admin": {"mon": "allow *", "osd": "allow *"},
            "client.rgw": {"mon": "allow rwx", "osd": "allow rwx"},
        }
        for name, rights in allowed.items():
            caps = [word for right in rights.items() for word in ("--cap", *right)]
            create = [] if keyring.exists() else ["--create-keyring"]
            self.do("ceph-authtool", *create, keyring, "--gen-key", "-n", name, *caps)
        self.do("monmaptool", "--create", "--fsid", fsid, "--addv", "a", addresses, monmap)
        self.do("osdmaptool", "--createsimple", "1", osdmap)
        maps = ["--monmap", monmap, "--osdmap", osdmap, "--keyring", keyring]
        self.do("ceph-mon", "-i", "a", "--mkfs", *maps)

    def do(self, program: str, *words: object) -> None:
        done = subprocess.run(
            [str(self.bin / program), *(str(word) for word in words)],
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {(done.stderr or done.stdout)[-3000:]}")

    def set_up(self) -> None:
        keys = ["--access-key", self.access_key, "--secret-key", self.secret_key]
        user = ["user", "create", "--uid", "ringfeed", "--display-name", "ringfeed", *keys]
        self.do("radosgw-admin", "-n", "client.rgw", *user)
        super().set_up()


SERVERS = {its.name: its for its in (MotoServer, RadosGateway, Pys3Local)}


def unpack(folder: Path) -> None:
    """Fetches what Debian would install for radosgw, and unpacks it into the folder. Takes no
    rights; raises CalledProcessError if apt-get cannot."""
    wanted = ["radosgw", "ceph-mon", "ceph-osd", "ceph-base", "ceph-common"]
    simulated = subprocess.run(
        ["apt-get", "install", "-s", "--no-install-recommends", *wanted],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = (line.split() for line in simulated.stdout.splitlines())
    names = [words[1] for words in lines if words and words[0] == "Inst"]
    names = [name for name in names if not name.startswith("python3-")]
    if not names:
        print("radosgw is installed")
        return
    with tempfile.TemporaryDirectory() as packages:
        subprocess.run(["apt-get", "download", "-qq", *names], check=True, cwd=packages)
        for package in Path(packages).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("run").add_argument("server", choices=sorted(SERVERS))
    verbs.add_parser("unpack").add_argument("folder", nargs="?", type=Path, default=CEPH)
    asked = parser.parse_args()
    if asked.verb == "unpack":
        unpack(asked.folder)
        return
    reason = SERVERS[asked.server].missing()
    if reason:
        sys.exit(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with SERVERS[asked.server]() as server:
        for name, value in server.environment().items():
            print(f"export {name}={value}")
        print(f"# s3://{BUCKET}/ is empty; Ctrl-C ends the server", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
