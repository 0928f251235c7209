"""Where the files of a model lie in its folder."""

from dataclasses import dataclass
from pathlib import Path

from elmo_model.errors import WeightsError


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """The files of one model.

    Attributes:
        options: The JSON options.
        weights: The HDF5 weights.
        vocabulary: One word a line; needed by models without a character encoder only.
    """

    options: Path
    weights: Path
    vocabulary: Path | None = None

    @classmethod
    def find(cls, folder: str | Path) -> "ModelFiles":
        """The files in a folder: one `*options*.json`, one `*weights*.hdf5` (or `.h5`), at most one `*vocab*.txt`.

        Raises:
            WeightsError: If the folder doesn't exist, or holds none or several files of a kind.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise WeightsError(f"{folder}: not a folder; a model is a folder with an options file and a weight file")
        return cls(
            options=_only(folder, "options file", "*options*.json"),
            weights=_only(folder, "weight file", "*weights*.hdf5", "*weights*.h5"),
            vocabulary=_only(folder, "vocabulary", "*vocab*.txt") if _find(folder, "*vocab*.txt") else None,
        )


def _only(folder: Path, kind: str, *patterns: str) -> Path:
    found = _find(folder, *patterns)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise WeightsError(f"{folder}: must hold one {kind} ({' or '.join(patterns)}); found: {names}")
    return found[0]


def _find(folder: Path, *patterns: str) -> list[Path]:
    return sorted(
        path for pattern in patterns for path in folder.glob(pattern) if path.is_file() and path.name[0] != "."
    )
