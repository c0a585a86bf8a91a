"""A disk that is full, slow or read-only, and a clock that jumps."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.faults.installation import Installation
from tests.faults.table import fault
from tests.faults.workload import Workload

SPACE_MB = 150  # free space beside the installation's own files
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")  # Debian's package libfaketime
# fsync and fdatasync wait while the file named in SLOW_DISK exists
SLOW_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static int slow(const char *name, int file) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
    const char *mark = getenv("SLOW_DISK");
    if (mark && access(mark, F_OK) == 0) usleep(500 * 1000);
    return real(file);
}
int fsync(int file) { return slow("fsync", file); }
int fdatasync(int file) { return slow("fdatasync", file); }
"""


# -- a disk of its own -----------------------------------------------------------------------------------


def on_a_small_disk(place: Installation) -> None:
    """Move the installation to a file system in memory, which only root can mount."""
    used = int(subprocess.run(["du", "-sm", place.home], capture_output=True, text=True, check=True).stdout.split()[0])
    disk = Path(tempfile.mkdtemp(prefix="disk"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={used + SPACE_MB}m,mode=755", "none", str(disk)]
    subprocess.run(mount, check=True, capture_output=True)
    place.on_exit.append(lambda: remove(disk))
    subprocess.run(["cp", "-a", f"{place.home}/.", str(disk)], check=True)
    place.home = disk


def remove(disk: Path) -> None:
    subprocess.run(["umount", "--lazy", disk], check=False, capture_output=True)
    shutil.rmtree(disk, ignore_errors=True)


@fault("the disk is full for 10 s", prepare=on_a_small_disk, silent_s=90)
def disk_is_full(place: Installation, work: Workload) -> None:
    ballast = place.home / "ballast"
    with open(ballast, "wb") as file:
        try:
            while True:
                file.write(bytes(1_000_000))
                file.flush()
        except OSError:
            pass
    time.sleep(10)
    ballast.unlink()


@fault("the home becomes read-only, and `up` is started in it", prepare=on_a_small_disk, silent_s=120)
def home_is_read_only(place: Installation, work: Workload) -> None:
    place.stop()
    subprocess.run(["mount", "-o", "remount,ro", place.home], check=True)
    refused = place.run("up", "--no-demo")
    subprocess.run(["mount", "-o", "remount,rw", place.home], check=True)
    assert refused.returncode == 1, refused.stdout
    assert "Traceback" not in refused.stderr, refused.stderr
    assert "read-only" in refused.stderr.lower(), refused.stderr
    place.start()


def with_slow_disk(place: Installation) -> None:
    folder = Path(tempfile.mkdtemp(prefix="slow"))
    os.chmod(folder, 0o755)
    (folder / "slow.c").write_text(SLOW_DISK)
    library = folder / "slow.so"
    command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(folder / "slow.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    place.settings |= {"LD_PRELOAD": str(library), "SLOW_DISK": str(folder / "mark")}
    place.on_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))


@fault("each write to the disk takes half a second, for 15 s", prepare=with_slow_disk, silent_s=20)
def disk_is_slow(place: Installation, work: Workload) -> None:
    mark = Path(place.settings["SLOW_DISK"])
    mark.touch()
    time.sleep(15)
    mark.unlink()


# -- the clock -------------------------------------------------------------------------------------------


def with_own_clock(place: Installation) -> None:
    if not FAKETIME.exists():
        raise RuntimeError("libfaketime is missing: on Debian, apt install faketime")
    folder = Path(tempfile.mkdtemp(prefix="clock"))
    os.chmod(folder, 0o755)
    (folder / "offset").write_text("+0")
    place.settings |= {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(folder / "offset"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    place.on_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))


@fault("the clock jumps a day ahead and back", prepare=with_own_clock, silent_s=30)
def clock_jumps(place: Installation, work: Workload) -> None:
    offset = Path(place.settings["FAKETIME_TIMESTAMP_FILE"])
    offset.write_text("+1d")
    work.wait_until_written(time.monotonic())
    time.sleep(5)
    ahead = place.sql("SELECT count(*) FROM memory_records WHERE created_at > now() + interval '12 hours'")[0][0]
    offset.write_text("+0")
    time.sleep(5)
    assert (
        ahead or place.sql("SELECT count(*) FROM memory_records WHERE created_at > now() + interval '12 hours'")[0][0]
    ), "the clock did not jump"
