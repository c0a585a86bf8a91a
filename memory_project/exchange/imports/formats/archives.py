"""Zip archives from unknown sources, read without unpacking them to disk.

Limits hold for the sizes that the archive declares. They can't be exceeded, because zipfile reads no more bytes of a
member than declared.
"""

from __future__ import annotations

import io
import lzma
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from foundation.operations.errors import Invalid

MAX_DIRECTORY = 16 << 20  # bytes of the archive's list of members, which zipfile loads as a whole
MAX_MEMBERS = 150_000
MAX_UNPACKED = 4 << 30  # bytes of all members together
MAX_RATIO = 200  # of unpacked to packed size. Texts reach 20, and deflate 1,032.
RATIO_COUNTS_FROM = 1 << 20  # bytes. A smaller member is harmless, whatever its ratio.
CODE_PAGES = ("cp850", "cp1252")  # of western Windows: in its console and Explorer, and in its other programs
# beyond ASCII in German, Spanish, French, Italian and the languages of the north
COMMON_LETTERS = frozenset("äöüÄÖÜßáéíóúñÁÉÍÓÚÑàèìòùâêîôûçÇëïåÅæÆøØãÃ")
MAX_NAME = 400  # characters
SIGNATURE = b"PK\x03\x04"  # of the header before each member
UNICODE_PATH = 0x7075  # an extra field of a member
EMPTY_SIGNATURE = b"PK\x05\x06"  # of the directory's end, with which an empty archive begins
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # others may need gigabytes of memory to unpack
ENCRYPTED, UTF8_NAME, SIZE_FOLLOWS = 0x1, 0x800, 0x8  # bits of ZipInfo.flag_bits
NESTED = (".zip", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".tar", ".zst")
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    LookupError,
)  # fmt: skip - what zipfile raises for damaged archives


@dataclass(frozen=True)
class ArchiveMember:
    path: str  # with "/" between folders
    size: int
    problem: str  # why it can't be read, or ""
    info: zipfile.ZipInfo


class _Directory:
    """The archive's file as zipfile sees it. A single read can't fill the memory."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def read(self, count: int = -1) -> bytes:
        part = self.file.read(count if 0 <= count <= MAX_DIRECTORY else MAX_DIRECTORY + 1)
        if len(part) > MAX_DIRECTORY:
            raise Invalid("has too many files", field="file", allowed=f"at most {MAX_MEMBERS:,} files in an archive")
        return part

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


def is_archive(start: bytes) -> bool:
    return start.startswith((SIGNATURE, EMPTY_SIGNATURE))


class Archive:
    """The members of a zip file, in the order of its directory.

    Raises Invalid if the file isn't a zip file, or if it is too large for being read.
    """

    def __init__(self, file: BinaryIO) -> None:
        try:
            self._zip = zipfile.ZipFile(_Directory(file))
        except UNREADABLE as error:
            raise Invalid(f"is a damaged zip file ({error})", field="file") from None
        infos = [info for info in self._zip.infolist() if not info.is_dir()]
        if len(infos) > MAX_MEMBERS:
            raise Invalid(f"has {len(infos):,} files", field="file", allowed=f"at most {MAX_MEMBERS:,} files")
        size = sum(info.file_size for info in infos)
        if size > MAX_UNPACKED:
            raise Invalid(
                f"has {size:,} bytes when unpacked", field="file", allowed=f"at most {MAX_UNPACKED:,} bytes unpacked"
            )
        self.members = list(_checked(infos))

    def read(self, member: ArchiveMember, limit: int) -> bytes:
        """Return the member's content. Raises Invalid if it has more than `limit` bytes or can't be read."""
        if member.size > limit:
            raise Invalid(f"has {member.size:,} bytes", field=member.path, allowed=f"at most {limit:,} bytes")
        with self.open(member) as stream:
            return stream.read()

    @contextmanager
    def open(self, member: ArchiveMember) -> Iterator[BinaryIO]:
        """Open a member for reading. Reading it raises Invalid if the archive is damaged."""
        if member.problem:
            raise Invalid(member.problem, field=member.path)
        try:
            raw = self._zip.open(member.info)
        except UNREADABLE as error:
            raise Invalid(f"is damaged ({error})", field=member.path) from None
        with raw:
            yield io.BufferedReader(_Stream(raw, member.path))


class _Stream(io.RawIOBase):
    def __init__(self, file: object, path: str) -> None:
        self.file = file
        self.path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # io passes a memoryview
        try:
            part: bytes = self.file.read(len(buffer))  # type: ignore[attr-defined] # a ZipExtFile
        except UNREADABLE as error:
            raise Invalid(f"is damaged ({error})", field=self.path) from None
        buffer[: len(part)] = part
        return len(part)


def _checked(infos: list[zipfile.ZipInfo]) -> Iterator[ArchiveMember]:
    seen: set[str] = set()
    for info in infos:
        path = _path(info)
        problem = _problem(info, path)
        if not problem and path in seen:
            problem = "is in the archive twice"
        seen.add(path)
        yield ArchiveMember(_printable(path), info.file_size, problem, info)


def _path(info: zipfile.ZipInfo) -> str:
    name = _unicode_path(info) or info.orig_filename
    if not info.flag_bits & UTF8_NAME:
        # zipfile reads the name as cp437 as the format says, but most programs write UTF-8 without the flag.
        with suppress(UnicodeError):
            name = _decoded_name(name.encode("cp437"))
    # Some programs of Windows separate folders with backslashes.
    return unicodedata.normalize("NFC", name.replace("\\", "/"))


def _decoded_name(raw: bytes) -> str:
    """Return a name whose encoding the archive does not state: UTF-8 if possible, else the likelier code page."""
    with suppress(UnicodeError):
        return raw.decode("utf-8")
    return max((raw.decode(page, "replace") for page in CODE_PAGES), key=_likelihood)


def _likelihood(name: str) -> int:
    """Return a score that is higher the more a name looks like one in a western language."""
    return sum(_letter_score(name, at) for at, letter in enumerate(name) if letter > "\x7f")


def _letter_score(name: str, at: int) -> int:
    letter = name[at]
    before = name[at - 1 : at]
    after = name[at + 1 : at + 2]
    is_capital_within_word = letter.isupper() and (before.islower() or (before.isalpha() and after.islower()))
    if is_capital_within_word or not letter.isalpha():
        return -1
    return 1 if letter in COMMON_LETTERS else 0


def _unicode_path(info: zipfile.ZipInfo) -> str:
    """Return the name in the field Info-ZIP Unicode Path (APPNOTE.TXT, 4.6.9), or "" if there is none.

    Programs of Windows write it beside a name in a code page that the archive does not tell.
    """
    raw = info.orig_filename.encode("utf-8" if info.flag_bits & UTF8_NAME else "cp437", "replace")
    rest = info.extra
    while len(rest) >= 4:
        kind, size = struct.unpack_from("<HH", rest)
        field = rest[4 : 4 + size]
        rest = rest[4 + size :]
        if kind != UNICODE_PATH or size <= 5:
            continue
        version, checksum = struct.unpack_from("<BL", field)
        if version == 1 and checksum == zlib.crc32(raw):  # otherwise the archive was renamed without it
            return field[5:].decode("utf-8", "replace")
    return ""


def _problem(info: zipfile.ZipInfo, path: str) -> str:
    if len(path) > MAX_NAME:
        return f"has a name of {len(path)} characters; allowed: at most {MAX_NAME}"
    if not path.isprintable():
        return "has a name with control characters"
    parts = path.split("/")
    if path.startswith("/") or ":" in parts[0] or ".." in parts:
        return "has a path that leaves the archive"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link"
    if info.flag_bits & ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in METHODS:
        return "is packed by another method than deflate"
    if info.file_size > max(RATIO_COUNTS_FROM, info.compress_size * MAX_RATIO):
        return f"unpacks to more than {MAX_RATIO} times its packed size"
    if path.lower().endswith(NESTED):
        return "is an archive within the archive"
    return ""


def _printable(path: str) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in path[:MAX_NAME])


def members_at_start(start: bytes) -> Iterator[tuple[str, bytes]]:
    """Return path and first bytes of the content of each member at the start of an archive, up to the end of `start`.

    For recognizing a format without the whole file. The last content may be cut.
    """
    position = 0
    while start.startswith(SIGNATURE, position) and len(start) >= position + 30:
        header = start[position : position + 30]
        flags = int.from_bytes(header[6:8], "little")
        method = int.from_bytes(header[8:10], "little")
        packed_size = int.from_bytes(header[18:22], "little")
        name_end = position + 30 + int.from_bytes(header[26:28], "little")
        begin = name_end + int.from_bytes(header[28:30], "little")
        name = start[position + 30 : name_end].decode("utf-8", "replace").replace("\\", "/")
        packed = start[begin:] if flags & SIZE_FOLLOWS else start[begin : begin + packed_size]
        content, rest = _unpacked_start(packed, method)
        yield name, content
        if not flags & SIZE_FOLLOWS:
            position = begin + packed_size
        elif method == zipfile.ZIP_DEFLATED:
            # The sizes follow the content, after an optional signature. The next header is a few bytes further on.
            position = start.find(SIGNATURE, len(start) - len(rest))
        else:
            position = start.find(SIGNATURE, begin)
        if position < 0:
            return


def _unpacked_start(packed: bytes, method: int) -> tuple[bytes, bytes]:
    if method != zipfile.ZIP_DEFLATED:
        return packed[: 1 << 16], b""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = unpacker.decompress(packed, 1 << 16)
        while not unpacker.eof and unpacker.unconsumed_tail:  # to find the member's end
            unpacker.decompress(unpacker.unconsumed_tail, 1 << 16)
    except zlib.error:
        return b"", b""
    return content, unpacker.unused_data
