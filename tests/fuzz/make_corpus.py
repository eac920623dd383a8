#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small files, intact, cut and with a flipped byte, each behind
the bytes that its target takes for itself (fuzz_target.h says which).

make_corpus.py DATA CORPUS: DATA is tests/data, CORPUS the folder of the seeds. What a fuzzer found and
was kept there (found-*) stays, and so do manifests (manifest/), which `ringfeed index` makes. Run it by hand, with Pillow, after a change here: the seeds are committed.
"""

import bz2
import gzip
import io
import lzma
import pathlib
import struct
import sys
import tarfile
import zlib


sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "damage"))
import riegeli
import slow_decoder


def masked(data):
    return struct.pack("<I", slow_decoder.masked(data))


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    """Protobuf: a field that has a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(key, kind, run):
    """An entry of a map from names to features whose list has one value, or one packed run."""
    return field(1, field(1, key) + field(2, field(kind, field(1, run))))


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def tfrecord(*payloads):
    file = b""
    for payload in payloads:
        length = struct.pack("<Q", len(payload))
        file += length + masked(length) + payload + masked(payload)
    return file


# Of real writers, which Python lacks: the zstd and lz4 commands with their checksums, brotli 1.2.0, cramjam.
PACKED = {name: bytes.fromhex(text) for name, text in {
    "zstd": (
        "28b52ffd24f9750200c4030500eab2043e666972737455ff23e50029039807d8ea82a20d003c37b83474686520746869"
        "7264206f6e65c7a36aa001000175de4178503daa61050006001b2b5000860f46030301590d000b6f2e7e48"),
    "lz4": (
        "04224d187440bd550000002205000100d2eab2043e666972737455ff23e51300b0000029039807d8ea82a20d0d00f10a"
        "0000003c37b834746865207468697264206f6e65c7a36aa0011b00bf00000175de4178503daa6153008e5078503daa61"
        "753fb85700000000479d3168"),
    "brotli": (
        "1bf800f82f8e77100f825815a151e831b7221e78cef677e18446f3e1017c3f3fb528f2300ea3c0028db25ba41ab8c903"
        "3cc1245013ada0d11ce82309930331c46102f85dd4f2f8cf9e00b9a3fbef5340f95a2c6d70bfdb6e3b0580e0f050539d"
        "a700"),
    "snappy": (
        "f901040500090130eab2043e666972737455ff23e5091328000029039807d8ea82a20d0d11543c37b834746865207468"
        "697264206f6e65c7a36aa0010d1d200175de4178503daa61fe5300fe5300965300"),
}.items()}
PACKED_CONTENT = tfrecord(b"first", b"", b"the third one", b"x") * 3


def framed(records):
    return b"".join(struct.pack("<I", len(record)) + record for record in records)


def fluid(records, stored=None, compressor=0):
    stored = framed(records) if stored is None else stored
    return struct.pack("<5I", 0x01020304, len(records), zlib.crc32(stored), compressor, len(stored)) + stored


def go(records, stored=None, compressor=0):
    stored = framed(records) if stored is None else stored
    return struct.pack("<5I", 0x01020304, zlib.crc32(stored), compressor, len(stored), len(records)) + stored


def snappy_block(data):
    """Snappy's own encoding: a literal, and a copy of what repeats at its end."""
    assert 8 < len(data) <= 60
    half = data[: len(data) - 4]
    copy = bytes([0 << 5 | (4 - 4) << 2 | 1, 4])  # 4 bytes, 4 back
    assert half.endswith(data[-4:])
    return varint(len(data)) + bytes([len(half) - 1 << 2]) + half + copy


def stream_block(data, packed):
    """Of Fluid's framing."""
    stored = snappy_block(data) if packed else data
    return bytes([packed]) + struct.pack(">H", len(stored)) + masked(data)[::-1] + stored


def official_block(data, packed):
    stored = snappy_block(data) if packed else data
    return struct.pack("<I", len(stored) + 4 << 8 | (not packed)) + masked(data) + stored


def snappy_stream(data):
    return b"snappy\0" + stream_block(data, False) + stream_block(b"abcdabcdabcd", True)


def snappy_official(data):
    return (b"\xff\6\0\0sNaPpY" + official_block(data, False) + b"\xfe\3\0\0pad"
            + official_block(b"abcdabcdabcd", True))


def ofrecord_message():
    return (feature(b"encoded", 1, b"\xff\xd8pixels") + feature(b"class/label", 4, varint(7))
            + feature(b"x", 2, floats(1, 2, 3)) + feature(b"d", 3, struct.pack("<2d", 0.5, 1e300))
            + feature(b"n", 5, varint(1) + varint(2**64 - 1)))


def ofrecord(*messages):
    return b"".join(struct.pack("<q", len(message)) + message for message in messages)


def tar(style=tarfile.USTAR_FORMAT, pax=None, names=("a/0.cls", "a/0.jpg", "b.cls"), contents=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=style, pax_headers=pax or {}) as archive:
        for i, name in enumerate(names):
            info = tarfile.TarInfo(name.rstrip("/"))
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            content = contents[i] if contents else b"abcdefgh"[: 0 if name.endswith("/") else i + 1]
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    blocks = out.getvalue().rstrip(b"\0")
    return blocks + bytes(-len(blocks) % 512) + bytes(1024)


def npy(version, descr, fortran, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def tokens(magic, version, count, data):
    return struct.pack("<3i", magic, version, count) + bytes(4 * 253) + data


def mds(*values):
    """A shard of MosaicML's of an int and of bytes."""
    text = b'{"column_encodings": ["int", "bytes"], "column_names": ["a", "b"], "column_sizes": [8, null]}'
    samples = [struct.pack("<Iq", len(value), i) + value for i, value in enumerate(values)]
    offsets = [8 + 4 * len(samples) + len(text)]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    return struct.pack(f"<{len(samples) + 2}I", len(samples), *offsets) + text + b"".join(samples)


def litdata(*values, frames=0):
    """A chunk of LitData of an int, of bytes and of JSON; frames: in frames of zstd of so many items."""
    items = [struct.pack("<3Iq", 8, len(value), 2, i) + value + b"[]" for i, value in enumerate(values)]
    ends = [sum(map(len, items[:i])) for i in range(len(items) + 1)]
    if frames == 0:
        return struct.pack(f"<{len(ends) + 1}I", len(items), *(8 + 4 * len(items) + end for end in ends)) + b"".join(items)
    parts = [b"".join(items[i : i + frames]) for i in range(0, len(items), frames)]
    # One block each that is stored as it is.
    stored = [b"\x28\xb5\x2f\xfd\x20" + bytes([len(part)]) + (len(part) << 3 | 1).to_bytes(3, "little") + part
              for part in parts]
    at = 24 + 4 * len(ends) + 24 * len(parts)
    head = b"LDFZ01\0\0" + struct.pack(f"<2H3I{len(ends)}I", 1, 0, len(items), frames, len(parts), *ends)
    for i, (part, frame) in enumerate(zip(parts, stored)):
        head += struct.pack("<2IQ2I", i * frames, min(frames, len(items) - i * frames), at, len(frame), len(part))
        at += len(frame)
    return head + b"".join(stored)


def array_record(file):
    """Without its zeros, as its target takes it."""
    last = len(file) - riegeli.BLOCK
    return file[:last].rstrip(b"\0") + bytes(8) + file[last:][:160]


def megatron(sizes, pointers, documents, data, kind=8):
    index = (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, kind, len(sizes), documents)
             + struct.pack(f"<{len(sizes)}i", *sizes) + struct.pack(f"<{len(pointers)}q", *pointers)
             + struct.pack(f"<{documents}q", *range(documents)))
    return struct.pack("<H", len(index)) + index + data


def zstd_blocks():
    """A frame of a raw block and one of a repeated byte, behind a frame to be passed over."""
    frame = b"\x28\xb5\x2f\xfd\x20\x0b" + struct.pack("<I", 3 << 3)[:3] + b"abc" + struct.pack("<I", 8 << 3 | 2 | 1)[:3] + b"z"
    return b"\x50\x2a\x4d\x18\3\0\0\0xyz" + frame


def example():
    return field(1, feature(b"image", 1, b"\xff\xd8pixels") + feature(b"label", 3, varint(7))
                 + feature(b"small", 3, varint(1) + varint(2)) + feature(b"x", 2, floats(1, 2, 3))
                 + feature(b"v", 2, floats(1, 2, 3, 4)))


def sequence():
    steps = lambda kind, *runs: b"".join(field(1, field(kind, field(1, run))) for run in runs)
    lists = [(b"tokens", steps(3, varint(5), varint(6))), (b"x", steps(2, floats(1, 2), floats(3, 4))),
             (b"s", steps(1, b"abc", b"def"))]
    context = feature(b"id", 3, varint(9)) + feature(b"w", 2, floats(0.5))
    return field(1, context) + field(2, b"".join(field(1, field(1, key) + field(2, value)) for key, value in lists))


def lod_tensor(levels, dtype, dims, data):
    stream = struct.pack("<IQ", 0, len(levels))
    for level in levels:
        stream += struct.pack(f"<{1 + len(level)}Q", 8 * len(level), *level)
    desc = b"\x08" + varint(dtype) + b"".join(b"\x10" + varint(dim) for dim in dims)
    return stream + struct.pack("<Ii", 0, len(desc)) + desc + data


def lod_record():
    return struct.pack("<I", 4) + b"".join([
        lod_tensor([], 5, [1, 2], floats(1, 2)), lod_tensor([[0, 2, 3]], 3, [3, 1], struct.pack("<3q", 7, 8, 9)),
        lod_tensor([[0, 1], [0, 2]], 1, [2], b"aabb"), lod_tensor([], 20, [2], b"LL")])


def instance_field(name, dtype, dims, data, levels=(), more=b""):
    """Of an Instance (proto/ringfeed/instance.proto); `more` stands in its description."""
    desc = field(1, name) + b"\x10" + varint(dtype) + field(3, b"".join(map(varint, dims))) + more
    if levels:
        desc += b"\x20" + varint(len(levels))
    return field(1, field(1, desc) + field(2, data)
                 + b"".join(field(3, struct.pack(f"<{len(level)}q", *level)) for level in levels))


def instance_record():
    return (instance_field(b"image", 5, [1, 2], floats(1, 2)) + instance_field(b"other", 22, [1], b"bf")
            + instance_field(b"words", 3, [3, 1], struct.pack("<3q", 7, 8, 9), [[0, 2, 3]]) + field(9, b"unknown")
            + instance_field(b"nested", 1, [2], b"aabb", [[0, 1], [0, 2]], field(7, b"new"))
            + instance_field(b"label", 101, [2], b"LLLLMMMM") + instance_field(b"ok", 0, [], b"\1"))


def unusual_instance_record():
    """Dimensions unpacked, a description in two parts behind the value, a group, a name twice that is no slot's."""
    image = field(2, floats(1, 2)) + field(1, field(1, b"image") + b"\x18\1") + field(1, b"\x10\5\x18\2")
    return (field(1, image) + b"\x2b" + field(1, b"in a group") + b"\x2c" + instance_field(b"a", 3, [0], b"") * 2
            + instance_record()[len(instance_field(b"image", 5, [1, 2], floats(1, 2))):])


def rows(*records):
    """How a parser's target takes its rows."""
    assert len(records) <= 4
    return bytes([len(records) - 1]) + b"".join(bytes([len(r)]) + r for r in records[:-1]) + records[-1]


def damaged(data):
    """The file, its first two thirds, and a byte of it flipped."""
    flipped = bytearray(data)
    flipped[len(data) * 3 // 5] ^= 4
    return {"intact": data, "cut": data[: len(data) * 2 // 3], "flipped": bytes(flipped)}


def files(data):
    read = lambda name: (data / name).read_bytes()
    line = b'{"id": 7, "text": "a\\u00e9\\n", "v": [1, 2.5], "w": [[1, 2], [3, 4]], "ok": true, "n": [[1, 2]]}'
    return {
        "tfrecord": {"three": tfrecord(b"first", b"", b"the third" * 5), "examples": read("tfrecord/edge_examples.tfrecord")},
        "recordio": {"none": fluid([b"ABC", b""]) + go([b"x" * 30]) + fluid([b"BCD"]),
                     "gzip": go([b"y" * 40, b"z"], gzip.compress(framed([b"y" * 40, b"z"]), mtime=0), 2) + go([b"x"]),
                     "snappy": fluid([b"q" * 9], snappy_stream(framed([b"q" * 9]))[:7 + 7 + 13], 1) + fluid([b"x"]),
                     "tiny": read("recordio/tiny_snappy.recordio"),
                     "official": go([b"q" * 9], snappy_official(framed([b"q" * 9]))[:10 + 8 + 13], 1) + go([b"x"])},
        "ofrecord": {"three": ofrecord(ofrecord_message(), feature(b"a", 1, b""), ofrecord_message()),
                     "genuine": read("ofrecord/prefix_suffix3/train.data-000")},
        "tar": {"ustar": tar(), "joined": tar(names=("k.jpg", "k.cls") * 2), "folder": tar(names=("dir/", "a.x")), "gnu": tar(tarfile.GNU_FORMAT, names=("n" * 120 + ".jpg", "b.txt")),
                "pax": tar(tarfile.PAX_FORMAT, names=("ü" * 60 + ".jpg", "b.txt")),
                "global": tar(tarfile.PAX_FORMAT, {"path": "g.all"}, ("a.x", "b.x"))},
        "lines": {"ends": b"one\n\r\ntwo\r\nthree\rfour\n\nfive and no end", "json": line + b"\n" + line,
                  "returns": b"a\rb\rc", "wide": "id\n1\n".encode("utf-16")},
        "jsonl": {"blank": b"\xef\xbb\xbf\n" + line + b"\n\n \t\r\n" + line + b"\r\n\n{}\n  ",
                  "wide": "{}\n".encode("utf-16-be")},
        "csv": {"quotes": b'\xef\xbb\xbfid,a\r\n0,"x\n""y"""\r\n\r\n1,plain "not"\n2,"open"x\n3,last',
                "open": b'id\n1\n"never closed\n2\n'},
        "csv_columns": {"other": b'\xef\xbb\xbfa,"more",id\r\n1,"x,""y""\n",2\n\n3,4\n5,,6', "lacks": b"a,b\n1,2\n"},
        "npy": {"rows": npy(1, "<i2", "False", "(3, 2)", bytes(range(12))),
                "fortran": npy(2, ">f4", "True", "(2, 3)", bytes(range(24))),
                "scalar": read("numpy/scalar.npy"), "empty": npy(3, "|u1", "False", "(0, 7)", b"")},
        "tokens": {"u2": tokens(20240520, 1, 7, bytes(range(14))), "u4": tokens(20240801, 7, 6, bytes(range(24)))},
        "rows": {"five": b"hdr" + b"abcde12" * 4 + b"abcde"},
        "mds": {"three": mds(b"first", b"", b"the third"), "genuine": read("mds/columns_none/shard.00002.mds")},
        "litdata": {"three": litdata(b"first", b"", b"the third"), "frames": litdata(b"a", b"bc", b"", frames=2),
                    "arrow": read("litdata/arrow/chunk-0-1.bin"), "zstd": read("litdata/arrow_zstd/chunk-0-1.bin"),
                    "items": read("litdata/items/chunk-0-2.bin")},
        "arrayrecord": {"groups": array_record(riegeli.array_record([b"first", b""], [b"the third"])),
                        "genuine": array_record(gzip.decompress(read("array_record/group_size65536.array_record.gz"))),
                        "snappy": array_record(gzip.decompress(read("array_record/group_size7_snappy.array_record.gz")))},
        "megatron": {"three": megatron([3, 1, 2], [0, 6, 8], 1, bytes(range(12))),
                     "gap": megatron([1, 1], [0, 6], 0, bytes(range(8))),
                     "wrong": megatron([3, -1, 2], [0, 60, 8], 2, bytes(range(12)))},
    }


def texts():
    line = b'{"id": 7, "text": "a\\u00e9\\n", "v": [1, 2.5], "w": [[1, 2], [3, 4]], "ok": true, "n": [[1, 2]]}'
    made = {
        "parse_raw": [b"abc", b"", b"a longer one"],
        "parse_rows": [struct.pack("<3fqB", 1, 2, 3, -4, 5), struct.pack("<3fqB", 0, 0, 0, 0, 0)],
        "parse_example": [example(), field(1, feature(b"label", 3, varint(2**64 - 5)) + feature(b"image", 1, b""))],
        "parse_sequence": [sequence(), field(1, feature(b"id", 3, varint(1)))],
        "parse_nested": [sequence(), field(1, feature(b"id", 3, varint(1)))],
        "parse_ofrecord": [ofrecord_message(), feature(b"class/label", 5, varint(1)) + feature(b"encoded", 1, b"")],
        "parse_csv": [b'7,1.5,-2e3,"a ""b"" ,",0.25,9,True', b"8,,NA,plain,N/A,,", b"+9, 1 ,inf,x,nan,-1,FALSE"],
        "parse_lod": [lod_record(), lod_record()[:-1] + b"M"],
        "parse_instance": [instance_record(), unusual_instance_record()],
        "parse_tokens": [bytes(range(12)), b"\xff\xfe"],
        "parse_tar": [tar(names=("k.jpg", "k.cls", "k.npy", "k.json"), contents=(
            b"a", b"7", npy(1, "<f4", "True", "(2, 2)", floats(1, 2, 3, 4)), b'{"a": {"b": 7}, "t": ["a", "bc"]}'))[:4096]],
        "parse_mds": [struct.pack("<4Iq", 2, 19, 4, 1, 7) + b"ab" + b"\x22\x08\1\2" + floats(1, 2)[:8] + bytes(7)
                      + b"\4\1\2\0" + b"s" + bytes(8),
                      struct.pack("<4Iq", 0, 12, 6, 0, 7) + b"\x22\x08\1\2" + floats(1, 2)[:8]
                      + b"\4\2\1\0\2\0" + bytes(range(8))],
        "parse_litdata": [struct.pack("<7Iq", 8, 2, 24, 15, 16, 1, 1, 7) + b"ab" + struct.pack(">4I", 1, 2, 1, 2)
                          + floats(1, 2)[:8] + struct.pack("<3I", 4, 1, 3) + b"xyz" + bytes(17) + b"s"],
        "parse_json_paths": [b'{"a": {"b": 7, "t": ["a", "", "b\\n"]}, "x/y": [0, {"z": 1.5}], "t": []}',
                             b'{"a": [null, "item"], "x/y": null}', b'{"a": {"b": 1, "b": 1}}'],
        "parse_jsonl": [line, b'{"text": "\\ud83c\\udf89 \\" \\\\", "id": -1, "other": {"a": [null, "]"]}, "v": null}'],
    }
    inferred = {f"infer_{kind}": made[f"parse_{kind}"] for kind in ("example", "jsonl", "tar")}
    return {**made, **inferred, "infer_csv": [b'id,"x ""y""",,z', b'1,2.5,"a, b",', b"-7,inf,,4"]}


def streams(data):
    text = b"the same again and again and the same again\n" * 3 + bytes(range(64))
    member = gzip.compress(text, mtime=0)
    named = io.BytesIO()
    with gzip.GzipFile("name", "wb", 9, named, 0) as file:
        file.write(b"with a name")
    stored = zlib.compressobj(0, zlib.DEFLATED, -15)
    flushed = zlib.compressobj(9)
    pieces = flushed.compress(text) + flushed.flush(zlib.Z_SYNC_FLUSH) + flushed.compress(text) + flushed.flush()
    raw = stored.compress(b"stored") + stored.flush()
    trailer = struct.pack("<II", zlib.crc32(b"stored"), 6)
    return {
        "gzip": {"two": member + named.getvalue() + bytes(8), "stored": b"\x1f\x8b\x08\0\0\0\0\0\0\3" + raw + trailer,
                 "grows": gzip.compress(bytes(30000), mtime=0)},
        "zlib": {"two": zlib.compress(text) + zlib.compress(b""), "flushed": pieces, "grows": zlib.compress(bytes(30000))},
        "zstd": {"lines": (data / "text/objects.jsonl.zst").read_bytes(), "blocks": zstd_blocks()},
        "bzip2": {"two": bz2.compress(text) + bz2.compress(b""), "grows": bz2.compress(bytes(30000))},
        "xz": {"two": lzma.compress(text) + lzma.compress(b""), "grows": lzma.compress(bytes(30000))},
        **{name: {"records": stream, "two": stream * 2} for name, stream in PACKED.items() if name != "zstd"},
        "snappy_stream": {"both": snappy_stream(text[:50])},
        "snappy_official": {"both": snappy_official(text[:50])},
    }


def images():
    """JPEGs of each kind, by Pillow."""
    from PIL import Image  # the searches, which import this file, do without it
    picture = Image.frombytes("RGB", (24, 17), bytes(i * i // 7 % 256 for i in range(24 * 17 * 3)))
    kinds = {
        "plain": ("RGB", {"subsampling": "4:2:0"}),
        "whole": ("RGB", {"subsampling": "4:4:4"}),
        "gray": ("L", {}),
        "four": ("CMYK", {}),
        "progressive": ("RGB", {"progressive": True}),
        "restarts": ("RGB", {"restart_marker_rows": 1}),
    }
    for name, (mode, options) in kinds.items():
        file = io.BytesIO()
        picture.convert(mode).save(file, "JPEG", quality=50, **options)
        yield name, file.getvalue()


def of_metrics():
    """(target, name, bytes) of what the metrics server and its variable are given."""
    request = b"GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nAccept: application/openmetrics-text;q=0.5\r\n\r\n"
    requests = {"get": request, "head": b"HEAD / HTTP/1.0\n\n", "name": b"GET / HTTP/1.1\nhost: [::1]:80\n\nmore\r\n\r\n"}
    for name, text in requests.items():
        yield "http", name, b"\x10" + text
    addresses = {"unix": b"unix:/tmp/%p.sock", "tcp": b"127.0.0.1:900%r", "six": b"[::1]:0", "file": b"m/%%.prom",
                 "public": b"0.0.0.0:80"}
    for name, text in addresses.items():
        yield "metrics_address", name, b"\1" + text


def of_remote():
    """(target, name, bytes) of addresses, heads, listings and credentials."""
    addresses = {"s3": b"s3://bucket/a b/=?x=1", "pathlib": b"s3:/bucket/a", "user": b"https://u:p@h/x",
                 "https": b"https://host:81/a%20b?sig=1", "azure": b"az://account/container/a",
                 "hub": b"hf://datasets/org/name@refs/convert/parquet/d/a", "google": b"gs://b.c/"}
    for name, text in addresses.items():
        yield "remote_address", name, text
    listings = {
        "s3": b"\0<?xml version='1.0'?><ListBucketResult xmlns='x'><EncodingType>url</EncodingType><IsTruncated>true"
              b"</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>a+%C3%A4</Key>"
              b"<ETag>&quot;1&quot;</ETag><Size>7</Size></Contents></ListBucketResult>",
        "azure": b"\1<EnumerationResults><Blobs><Blob><Name Encoded='true'>a%20b</Name><Properties><Etag>0x1</Etag>"
                 b"<Content-Length>5</Content-Length></Properties></Blob></Blobs><NextMarker>m</NextMarker>"
                 b"</EnumerationResults>",
        "hub": b'\2<https://h/n>; rel="next"\n[{"type":"file","path":"d/a","size":9,"lfs":{"size":9}}]',
        "entity": b"\0<!DOCTYPE a [<!ENTITY x 'y'>]><ListBucketResult>&x;</ListBucketResult>",
        "error": b"\0<Error><Code>NoSuchKey</Code><Message>m</Message></Error>",
    }
    for name, text in listings.items():
        yield "remote_listing", name, text
    heads = {
        "range": b"HTTP/1.1 206 Partial Content\r\nServer: s\r\nContent-Length: 10\r\nETag: \"1\"\r\n"
                 b"Content-Range: bytes 0-9/100\r\nConnection: close\r\n\r\n",
        "later": b"HTTP/1.1 503 Slow Down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
        "chunked": b"HTTP/1.1 206\r\ntransfer-encoding:chunked\r\n\r\n",
    }
    for name, text in heads.items():
        yield "remote_head", name, text
    keys = {
        "file": b"\0[default]\naws_access_key_id = A ; c\n[profile b]\ns3 =\n  addressing_style = path\n# c\n",
        "json": b'\1{"AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"2026-12-01T00:00:00Z"}',
        "xml": b"\2<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A"
               b"</AccessKeyId><SecretAccessKey>S</SecretAccessKey></Credentials></AssumeRoleWithWebIdentityResult>"
               b"</AssumeRoleWithWebIdentityResponse>",
    }
    for name, text in keys.items():
        yield "credentials", name, text


def of_subsets():
    """Subsets of ten records, by numbers of four and of eight bytes, whose checksums are to be set right."""
    for width, records in ((4, 10), (8, 2**33)):
        numbers = (0, 3, 9)
        header = struct.pack("<16sII7Q4I64H", b"ringfeed subset\0", 1, 0, 1, 100, records, 7, 8, len(numbers),
                             9, 0, width, 2, 0, 11, 12, *[0] * 62)
        yield f"numbers_of_{width}", b"\1" + header + b"".join(number.to_bytes(width, "little") for number in numbers)


def of_arrow():
    """Arrays of each kind (kFormats of arrow_target.cc), whole and broken, of some formats as text."""
    kinds, struct_of = 21, 17
    for kind in range(kinds):
        column = bytes([kind, 5, 1, kind % 3]) + bytes(range(40, 44)) * 2 + bytes([0, 1, 0, 0] * 12)
        for broken in (0, 2 * (kind % 10)):
            yield "arrow", f"kind{kind}-{broken}", bytes([broken, 0]) + column
        yield "arrow", f"member{kind}", bytes([5, 0, struct_of, 4, 0, 0, 2]) + column * 2
    for number, text in enumerate((b"d:5,2,64", b"w:9", b"+w:0", b"tsn:", b"+ud:0,1", b"d:1,2,3")):
        yield "arrow", f"format{number}", bytes([0, len(text), 2, 0, 0, 0]) + text


def seeds(data):
    """(target, name, bytes) of every seed."""
    for name, image in images():
        for how, variant in damaged(image).items():
            yield "jpeg", f"{name}-{how}", b"\0\x91" + variant
    yield from of_metrics()
    yield from of_arrow()
    yield from of_remote()
    for name, file in of_subsets():
        for how, variant in damaged(file).items():
            yield "subset", f"{name}-{how}", variant
    for piece in (data / "piece_cache").iterdir():
        for how, variant in damaged(piece.read_bytes()).items():
            yield "piece", how, variant
    for target, named in files(data).items():
        for name, file in named.items():
            for how, variant in damaged(file).items():
                # Split under either policy; repaired; of unknown size with stripes of 64 bytes.
                for control, word in ((b"\0\7", ""), (b"\6\3", "-repaired"), (b"\xa1\1", "-stripes")):
                    if how == "intact" or word == "":
                        yield target, f"{name}-{how}{word}", control + variant
    for target, records in texts().items():
        yield target, "one", rows(records[0])
        if len(records) > 1:
            yield target, "all", rows(*records)
        for how, variant in damaged(records[0]).items():
            fits = len(variant) < 256  # in a byte; else it stands last, behind none
            yield target, f"{how}-first", rows(variant, *records) if fits else rows(variant)
    for target, named in streams(data).items():
        for name, stream in named.items():
            for how, variant in damaged(stream).items():
                yield target, f"{name}-{how}", b"\x13" + variant
            yield target, f"{name}-file", b"\xf5" + stream
    for target, named in files(data).items():
        for name, file in named.items():
            yield "detect", f"{target}-{name}", file
    yield "detect", "zlib", zlib.compress(b"one line\n")


def main():
    data, corpus = map(pathlib.Path, sys.argv[1:3])
    for old in corpus.glob("*/*"):
        if not old.name.startswith("found-") and old.parent.name != "manifest":
            old.unlink()
    for target, name, seed in seeds(data):
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(seed)


if __name__ == "__main__":
    main()
