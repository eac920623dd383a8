#!/usr/bin/env python3
"""Compares signatures with botocore's: botocore_test.py SIGN_REQUESTS. Status 77 if there is no botocore."""

import datetime
import hashlib
import random
import subprocess
import sys
from unittest import mock
from urllib.parse import quote

try:
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
except ImportError:
    print("Python has no botocore")
    sys.exit(77)

LETTERS = "abz09-._~/ +=&%?#$@:;,!*'()[]\\\"<>äß漢😀"


def text(numbers, most):
    return "".join(numbers.choice(LETTERS) for _ in range(numbers.randrange(most)))


def case(numbers):
    """What a line says, in its order."""
    return [
        numbers.choice(["GET", "HEAD", "PUT"]),
        numbers.choice(["http", "https"]) + "://" + numbers.choice(["b.s3.amazonaws.com", "127.0.0.1:9000", "[::1]:80"]),
        text(numbers, 30),
        text(numbers, 10),
        text(numbers, 20),
        numbers.choice(["", "a/token+with=signs=="]),
        numbers.choice(["us-east-1", "eu-central-1", "auto"]),
        str(numbers.randrange(0, 2_000_000_000)),
        numbers.choice(["", "bytes=0-9", "  bytes=1-2  "]),
    ]


def of_botocore(method, server, key, prefix, body, token, region, seconds, range_of_bytes):
    url = f"{server}/{quote(key, safe='/~')}"
    if prefix:
        query = {"prefix": prefix, "list-type": "2", "marker": key}
        url += "?" + "&".join(f"{quote(k, safe='~')}={quote(v, safe='~')}" for k, v in query.items())
    request = botocore.awsrequest.AWSRequest(method, url, {"Range": range_of_bytes} if range_of_bytes else {}, body.encode())
    now = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).replace(tzinfo=None)
    keys = botocore.credentials.Credentials("AKID", "secret", token or None)
    with mock.patch.object(botocore.auth, "get_current_datetime", lambda *_, **__: now):
        signer = botocore.auth.S3SigV4Auth(keys, "s3", region)
        unsigned = body and server.startswith("https")
        signer.payload = lambda _: "UNSIGNED-PAYLOAD" if unsigned else hashlib.sha256(body.encode()).hexdigest()
        signer.add_auth(request)
    return request.headers["Authorization"].replace(", ", ",")


def main():
    numbers = random.Random(48)
    cases = [case(numbers) for _ in range(2000)]
    lines = "".join("\t".join(word.encode().hex() for word in words) + "\n" for words in cases)
    ours = subprocess.run(sys.argv[1], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(ours) == len(cases)
    for words, signed in zip(cases, ours):
        theirs = of_botocore(*words)
        assert signed == theirs, (words, signed, theirs)
    print(f"{len(cases)} requests are signed alike")


if __name__ == "__main__":
    main()
