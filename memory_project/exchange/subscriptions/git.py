"""Files of a git repository, fetched without a working tree.

git runs as a child process without a shell. Only the newest commit is fetched, into a bare repository under
COMMONPLACE_HOME. Contents are read from git's objects, so that links, hooks, filters, submodules and names that differ
only in case have no effect.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings

from foundation.operations.errors import Degraded, Invalid, LimitReached, Upstream
from memory_project.exchange.subscriptions.addresses import Remote, remote
from memory_project.exchange.subscriptions.files import MAX_LISTED, SourceFile, is_read, problem_of

POLL_S = 0.2  # seconds between two looks at the size of what has been fetched
SOURCE = "refs/heads/source"  # where the fetched commit is kept
LISTING = 256 << 20  # bytes of the list of files
LFS = b"version https://git-lfs"
PASSED_ON = ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "LD_LIBRARY_PATH")
LINK, SUBMODULE = "120000", "160000"
MESSAGE = 400  # characters of git's message that are kept


@dataclass(frozen=True)
class Checkout:
    """The fetched commit of a repository."""

    folder: Path
    commit: str

    def files(self, subfolder: str) -> Iterator[SourceFile]:
        """Yield the files that are to be read, sorted by path. Raises Invalid if there is no such folder."""
        scope = [f"{subfolder}/"] if subfolder else []
        listing = _run(self.folder, ["ls-tree", "-r", "-z", "-l", "--full-tree", self.commit, "--", *scope])
        entries = listing.split(b"\0")[:-1]
        if len(entries) > MAX_LISTED:
            raise LimitReached(f"The repository has more than {MAX_LISTED:,} files")
        if subfolder and not entries:
            raise Invalid(f"{subfolder!r} is not in the repository", field="subfolder", allowed="an existing folder")
        with _contents(self.folder) as contents:
            yield from _entries(entries, contents)


def _entries(entries: Sequence[bytes], contents: Callable[[str], bytes]) -> Iterator[SourceFile]:
    for entry in entries:
        details, _, name = entry.partition(b"\t")
        mode, _, digest, size = details.decode().split()
        path = name.decode("utf-8", "backslashreplace")
        if is_read(path) and mode != SUBMODULE:
            length = int(size) if size.isdecimal() else 0
            problem = "is a link" if mode == LINK else problem_of(path, length)
            yield SourceFile(path, length, partial(_opened, contents, digest), problem)


@contextmanager
def _contents(folder: Path) -> Iterator[Callable[[str], bytes]]:
    """Yield a function that returns the content of an object."""
    process = subprocess.Popen(
        ["git", "--git-dir", str(folder), *_settings(None), "cat-file", "--batch"],
        cwd=folder,
        env=_environment(None),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    requests = process.stdin
    answers = process.stdout
    assert requests is not None
    assert answers is not None

    def content(digest: str) -> bytes:
        requests.write(f"{digest}\n".encode())
        requests.flush()
        header = answers.readline().split()  # object, type and size
        data = answers.read(int(header[2])) if len(header) == 3 else b""
        if len(header) != 3 or not answers.read(1):
            raise OSError(0, "can't be read from the repository")
        return data

    try:
        yield content
    finally:
        _end(process)
        requests.close()
        answers.close()


@contextmanager
def _opened(contents: Callable[[str], bytes], digest: str) -> Iterator[BinaryIO]:
    data = contents(digest)
    if data.startswith(LFS):
        raise OSError(0, "is kept in Git LFS, which is not read")
    yield io.BytesIO(data)


def folder_of(subscription_id: UUID) -> Path:
    return settings.COMMONPLACE_HOME / "subscriptions" / subscription_id.hex


def fetch(subscription_id: UUID, location: str, branch: str) -> Checkout:
    """Fetch the newest commit. Raises Upstream if the repository can't be fetched, and LimitReached if it is too large.

    If the local copy is damaged, for example by a process that was killed, it is made anew.
    """
    source = remote(location)
    folder = folder_of(subscription_id)
    if shutil.which("git") is None:
        raise Degraded("git is not installed on this server")
    is_new = not folder.exists()
    try:
        commit = _fetch(folder, source, branch)
    except (Upstream, LimitReached):
        shutil.rmtree(folder, ignore_errors=True)
        if is_new:
            raise
        try:
            commit = _fetch(folder, source, branch)
        except (Upstream, LimitReached):
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return Checkout(folder, commit)


def delete_copy(subscription_id: UUID) -> None:
    shutil.rmtree(folder_of(subscription_id), ignore_errors=True)


def copies() -> set[UUID]:
    """Return the ids of the subscriptions that have a local copy."""
    parent = settings.COMMONPLACE_HOME / "subscriptions"
    names = [folder.name for folder in parent.iterdir()] if parent.is_dir() else []
    return {UUID(name) for name in names if re.fullmatch("[0-9a-f]{32}", name)}


def _fetch(folder: Path, source: Remote, branch: str) -> str:
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
        _run(folder, ["init", "--quiet", "--bare", "--template=", "."])
    before = _commit(folder)
    options = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--force"]
    wanted = f"refs/heads/{branch}" if branch else "HEAD"
    _run(folder, ["fetch", *options, "--", source.url, f"+{wanted}:{SOURCE}"], source=source)
    commit = _commit(folder)
    if before and commit != before:  # the objects of the earlier commit are no longer needed
        _run(folder, ["gc", "--quiet", "--prune=now"])
    return commit


def _commit(folder: Path) -> str:
    try:
        return _run(folder, ["rev-parse", "--verify", "--quiet", f"{SOURCE}^{{commit}}"]).decode().strip()
    except Upstream:
        return ""


def _settings(source: Remote | None) -> list[str]:
    """Return git's settings for one command. Only the protocol of the source is allowed, and no redirect."""
    values = {
        "protocol.allow": "never",
        "core.hooksPath": os.devnull,
        "core.fsmonitor": "false",
        "credential.helper": "",  # forgets the helpers of other configurations
        "gc.auto": "0",
        "maintenance.auto": "false",
        "http.followRedirects": "false",
        "http.proxy": "",  # a proxy would look up the host again
        "fetch.fsckObjects": "true",
        "submodule.recurse": "false",
    }
    options = [f"{name}={value}" for name, value in values.items()]
    if source:
        options.append(f"protocol.{source.scheme}.allow=always")
        if settings.SUBSCRIPTION_GIT_CREDENTIALS:
            options.append(f"credential.helper=store --file={shlex.quote(settings.SUBSCRIPTION_GIT_CREDENTIALS)}")
        if source.addresses and source.scheme != "ssh":
            # git connects to the address that was checked, because a second look-up could return another.
            addresses = ",".join(f"[{address}]" if ":" in address else address for address in source.addresses)
            options.append(f"http.curloptResolve={source.host}:{source.port}:{addresses}")
    return [part for option in options for part in ("-c", option)]


def _environment(source: Remote | None) -> dict[str, str]:
    ssh = ["ssh", "-F", os.devnull, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=20"]
    if source and source.addresses:
        ssh += ["-o", f"HostName={source.addresses[0]}", "-o", f"HostKeyAlias={source.host}"]
    return {
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_SSH_COMMAND": shlex.join(ssh),
        "GIT_SSH_VARIANT": "ssh",
    }


def _run(folder: Path, arguments: Sequence[str], *, source: Remote | None = None) -> bytes:
    """Run git and return what it prints.

    Raises Upstream with git's message if git fails, and LimitReached if it takes too long or too much space.
    """
    command = ["git", "--git-dir", str(folder), *_settings(source), *arguments]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(source),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,  # so that its own child processes can be ended with it
        )
        try:
            _wait(process, folder)
        finally:
            _end(process)
        if process.returncode:
            errors.seek(0)
            raise Upstream(f"git could not read the repository: {_message(errors.read(1 << 16))}")
        if os.fstat(output.fileno()).st_size > LISTING:
            raise LimitReached("The list of the repository's files is too long")
        output.seek(0)
        return output.read()


def _wait(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + settings.SUBSCRIPTION_TIMEOUT_S
    most = settings.SUBSCRIPTION_MAX_MB << 20
    while True:
        try:
            process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                limit = settings.SUBSCRIPTION_TIMEOUT_S
                raise LimitReached(f"git took more than {limit} s (SUBSCRIPTION_TIMEOUT_S)") from None
        if _size(folder) > most:
            limit = settings.SUBSCRIPTION_MAX_MB
            raise LimitReached(f"The newest commit takes more than {limit} MB (SUBSCRIPTION_MAX_MB)")
        if process.returncode is not None:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _size(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # git has renamed or deleted it meanwhile
                continue
    return size


def _message(errors: bytes) -> str:
    text = " ".join(errors.decode("utf-8", "replace").split())
    return "".join(letter for letter in text if letter.isprintable())[-MESSAGE:] or "no reason given"
