"""The import rules of the project: by parsing every file, and by importing in fresh processes."""

import ast
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

PACKAGES = ("elmo_model", "pipeline", "jobs")
LIGHT = {"numpy", "fsspec"}
FILES = LIGHT | {"h5py", "pyarrow"}
# What each module may import from outside the standard library; the longest matching name counts.
ALLOWED: dict[str, set[str]] = {
    "elmo_model": {"torch", "numpy", "h5py", "safetensors", "elmo_model"},
    "elmo_model.kernels.cell": {"torch", "triton"},  # Triton comes with torch, where torch is built for GPUs
    "pipeline": FILES | {"pipeline"},
    "pipeline.schema": {"numpy", "pipeline"},
    "pipeline.records": {"pipeline"},
    "pipeline.errors": set(),
    "pipeline.config": {"pipeline"},
    "pipeline.torch_data": FILES | {"torch", "pipeline"},
    "pipeline.transforms": FILES | {"apache_beam", "pipeline"},
    "pipeline.extraction": FILES | {"apache_beam", "pipeline"},
}
# Inside the pipeline: what only the last steps may use.
ONLY_FROM = {
    "pipeline.transforms": {"jobs"},
    "pipeline.extraction": {"jobs"},
    "pipeline.torch_data": {"jobs"},
    "pipeline.reader": {"jobs", "pipeline.torch_data", "pipeline.export", "pipeline.verification"},
}
# Optional libraries, named in text and imported when asked for.
OPTIONAL = {"spacy", "syntok", "rjieba", "matplotlib", "tensorboard", "gensim", "transformers", "sklearn", "jieba"}


def source_files() -> dict[str, Path]:
    files = {}
    for package in PACKAGES:
        spec = util.find_spec(package)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent
        for path in root.rglob("*.py"):
            parts = (package, *path.relative_to(root).with_suffix("").parts)
            files[".".join(part for part in parts if part != "__init__")] = path
    return files


SOURCES = source_files()


def imported_names(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


def allowed_for(module: str) -> set[str]:
    best = max((name for name in ALLOWED if module == name or module.startswith(name + ".")), key=len)
    return ALLOWED[best]


@pytest.mark.parametrize("module", [name for name in SOURCES if not name.startswith("jobs")])
def test_a_module_imports_only_what_its_place_allows(module: str) -> None:
    tops = {name.split(".")[0] for name in imported_names(SOURCES[module])}
    outside = tops - set(sys.stdlib_module_names) - OPTIONAL
    assert outside <= allowed_for(module), f"{module} imports {sorted(outside - allowed_for(module))}"


@pytest.mark.parametrize("target", ONLY_FROM)
def test_the_last_steps_are_used_from_above_only(target: str) -> None:
    for module, path in SOURCES.items():
        if target in imported_names(path) and module != target:
            assert any(module == user or module.startswith(user + ".") for user in ONLY_FROM[target]), module


def test_nothing_imports_jobs_but_jobs() -> None:
    for module, path in SOURCES.items():
        if not module.startswith("jobs"):
            assert not any(name.split(".")[0] == "jobs" for name in imported_names(path)), module


@pytest.mark.parametrize("package", PACKAGES)
def test_package_files_import_nothing(package: str) -> None:
    assert imported_names(SOURCES[package]) == set()


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import pipeline.reader", {"torch", "apache_beam", "elmo_model", "jobs"}),
        ("import pipeline.verification", {"torch", "apache_beam", "elmo_model", "jobs"}),
        ("import pipeline.torch_data", {"apache_beam", "elmo_model", "jobs"}),
        ("import pipeline.encode_shard", {"torch", "apache_beam", "elmo_model", "jobs"}),
        ("import elmo_model.scalar_mix", {"apache_beam", "pipeline", "h5py", "jobs"}),
        ("import elmo_model.weights", {"apache_beam", "pipeline", "jobs"}),
        ("import jobs.cli, jobs.status, jobs.verify", {"torch", "apache_beam"}),
    ],
)
def test_a_light_import_stays_light(statement: str, absent: set[str]) -> None:
    assert not absent & loaded_after(statement)
