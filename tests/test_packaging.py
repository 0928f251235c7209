"""What a user installs: the light base, and a distribution that holds all it needs and nothing else."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from support.paths import TESTS


def required_by(name: str) -> set[str]:
    """All distributions that come with a plain `pip install NAME`, without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in metadata.requires(waiting.pop()) or ():
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            normal = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if normal not in found:
                found.add(normal)
                try:
                    metadata.distribution(normal)
                except metadata.PackageNotFoundError:
                    continue  # for another platform or an accelerator
                waiting.append(normal)
    return found


def test_the_base_install_has_neither_beam_nor_a_retired_package() -> None:
    base = required_by("elmo-features")
    assert {"torch", "h5py", "pyarrow", "click"} <= base
    assert not base & {"apache-beam", "allennlp", "tensorflow", "spacy", "elmoformanylangs", "overrides"}


def test_beam_never_brings_its_own_torch() -> None:
    requirements = [Requirement(text) for text in metadata.requires("elmo-features") or ()]
    assert not any("torch" in requirement.extras for requirement in requirements if requirement.name == "apache-beam")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.rmtree(TESTS.parent / "build", ignore_errors=True)  # would bring modules that are gone by now
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(TESTS.parent)], check=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_module_and_data_file_and_no_test(wheel: set[str]) -> None:
    checkout = TESTS.parent
    for package in ("elmo_model", "pipeline", "jobs"):
        for path in (checkout / package).rglob("*"):
            name = path.relative_to(checkout).as_posix()
            if path.suffix == ".py" or (name.startswith("elmo_model/models/") and path.is_file()):
                assert "__pycache__" in name or name in wheel, name
    assert {name.split("/")[0].split("-")[0] for name in wheel} == {"elmo_model", "pipeline", "jobs", "elmo_features"}
    assert {"elmo_model/py.typed", "pipeline/py.typed", "jobs/py.typed"} <= wheel


def test_the_version_stands_in_one_place() -> None:
    version = metadata.version("elmo-features")
    stated = [
        path.relative_to(TESTS.parent).as_posix()
        for path in TESTS.parent.glob("**/*.py")
        if ".venv" not in path.parts
        and "build" not in path.parts
        and f'"{version}"' in path.read_text(encoding="utf-8")
    ]
    assert stated == ["setup.py"]
