"""Zip archives from unknown sources."""

from __future__ import annotations

import io
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable

import pytest

from foundation.operations.errors import Invalid
from memory_project.exchange.imports.formats import archives
from memory_project.exchange.imports.formats.archives import Archive, members_at_start
from tests.memory_project.import_samples import zipped


def problems(content: bytes) -> dict[str, str]:
    return {member.path: member.problem for member in Archive(io.BytesIO(content)).members}


def named(name: str, content: str = "text", change: Callable[[zipfile.ZipInfo], None] | None = None) -> bytes:
    buffer = io.BytesIO()
    info = zipfile.ZipInfo(name)
    if change:
        change(info)
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, content)
    return buffer.getvalue()


def as_link(info: zipfile.ZipInfo) -> None:
    info.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (named("../up.md"), "leaves the archive"),
        (named("a/../../up.md"), "leaves the archive"),
        (named("/etc/passwd"), "leaves the archive"),
        (named("C:/windows.md"), "leaves the archive"),
        (named("a\nb.md"), "control characters"),
        (named("a\u202eb.md"), "control characters"),
        (named("x" * 500 + ".md"), "name of 503 characters"),
        (named("link.md", "/etc/passwd", as_link), "is a link"),
        (named("inner.zip"), "archive within"),
        (zipped({"bomb.md": "0" * 3_000_000}), "times its packed size"),
        (zipped({"a.md": "text"}, zipfile.ZIP_LZMA), "another method"),
        (zipped({"a.md": "text"}, zipfile.ZIP_BZIP2), "another method"),
    ],
)
def test_members_that_are_not_read(content: bytes, problem: str) -> None:
    archive = Archive(io.BytesIO(content))
    (member,) = archive.members
    assert problem in member.problem
    assert member.path.isprintable()
    with pytest.raises(Invalid, match=problem):
        archive.read(member, 10_000_000)


def test_an_encrypted_member() -> None:
    content = bytearray(named("a.md"))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    assert problems(bytes(content)) == {"a.md": "is encrypted"}


def test_a_name_that_occurs_twice() -> None:
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.md", "first")
        archive.writestr("a.md", "second")
    members = Archive(io.BytesIO(buffer.getvalue())).members
    assert [member.problem for member in members] == ["", "is in the archive twice"]


@pytest.mark.parametrize("encoding", ["utf-8", "cp437", "cp850", "cp1252"])
@pytest.mark.parametrize("name", ["Größe.md", "Verträge/Übersicht.md", "año.md", "CAFÉ.md", "Résumé.md"])
def test_names_without_the_flag_of_their_encoding(encoding: str, name: str) -> None:
    raw = name.encode(encoding, "ignore")  # cp437 has few of the capital letters
    content = named("x" * len(raw)).replace(b"x" * len(raw), raw)
    assert list(problems(content)) == [raw.decode(encoding)]


def test_names_are_composed() -> None:
    assert list(problems(named("Gro\u0308\u00dfe.md"))) == ["Größe.md"]


def test_damaged_archives() -> None:
    whole = zipped({"a.md": "A text that is long enough to be packed. " * 20})
    for content in (b"", b"PK\x03\x04", whole[:-30], whole[: len(whole) // 2], b"x" * 100, whole[:-1]):
        with pytest.raises(Invalid, match="damaged"):
            Archive(io.BytesIO(content))


def test_a_damaged_member() -> None:
    content = bytearray(zipped({"a.md": "A text that is long enough to be packed. " * 20}))
    content[45] ^= 0xFF
    archive = Archive(io.BytesIO(bytes(content)))
    with pytest.raises(Invalid, match=r"a\.md: is damaged"):
        archive.read(archive.members[0], 10_000)


def test_limits_of_the_whole_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    content = zipped({f"{number}.md": "text" for number in range(20)})
    monkeypatch.setattr(archives, "MAX_UNPACKED", 79)
    with pytest.raises(Invalid, match="80 bytes when unpacked"):
        Archive(io.BytesIO(content))
    monkeypatch.setattr(archives, "MAX_MEMBERS", 19)
    with pytest.raises(Invalid, match="20 files"):
        Archive(io.BytesIO(content))
    monkeypatch.setattr(archives, "MAX_DIRECTORY", 500)
    with pytest.raises(Invalid, match="too many files"):
        Archive(io.BytesIO(content))


def test_a_member_with_a_false_size() -> None:
    """The declared sizes are what the limits hold for, so no more than that may be read."""
    content = zipped({"a.md": "0" * 100_000})
    declared = (100_000).to_bytes(4, "little")
    archive = Archive(io.BytesIO(content.replace(declared, (10).to_bytes(4, "little"))))
    (member,) = archive.members
    assert member.size == 10
    with pytest.raises(Invalid, match="damaged"):
        archive.read(member, 1_000)


def test_a_member_over_the_limit() -> None:
    archive = Archive(io.BytesIO(named("a.md", "x" * 100)))
    with pytest.raises(Invalid, match="has 100 bytes; allowed: at most 99"):
        archive.read(archive.members[0], 99)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("is_stream", [False, True])
def test_members_at_the_start(method: int, is_stream: bool) -> None:
    files = {"a.md": "first", "folder/b.md": "second " * 100, "c.md": "third"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            if is_stream and method == zipfile.ZIP_DEFLATED:
                # Programs that write to a pipe put the sizes after the content.
                buffer.seekable = lambda: False  # type: ignore[method-assign]
            archive.writestr(name, content)
    assert dict(members_at_start(buffer.getvalue())) == {name: text.encode() for name, text in files.items()}
    cut = dict(members_at_start(buffer.getvalue()[:60]))
    assert list(cut) == ["a.md"]


def test_names_from_windows_are_read() -> None:
    """Folders with backslashes, and the Unicode name beside one in a code page."""
    raw = named("Notizen/Fracht.md").replace(b"Notizen/Fracht.md", b"Notizen\\Fracht.md")
    assert problems(raw) == {"Notizen/Fracht.md": ""}
    assert [path for path, _ in members_at_start(raw)] == ["Notizen/Fracht.md"]
    assert "leaves the archive" in problems(raw.replace(b"Notizen\\Fr", b"..\\otizen\\"))["../otizen/acht.md"]


@pytest.mark.parametrize(("checksum", "path"), [(0, "Größe Łódź.md"), (1, "Gr??e ??d?.md")])
def test_the_unicode_name_of_a_member_is_taken_if_it_is_of_this_name(checksum: int, path: str) -> None:
    ascii_name = "Gr??e ??d?.md"

    def with_field(info: zipfile.ZipInfo) -> None:
        name = "Größe Łódź.md".encode()
        field = struct.pack("<BL", 1, zlib.crc32(ascii_name.encode()) + checksum) + name
        info.extra = struct.pack("<HH", 0x7075, len(field)) + field

    assert problems(named(ascii_name, change=with_field)) == {path: ""}
