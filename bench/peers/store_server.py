"""nginx with TLS as an S3 store on the loopback address: each folder of the data is a bucket. It
answers GET and HEAD and looks at no signature. So the clients' CPU time is all that is compared."""

import os
import pathlib
import subprocess
import sys
from typing import Dict, List

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests" / "remote"))
from s3_server import free_ports  # noqa: E402
from web_server import WebServer  # noqa: E402

# Where the AWS runtime of s3torchconnector looks for certificates: no setting names others.
SYSTEM_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class StoreServer(WebServer):
    """Serves the folders of `data` from start() to stop(), or as a context."""

    def __init__(self, data: pathlib.Path) -> None:
        super().__init__(data)
        self._port = free_ports(1)[0]
        self._trusted = self.folder / "trusted.pem"
        self._certify("trusted", "basicConstraints=critical,CA:true")
        # A client may refuse a server that is its own authority.
        self._certify("server", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                      "-addext", "basicConstraints=critical,CA:false",
                      "-CA", str(self._trusted), "-CAkey", str(self.folder / "trusted.key"))
        self.more = (f"listen 127.0.0.1:{self._port} ssl; ssl_protocols TLSv1.3; ssl_certificate "
                     f"{self.folder}/server.pem; ssl_certificate_key {self.folder}/server.key;")

    def _certify(self, name: str, extension: str, *more: str) -> None:
        subprocess.run(
            ["openssl", "req", "-x509", "-nodes", "-days", "3", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-subj", f"/CN=ringfeed {name}", "-config", os.devnull,
             "-addext", extension, *more, "-keyout", f"{self.folder}/{name}.key",
             "-out", f"{self.folder}/{name}.pem"], check=True, capture_output=True)

    def variables(self) -> Dict[str, str]:
        """Environment variables of all clients."""
        store = f"https://127.0.0.1:{self._port}"
        return {**self.environment(), "AWS_ENDPOINT_URL_S3": store, "S3_ENDPOINT_URL": store,
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_CA_BUNDLE": str(self._trusted)}

    def command(self, words: List[str]) -> List[str]:
        """A command that finds the server's certificate where the system's are."""
        script = 'mount --bind "$0" "$1" && shift && exec "$@"'
        return ["unshare", "--map-root-user", "--mount", "sh", "-c", script,
                str(self._trusted), SYSTEM_CERTIFICATES, *words]
