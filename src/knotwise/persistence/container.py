"""The bytes around the arrays: zip records, .npy headers and the seal, each with exactly one way to write it.

Nothing here is parsed. A reader knows from the manifest what must be in the file, makes the bytes that `save` would
have written, and compares; so a lie in any header is a difference.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

__all__ = [
    "MANIFEST",
    "SEAL",
    "SEAL_SIZE",
    "ArrayHead",
    "Member",
    "directory",
    "directory_size",
    "local_header",
    "place",
    "raw",
]

MANIFEST = "manifest.json"
#: 1980-01-01 00:00, the first moment of zip files: the same model gives the same bytes at any time
DOS_TIME, DOS_DATE = 0, 0x21
#: the end of every file: what it is, and the digest of all bytes before the digest
SEAL = "knotwise model file, format {:04d}, sha256 "
SEAL_SIZE = len(SEAL.format(1)) + 64
#: version needed, flags (none: no encryption, no trailing sizes), method (0: stored), time, date
PLAIN = (20, 0, 0, DOS_TIME, DOS_DATE)


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


# -- arrays ---------------------------------------------------------------------------------------


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
