"""Matplotlib, an optional library, ready to draw files: no window, no formulas in texts."""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with colour blindness can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7A6A00", "#444444")


def pyplot() -> ModuleType:
    """`matplotlib.pyplot`.

    Raises:
        ConfigError: Matplotlib is not installed; says how to get it.
    """
    try:
        import matplotlib  # noqa: PLC0415
    except ImportError:
        raise ConfigError("pictures need matplotlib: pip install 'elmo-features[plots]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    plt.rcParams.update(
        {"text.parse_math": False, "figure.dpi": 150, "axes.spines.top": False, "axes.spines.right": False}
    )
    return plt


def save(figure: "Figure", path: Path) -> None:
    """Writes a figure as PNG, without the time and the version of the library, and closes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None}, bbox_inches="tight")
    pyplot().close(figure)
