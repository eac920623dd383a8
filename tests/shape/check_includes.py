#!/usr/bin/env python3
"""Checks that whoever uses a name of the standard library includes its header, itself or by headers of
this project. So sources may be compiled one by one with these headers precompiled: what else is missing
shows there (compile_for_aarch64).

check_includes.py ROOT               prints each violation as FILE:LINE: MESSAGE; exit status 1 if there is one
check_includes.py --precompiled      prints the headers' names
"""

import functools
import pathlib
import re
import sys

FOLDERS = ("base", "gpu", "include", "io", "metrics", "queue", "readers", "tools")
#: By header the names after std:: (or std::ranges::) that it is known by.
NAMES = {
    "algorithm": "adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count count_if "
                 "equal equal_range fill fill_n find find_if find_if_not for_each generate includes is_sorted "
                 "lexicographical_compare lower_bound max max_element merge min min_element minmax mismatch none_of "
                 "nth_element partial_sort partition pop_heap push_heap remove remove_copy_if remove_if "
                 "replace reverse rotate search shuffle sort stable_partition stable_sort transform unique upper_bound",
    "array": "array to_array",
    "atomic": "atomic atomic_flag atomic_ref atomic_thread_fence memory_order memory_order_acq_rel "
              "memory_order_acquire memory_order_relaxed memory_order_release memory_order_seq_cst",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero endian has_single_bit popcount",
    "bitset": "bitset",
    "cctype": "isalnum iscntrl isdigit tolower toupper",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cmath": "ceil cos exp floor frexp ilogb isfinite isinf isnan ldexp lerp llround log log2 nextafter pow round "
             "signbit sqrt trunc",
    "condition_variable": "condition_variable condition_variable_any cv_status",
    "csetjmp": "jmp_buf longjmp",
    "csignal": "signal",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t size_t to_integer",
    "cstdint": "int8_t int16_t int32_t int64_t intptr_t uint8_t uint16_t uint32_t uint64_t uintmax_t "
               "uintptr_t",
    "cstdio": "FILE fclose ferror fflush fgetc fgets fopen fprintf fputs fread fwrite printf puts rename setvbuf "
              "snprintf sscanf",
    "cstdlib": "abort aligned_alloc atexit free getenv strtod strtoull",
    "cstring": "memchr memcmp memcpy memmove memset strerror strlen",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr rethrow_exception set_terminate terminate",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "bind_front cref equal_to function greater greater_equal hash invoke less less_equal mem_fn plus ref",
    "iterator": "back_inserter distance istreambuf_iterator make_move_iterator next prev",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "allocator assume_aligned const_pointer_cast construct_at destroy_at destroy_n dynamic_pointer_cast "
              "enable_shared_from_this make_shared make_unique make_unique_for_overwrite shared_ptr "
              "static_pointer_cast unique_ptr weak_ptr",
    "mutex": "adopt_lock call_once defer_lock lock_guard mutex once_flag recursive_mutex scoped_lock timed_mutex "
             "try_to_lock unique_lock",
    "new": "align_val_t bad_alloc launder nothrow",
    "numbers": "numbers",
    "numeric": "accumulate exclusive_scan iota",
    "optional": "make_optional nullopt optional",
    "queue": "priority_queue queue",
    "random": "mt19937 mt19937_64 random_device uniform_int_distribution",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "invalid_argument logic_error out_of_range runtime_error",
    "stop_token": "stop_callback stop_source stop_token",
    "string": "stod stoi stol stoll stoul stoull string to_string",
    "string_view": "string_view",
    "system_error": "errc error_code generic_category system_error",
    "thread": "jthread this_thread thread",
    "tuple": "make_tuple tie tuple",
    "type_traits": "decay_t is_floating_point_v is_integral_v is_nothrow_assignable_v is_nothrow_destructible_v "
                   "is_nothrow_move_assignable_v is_nothrow_move_constructible_v is_same_v is_signed_v remove_cv_t "
                   "underlying_type_t",
    "typeindex": "type_index",
    "typeinfo": "type_info",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "as_const cmp_less declval exchange forward in_place in_range index_sequence make_index_sequence "
               "make_pair move pair swap",
    "variant": "get_if holds_alternative variant variant_size_v visit",
    "vector": "vector",
}
#: Those that several headers have, each of which does.
OF_SEVERAL = frozenset("abs begin end erase erase_if get getline initializer_list ios size ssize streamsize "
                       "string_view_literals".split())
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}

USE = re.compile(r"\bstd::(?:ranges::)?(\w+)")
STANDARD = re.compile(r"^#include <(\w+)>", re.MULTILINE)
OWN = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"//.*")


class Sources:
    def __init__(self, root):
        self._root = root

    def _file(self, name):
        found = (self._root / folder / name for folder in ("", "include"))
        return next((path for path in found if path.exists()), None)

    @functools.cache
    def included(self, path):
        """The standard headers that a file includes, and those that its project headers do."""
        text = path.read_text(encoding="utf-8")
        own = {self._file(name) for name in OWN.findall(text)} - {None, path}
        return frozenset(STANDARD.findall(text)).union(*map(self.included, own))

    def missing(self, path):
        """(line, name, header) of the first use of each header that is missing."""
        included, found = self.included(path), {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name in USE.findall(COMMENT.sub("", line)):
                header = HEADER_OF.get(name, "a header that check_includes.py knows")
                if header not in included and name not in OF_SEVERAL:
                    found.setdefault(header, (number, name, header))
        return sorted(found.values())


def check(root):
    sources = Sources(root)
    paths = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in (".cc", ".h"))
    return [f"{path.relative_to(root)}:{line}: std::{name} without <{header}>"
            for path in paths for line, name, header in sources.missing(path)]


def main():
    if sys.argv[1:] == ["--precompiled"]:
        print("\n".join(NAMES))
        return 0
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
