"""A disk that is full, slow or read-only, and a clock that jumps."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from tests.faults.installation import Installation
from tests.faults.table import fault
from tests.faults.workload import Workload

SPACE_MB = 150  # free space beside the installation's own files
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
# the time of day is ahead by the seconds in the file named in CLOCK_OFFSET; clocks of intervals stay as they are
OWN_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long none = 0, *offset = &none;
__attribute__((constructor)) static void map(void) {
    const char *name = getenv("CLOCK_OFFSET");
    int file = name ? open(name, O_RDONLY) : -1;
    void *place = file >= 0 ? mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (place != MAP_FAILED) offset = place;
}
int clock_gettime(clockid_t clock, struct timespec *result) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, result);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) result->tv_sec += *offset;
    return status;
}
int gettimeofday(struct timeval *result, void *zone) {
    struct timespec now;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return status;
}
time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"""
DAY_S = 86_400


def compiled(place: Installation, source: str) -> Path:
    """Compile a library that all processes of the installation load, and return its folder."""
    folder = Path(tempfile.mkdtemp(prefix="library"))
    os.chmod(folder, 0o755)
    (folder / "source.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-o", str(folder / "library.so"), str(folder / "source.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    place.settings["LD_PRELOAD"] = str(folder / "library.so")
    place.on_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


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


@fault("the disk is full for 10 s", prepare=on_a_small_disk, silent_s=90, in_pairs=True)
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
    place.settings["SLOW_DISK"] = str(compiled(place, SLOW_DISK) / "mark")


@fault("each write to the disk takes half a second, for 15 s", prepare=with_slow_disk, silent_s=20, in_pairs=True)
def disk_is_slow(place: Installation, work: Workload) -> None:
    mark = Path(place.settings["SLOW_DISK"])
    mark.touch()
    time.sleep(15)
    mark.unlink()


# -- the clock -------------------------------------------------------------------------------------------


def with_own_clock(place: Installation) -> None:
    file = compiled(place, OWN_CLOCK) / "offset"
    place.settings["CLOCK_OFFSET"] = str(file)
    set_clock(file, 0)


def set_clock(file: Path, seconds: int) -> None:
    with open(file, "r+b" if file.exists() else "wb") as handle:
        handle.write(struct.pack("l", seconds))


@fault("the clock jumps a day ahead and back", prepare=with_own_clock, silent_s=30)
def clock_jumps(place: Installation, work: Workload) -> None:
    file = Path(place.settings["CLOCK_OFFSET"])
    set_clock(file, DAY_S)
    work.wait_until_written(time.monotonic())
    time.sleep(5)
    (ahead,) = place.sql("SELECT extract(epoch FROM now())::bigint")[0]
    assert ahead > time.time() + DAY_S / 2, "the database's clock did not jump"
    set_clock(file, 0)
    time.sleep(5)
