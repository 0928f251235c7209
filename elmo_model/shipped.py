"""The trained models that come with the package, by name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

DEFAULT_MODEL = "mini-en"


def shipped_models() -> list[str]:
    """The names of the models that come with the package."""
    folder = Path(str(files("elmo_model") / "models"))
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and (path / "card.json").is_file())


def model_folder(model: str | Path) -> Path:
    """The folder of a model: a path that exists as it is, else a shipped model's name."""
    path = Path(model)
    if not path.exists() and str(model) in shipped_models():
        return Path(str(files("elmo_model") / "models" / str(model)))
    return path
