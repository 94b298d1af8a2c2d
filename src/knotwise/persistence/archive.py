"""Read and write model files: an uncompressed zip of a JSON manifest and .npy arrays, closed by a seal.

The reader believes nothing: it checks the seal over all bytes, then the manifest, then that sizes add up to the size
of the file, and only then makes room for arrays. A file that it accepts is, byte for byte, one that `write_archive`
writes from the same manifest and arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from knotwise.errors import InvalidInputError, ModelFileError
from knotwise.files import write_atomically

#: the one that is written and read; whoever changes what a file holds raises it, and runs tests/model_files.py
FORMAT_VERSION = 7
#: largest manifest, in bytes: JSON of this size takes up to 35 MB once it is read
MAX_MANIFEST = 2**20
#: of a zip file without 64-bit records: the exact GP of 10,000 rows takes a fifth of it
LARGEST_SIZE, LARGEST_COUNT = 2**32 - 2, 2**16 - 2
CHUNK = 2**18
ARRAY_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
DTYPES = ("<f8", "<i8", "|b1")
MANIFEST = "manifest.json"
#: 1980-01-01 00:00, the first moment of zip files: the same model gives the same bytes at any time
DOS_TIME, DOS_DATE = 0, 0x21
#: the end of every file: what it is, and the digest of all bytes before the digest
SEAL = "knotwise model file, format {:04d}, sha256 "
SEAL_SIZE = len(SEAL.format(1)) + 64
#: version needed, flags (none: no encryption, no trailing sizes), method (0: stored), time, date
PLAIN = (20, 0, 0, DOS_TIME, DOS_DATE)
DAMAGED = "It was damaged or changed since it was saved: take an intact copy, or save the model again."
NOT_OURS = "Give a file that `save` has written."


@dataclass(frozen=True)
class Archive:
    """The content of a model file: a JSON object, and arrays by name."""

    manifest: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write_archive(path: str | os.PathLike[str], archive: Archive) -> None:
    """Write a model file, at once or not at all; the table of arrays is added to the manifest."""
    arrays = {name: _storable(name, array) for name, array in archive.arrays.items()}
    heads = {name: ArrayHead.of(array) for name, array in arrays.items()}
    table = {name: _describe(heads[name], hashlib.sha256(raw(array)).hexdigest()) for name, array in arrays.items()}
    manifest = _canonical(archive.manifest | {"arrays": table})
    if len(manifest) > MAX_MANIFEST:
        raise InvalidInputError(
            f"The description of the model takes {len(manifest):,} bytes, but a model file has room for "
            f"{MAX_MANIFEST:,}: too many steps in `trace_`, or too many classes. Keep this model with pickle."
        )
    content: dict[str, list[bytes | memoryview]] = {MANIFEST: [manifest]}
    content |= {f"{name}.npy": [heads[name].npy_header(), raw(array)] for name, array in arrays.items()}
    members = place({name: sum(map(len, pieces)) for name, pieces in content.items()})
    if members[-1].end > LARGEST_SIZE or len(members) > LARGEST_COUNT:
        raise InvalidInputError(
            f"The model takes {members[-1].end:,} bytes in {len(members):,} members, but a model file has room for "
            f"{LARGEST_SIZE:,} in {LARGEST_COUNT:,}. Use knots instead of the exact GP, or keep it with pickle."
        )
    members = [replace(m, crc=_crc(content[m.name])) for m in members]
    pieces = [piece for m in members for piece in (local_header(m), *content[m.name])]
    pieces += [directory(members), SEAL.format(FORMAT_VERSION).encode("ascii")]
    # a link keeps pointing to the file, which is replaced
    write_atomically(Path(os.path.realpath(path)), _sealed(pieces))


def _sealed(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The pieces and, at the end, the digest of all of them."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    yield digest.hexdigest().encode("ascii")


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """The array in one of the forms that files have: little-endian float64, int64 or bool, contiguous."""
    if array.dtype.str not in DTYPES or not ARRAY_NAME.fullmatch(name):
        raise InvalidInputError(f"The array {name!r} of dtype {array.dtype} has no place in a model file; use pickle.")
    return array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)


def _describe(head: ArrayHead, digest: str) -> dict[str, Any]:
    return {"dtype": head.dtype, "shape": list(head.shape), "order": head.order, "sha256": digest}


def _canonical(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, separators=(",", ":"), allow_nan=False).encode("ascii")


def _crc(pieces: list[bytes | memoryview]) -> int:
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return crc


def read_archive(path: str | os.PathLike[str]) -> Archive:
    """Read a model file, or raise `ModelFileError`; memory stays within the size of the file and a constant."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for somebody to write
        raise ModelFileError(f"It is not a file. {NOT_OURS}")
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        _check_seal(stream, size)
        manifest_bytes = _read_manifest(stream, size)
        manifest = _parse(manifest_bytes)
        heads, digests = _array_table(manifest.pop("arrays", None))
        members = place({MANIFEST: len(manifest_bytes)} | {f"{n}.npy": _npy_size(head) for n, head in heads.items()})
        ending = members[-1].end + directory_size(members) + SEAL_SIZE
        if ending != size or len(members) > LARGEST_COUNT or members[-1].end > LARGEST_SIZE:
            raise ModelFileError(f"Its manifest describes a file of {ending:,} bytes, but it has {size:,}. {DAMAGED}")
        # from here on the file is known to hold as many bytes as the arrays will take
        members[0] = replace(members[0], crc=zlib.crc32(manifest_bytes))
        arrays = {}
        for i, (name, head) in enumerate(heads.items(), start=1):
            arrays[name], members[i] = _read_array(stream, members[i], head, digests[name])
        _check_records(stream, members)
    return Archive(manifest, arrays)


def _check_seal(stream: BinaryIO, size: int) -> None:
    """Refuse what is no model file, has changed bytes or is of another version of the format."""
    stream.seek(max(size - SEAL_SIZE, 0))
    found = stream.read(SEAL_SIZE)
    written = re.fullmatch(rb"knotwise model file, format ([0-9]{4}), sha256 ([0-9a-f]{64})", found)
    if written is None:
        raise ModelFileError(f"It does not end as a knotwise model file does. {NOT_OURS}")
    stream.seek(0)
    digest, left = hashlib.sha256(), size - 64
    while left > 0 and (chunk := stream.read(min(CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
    if digest.hexdigest().encode("ascii") != written[2]:
        raise ModelFileError(f"Its content does not have the SHA-256 digest at its end. {DAMAGED}")
    version = int(written[1])
    if version != FORMAT_VERSION:
        advice = "Upgrade knotwise to load it." if version > FORMAT_VERSION else "Fit the model again and save it."
        raise ModelFileError(f"It has format version {version}, and this knotwise reads {FORMAT_VERSION}. {advice}")


def _read_manifest(stream: BinaryIO, size: int) -> bytes:
    stream.seek(0)
    head = stream.read(30)
    if len(head) < 30:
        raise ModelFileError(f"It has no manifest. {NOT_OURS}")
    length = struct.unpack_from("<L", head, 22)[0]
    if length > min(MAX_MANIFEST, size):
        raise ModelFileError(f"Its manifest has {length:,} bytes; the limit is {min(MAX_MANIFEST, size):,}. {DAMAGED}")
    stream.seek(Member(MANIFEST, length).start)
    return stream.read(length)


def _parse(manifest: bytes) -> dict[str, Any]:
    """The manifest as an object; it must be written as `json.dumps` writes it, so no key can come twice."""
    try:
        parsed = json.loads(manifest.decode("ascii"))
        canonical = _canonical(parsed) == manifest
    except (ValueError, RecursionError):  # not ASCII, not JSON, not a number, too deep
        canonical = False
    if not canonical or not isinstance(parsed, dict):
        raise ModelFileError(f"Its manifest is not the JSON that knotwise writes. {NOT_OURS}")
    return parsed


def _array_table(table: Any) -> tuple[dict[str, ArrayHead], dict[str, str]]:
    """Heads and digests of the arrays that the manifest names."""
    heads, digests = {}, {}
    for name, entry in table.items() if isinstance(table, dict) else [("arrays", None)]:
        if not ARRAY_NAME.fullmatch(name) or len(name) > 200:
            raise ModelFileError(f"Its manifest names an array {name[:80]!r}, which is no name of an array. {NOT_OURS}")
        if not isinstance(entry, dict) or list(entry) != ["dtype", "shape", "order", "sha256"]:
            raise ModelFileError(f"Its manifest does not describe the array {name!r} as it must. {NOT_OURS}")
        shape, order, digest = entry["shape"], entry["order"], entry["sha256"]
        if (
            entry["dtype"] not in DTYPES
            or not isinstance(shape, list)
            or len(shape) not in (1, 2)
            or not all(type(n) is int and 0 <= n < 2**32 for n in shape)
            or order not in ("C", "F")
            or not isinstance(digest, str)
        ):
            raise ModelFileError(f"Its manifest gives the array {name!r} a type or shape that is not known. {NOT_OURS}")
        heads[name], digests[name] = ArrayHead(entry["dtype"], tuple(shape), order), digest
    return heads, digests


def _npy_size(head: ArrayHead) -> int:
    return len(head.npy_header()) + head.size


def _read_array(stream: BinaryIO, member: Member, head: ArrayHead, digest: str) -> tuple[np.ndarray, Member]:
    """The array of a member, and the member with the CRC of what was read."""
    header = head.npy_header()
    stream.seek(member.start)
    if stream.read(len(header)) != header:
        raise ModelFileError(f"The header of {member.name} is not what the manifest says of it. {DAMAGED}")
    array = head.empty()
    if stream.readinto(raw(array)) != head.size or hashlib.sha256(raw(array)).hexdigest() != digest:  # type: ignore[attr-defined]
        raise ModelFileError(f"The array {member.name} does not have the digest in the manifest. {DAMAGED}")
    if head.dtype == "|b1" and (array.view(np.uint8) > 1).any():
        raise ModelFileError(f"The array {member.name} holds something else than true and false. {NOT_OURS}")
    return array, replace(member, crc=_crc([header, raw(array)]))


def _check_records(stream: BinaryIO, members: list[Member]) -> None:
    """Compare every record of the zip file with the one that belongs there."""
    expected = [(m.offset, local_header(m)) for m in members] + [(members[-1].end, directory(members))]
    for offset, record in expected:
        stream.seek(offset)
        if stream.read(len(record)) != record:
            raise ModelFileError(f"A record of the zip file at byte {offset:,} is not as knotwise writes it. {DAMAGED}")


# -- zip records and .npy headers, each with one way to write it: a reader compares, and parses nothing --------


@dataclass(frozen=True)
class Member:
    """One file inside: its name, its size, the CRC of its bytes, and where its record begins."""

    name: str
    size: int
    crc: int = 0
    offset: int = 0

    @property
    def start(self) -> int:
        """Where its bytes begin."""
        return self.offset + 30 + len(self.name)

    @property
    def end(self) -> int:
        return self.start + self.size


def place(sizes: dict[str, int]) -> list[Member]:
    """Members of these names and sizes, one after the other from the beginning of the file."""
    members: list[Member] = []
    for name, size in sizes.items():
        members.append(Member(name, size, offset=members[-1].end if members else 0))
    return members


def local_header(member: Member) -> bytes:
    """The record before a member's bytes."""
    name = member.name.encode("ascii")
    return struct.pack("<4s5H3L2H", b"PK\3\4", *PLAIN, member.crc, member.size, member.size, len(name), 0) + name


def directory(members: list[Member]) -> bytes:
    """The central directory and the record of its end, up to the seal, which is the zip file's comment."""
    entries = b"".join(
        struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, *PLAIN, m.crc, m.size, m.size, len(m.name), *(0,) * 5, m.offset)
        + m.name.encode("ascii")
        for m in members
    )
    count, start = len(members), members[-1].end
    return entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entries), start, SEAL_SIZE)


def directory_size(members: list[Member]) -> int:
    return sum(46 + len(m.name) for m in members) + 22


@dataclass(frozen=True)
class ArrayHead:
    """What must be known of an array before its bytes are read."""

    dtype: str  # "<f8", "<i8" or "|b1"
    shape: tuple[int, ...]
    order: str  # "C" or "F": a factor from LAPACK keeps its layout, and so predictions keep their bits

    @staticmethod
    def of(array: np.ndarray) -> ArrayHead:
        fortran = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
        return ArrayHead(array.dtype.str, array.shape, "F" if fortran else "C")

    @property
    def size(self) -> int:
        """Number of bytes, as Python's integers, which do not overflow."""
        size = np.dtype(self.dtype).itemsize
        for n in self.shape:
            size *= n
        return size

    def npy_header(self) -> bytes:
        """The header of a .npy file, version 1.0."""
        text = f"{{'descr': '{self.dtype}', 'fortran_order': {self.order == 'F'}, 'shape': {self.shape}, }}"
        padding = -(len(text) + 11) % 64
        return b"\x93NUMPY\1\0" + struct.pack("<H", len(text) + padding + 1) + text.encode() + b" " * padding + b"\n"

    def empty(self) -> np.ndarray:
        return np.empty(self.shape, self.dtype, order="F" if self.order == "F" else "C")


def raw(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array, byte by byte in the order in which it lies there."""
    return array.reshape(-1, order="A").view(np.uint8).data
