#!/usr/bin/env python3
"""`ringfeed cat --as json`: parsed records, an object a line."""

import base64
import io
import json
import math
import struct
import tarfile

from command_line import DATA, CommandTest, main, run


def varint(value):
    value %= 2**64
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def floats(values, code="f"):
    return field(1, struct.pack(f"<{len(values)}{code}", *values))


def ints(values):
    return field(1, b"".join(map(varint, values)))


def blobs(values):
    return b"".join(field(1, value) for value in values)


def entry(name, number, values):
    return field(1, field(1, name.encode()) + field(2, field(number, values)))


def example(**lists):
    """A tf.Example; each list by its kind (1 bytes, 2 floats, 3 integers) and its encoded values."""
    return field(1, b"".join(entry(name, *values) for name, values in lists.items()))


class CatJsonTest(CommandTest):
    def objects(self, path, *words, status=0):
        result = run("cat", path, "--as", "json", *words)
        self.assertEqual(result.returncode, status, result.stderr)
        return [json.loads(line) for line in result.stdout.split("\n")[:-1]]

    def rows(self, data, fields, *words):
        """The rows of a file of packed columns."""
        path = self.folder / "a.rows"
        path.write_bytes(data)
        return self.objects(path, "--parse", f"rows: {fields}", *words)

    def jsonl(self, *lines, parse):
        path = self.folder / "a.jsonl"
        path.write_text("".join(line + "\n" for line in lines))
        return self.objects(path, "--format", "jsonl", "--parse", f"jsonl: {parse}")

    def test_scalars_are_numbers_and_shapes_nested_arrays(self):
        data = struct.pack("<6fq3B", 1, 2, 3, 4, 5, 6, -7, 8, 9, 255)
        self.assertEqual(self.rows(data, "x=f4[2,3] y=i8 z=u1[3]", "--format", "rows:35"),
                         [{"x": [[1, 2, 3], [4, 5, 6]], "y": -7, "z": [8, 9, 255]}])

    def test_every_type(self):
        cases = {"b1": ("?", True), "u1": ("B", 255), "i1": ("b", -128), "u2": ("H", 65535),
                 "i2": ("h", -32768), "u4": ("I", 2**32 - 1), "i4": ("i", -(2**31)),
                 "u8": ("Q", 2**64 - 1), "i8": ("q", -(2**63)), "f2": ("e", -1.5), "f4": ("f", 0.5),
                 "f8": ("d", 1e300)}
        data = b"".join(struct.pack("<" + code, value) for code, value in cases.values())
        fields = " ".join(f"{name}={name}" for name in cases)
        (found,) = self.rows(data, fields, "--format", f"rows:{len(data)}")
        self.assertEqual(found, {name: value for name, (_, value) in cases.items()})
        self.assertEqual([type(v) for v in found.values()], [type(v) for _, v in cases.values()])

    def test_numbers_have_the_digits_that_they_need(self):
        data = struct.pack("<2fd", 0.1, 16777216.0, 0.1)
        path = self.folder / "a.rows"
        path.write_bytes(data)
        line = run("cat", path, "--format", "rows:16", "--as", "json", "--parse", "rows: f4[2] f8").stdout
        self.assertIn("[0.1, 16777216.0]", line)
        self.assertEqual(json.loads(line)["c1"], 0.1)

    def test_half_floats(self):
        values = [0.0, -0.0, 1.0, 65504.0, 2.0**-24, 2.0**-14, math.inf, -math.inf, 0.333251953125]
        data = struct.pack(f"<{len(values)}e", *values)
        (found,) = self.rows(data, f"x=f2[{len(values)}]", "--format", f"rows:{len(data)}")
        self.assertEqual([struct.pack("<f", value) for value in found["x"]],
                         [struct.pack("<f", value) for value in values])
        data = b"".join(struct.pack("<f", value)[2:] for value in (1.0, -2.5, math.inf))
        self.assertEqual(self.rows(data, "x=bf2[3]", "--format", "rows:6"), [{"x": [1.0, -2.5, math.inf]}])

    def test_what_is_no_number_is_as_python_has_it(self):
        data = struct.pack("<3f3d", math.nan, math.inf, -math.inf, math.nan, math.inf, -math.inf)
        (found,) = self.rows(data, "x=f4[3] y=f8[3]", "--format", "rows:36")
        for values in found.values():
            self.assertTrue(math.isnan(values[0]))
            self.assertEqual(values[1:], [math.inf, -math.inf])

    def test_ragged_fields(self):
        found = self.jsonl('{"v": [1, 2.5], "m": [[1, 2], [3, 4]], "s": "\\u00e4\\n\\"\\\\"}',
                           '{"v": [], "m": [], "s": ""}', parse="v=f4[] m=i4[,2] s=u1[]")
        self.assertEqual(found, [{"v": [1.0, 2.5], "m": [[1, 2], [3, 4]], "s": 'ä\n"\\'},
                                 {"v": [], "m": [], "s": ""}])

    def test_bytes_are_a_string_where_they_are_utf8(self):
        payloads = [b"", "grüße €𝄞".encode(), b"\x00\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80",
                    b"\xc0\x80", b"\xf4\x90\x80\x80", bytes(range(256))]
        path = self.write("a.tfrecord", payloads)
        for payload, found in zip(payloads, self.objects(path, "--parse", "raw"), strict=True):
            try:
                self.assertEqual(found, {"bytes": payload.decode()})
            except UnicodeDecodeError:
                self.assertEqual(found, {"bytes": {"base64": base64.b64encode(payload).decode()}})

    def test_examples_by_their_parser(self):
        path = self.write("a.tfrecord", [example(image=(1, blobs([b"\xff\xd8"])), label=(3, ints([-3]))),
                                         example(label=(3, ints([4])), image=(1, blobs([b"text"])))])
        found = self.objects(path, "--parse", "example: image=u1[] label=i8")
        self.assertEqual(found, [{"image": {"base64": "/9g="}, "label": -3}, {"image": "text", "label": 4}])

    def test_features_of_examples_are_found_by_themselves(self):
        unpacked = b"".join(varint(1 << 3 | 5) + struct.pack("<f", value) for value in (1.5, -2.5))
        singles = b"".join(varint(1 << 3) + varint(value) for value in (7, -7))
        path = self.write("a.tfrecord", [
            example(a=(1, blobs([b"x", b"\xff"])), b=(2, floats([0.5, math.inf])), c=(3, ints([1, -1]))),
            example(b=(2, unpacked), c=(3, singles), d=(3, b"")),
            b"",
        ])
        self.assertEqual(self.objects(path), [
            {"a": ["x", {"base64": "/w=="}], "b": [0.5, math.inf], "c": [1, -1]},
            {"b": [1.5, -2.5], "c": [7, -7], "d": []},
            {},
        ])

    def test_sequences_of_sequence_examples(self):
        steps = b"".join(field(1, field(3, ints(values))) for values in ([1], [2, 3], []))
        record = (example(id=(3, ints([7]))) +
                  field(2, field(1, field(1, b"tokens") + field(2, steps)) + field(1, field(1, b"none"))))
        path = self.write("a.tfrecord", [record])
        self.assertEqual(self.objects(path), [
            {"id": [7], "feature_lists": {"tokens": [[1], [2, 3], []], "none": []}}])
        found = self.objects(DATA / "tfrecord" / "sequence_examples.tfrecord")
        self.assertTrue(any(row.get("feature_lists") for row in found))

    def test_genuine_examples(self):
        found = self.objects(DATA / "tfrecord" / "examples.tfrecord")
        self.assertEqual(len(found), 40)
        self.assertTrue(all(isinstance(v, list) for row in found for v in row.values()))
        self.objects(DATA / "tfrecord" / "edge_examples.tfrecord")

    def test_features_of_ofrecords_are_found_by_themselves(self):
        records = [entry("b", 1, blobs([b"x"])) + entry("f", 2, floats([0.5])) +
                   entry("d", 3, floats([0.1], "d")) + entry("i", 4, ints([-1])) + entry("l", 5, ints([2**40]))]
        path = self.folder / "a.ofrecord"
        path.write_bytes(b"".join(struct.pack("<q", len(record)) + record for record in records))
        self.assertEqual(self.objects(path), [{"b": ["x"], "f": [0.5], "d": [0.1], "i": [-1], "l": [2**40]}])
        self.assertTrue(self.objects(DATA / "ofrecord" / "imagenet_like" / "part-00000")[0]["class/label"])

    def test_sequences_of_lod_tensors_are_arrays(self):
        folder = DATA / "fluid_recordio"
        rows = self.objects(folder / "lod1_empty_sequences_none_max1000.recordio", "--parse",
                            "lod: words=i8[,1]/1 score=f4[,1]")
        self.assertEqual([len(sequence) for sequence in rows[2]["words"]], [2, 7, 0, 0])
        self.assertEqual(rows[2]["words"][0], [[42269], [33767]])
        self.assertEqual(len(rows[2]["score"]), 4)
        nested = self.objects(folder / "lod2_none_max3.recordio", "--parse",
                              "lod: points=f4[,2]/2 label=i8[,1]")[0]
        self.assertEqual([[len(low) for low in top] for top in nested["points"]], [[3, 5], [2, 2], [4]])
        self.assertEqual(nested["label"], [[0], [1], [1]])

    def test_slots_of_instances_are_found_by_name(self):
        words = field(1, field(1, b"words") + b"\x10\x03" + field(3, b"\x03\x01") + b"\x20\x01") + field(
            2, struct.pack("<3q", 7, 8, 9)) + field(3, struct.pack("<3q", 0, 2, 3))
        label = field(1, field(1, b"label") + b"\x10\x14") + field(2, b"\x05")
        path = self.folder / "a.rows"
        path.write_bytes(field(1, words) + field(1, label))
        rows = self.objects(path, "--format", "raw", "--parse", "instance: label=u1 words=i8[,1]/1")
        self.assertEqual(rows, [{"label": 5, "words": [[[7], [8]], [[9]]]}])

    def test_tokens_are_numbers(self):
        rows = self.objects(DATA / "tokens" / "llmc_gpt2.bin", "--format", "tokens:block=4",
                            "--parse", "tokens: u2 as i8")
        self.assertEqual(len(rows), 1250)
        self.assertEqual(rows[0], {"tokens": [4311, 38004, 48269, 14813]})

    def test_members_of_samples_by_their_parser(self):
        rows = self.objects(DATA / "webdataset" / "basic.tar", "--parse",
                            "tar: __key__=u1[] cls=i8 txt=u1[] png=u1[]?")
        self.assertEqual(rows[1], {"__key__": "000011", "cls": 1, "txt": "text 11\n", "png": ""})

    def test_lines_of_json_are_themselves(self):
        path = DATA / "text" / "objects.jsonl"
        self.assertEqual(self.objects(path), [json.loads(line) for line in path.read_text().split("\n")[:-1]])

    def test_samples_of_tar_files(self):
        path = self.folder / "a.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for name, data in (("s/1.cls", b"7"), ("s/1.jpg", b"\xff\xd8"), ("s/2.seg.txt", b"ab")):
                header = tarfile.TarInfo(name)
                header.size = len(data)
                archive.addfile(header, io.BytesIO(data))
        self.assertEqual(self.objects(path), [{"__key__": "s/1", "cls": "7", "jpg": {"base64": "/9g="}},
                                              {"__key__": "s/2", "seg.txt": "ab"}])

    def test_where_nothing_tells_the_fields_a_parser_is_asked_for(self):
        path = DATA / "recordio" / "go_none.recordio"
        self.assertIn("--parse", self.assert_refused(2, "cat", path, "--as", "json"))
        result = run("cat", "-", "--as", "json", stdin="")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--format", result.stderr)
        self.assertIn("--as json", self.assert_refused(2, "cat", path, "--as", "hex", "--parse", "raw"))
        self.assert_refused(2, "cat", path, "--as", "json", "--parse", "nonsense")

    def test_records_that_are_no_examples(self):
        path = self.write("a.tfrecord", [example(c=(3, ints([1]))), b"\xff\xff", example(c=(3, ints([2])))])
        result = run("cat", path, "--as", "json")
        self.assertEqual((result.returncode, result.stdout), (1, '{"c": [1]}\n'))
        self.assertIn("record 1: the record is no tf.Example", result.stderr)
        result = run("cat", path, "--as", "json", "--on-damage=skip")
        self.assertEqual((result.returncode, result.stdout), (1, '{"c": [1]}\n{"c": [2]}\n'))
        self.assertIn("skipped a record: record 1: ", result.stderr)

    def test_records_that_the_parser_refuses(self):
        path = self.folder / "a.jsonl"
        path.write_text('{"x": 1}\n{"x": "y"}\n{"x": 3}\n')
        words = ["cat", path, "--as", "json", "--parse", "jsonl: x=i8"]
        result = run(*words)
        self.assertEqual((result.returncode, result.stdout), (1, '{"x": 1}\n'))
        self.assertIn('"x"', result.stderr)
        result = run(*words, "--on-damage=skip")
        self.assertEqual((result.returncode, result.stdout), (1, '{"x": 1}\n{"x": 3}\n'))
        self.assertIn("skipped", result.stderr)

    def test_stdin(self):
        result = run("cat", "-", "--format", "jsonl", "--as", "json", stdin='{"a": 1}\n')
        self.assertEqual((result.returncode, result.stdout), (0, '{"a": 1}\n'))


if __name__ == "__main__":
    main()
