"""Which installed fonts can draw a text; where none can, an error that names a font package, never boxes."""

import contextlib
import unicodedata
from collections.abc import Iterable, Iterator

from jobs.pictures.plotting import pyplot
from pipeline.errors import PipelineError

PREFERRED = "DejaVu Sans"
# Debian's names; other systems have packages of like names.
PACKAGES = {
    "CJK": "fonts-noto-cjk",
    "HIRAGANA": "fonts-noto-cjk",
    "KATAKANA": "fonts-noto-cjk",
    "HANGUL": "fonts-noto-cjk",
    "IDEOGRAPHIC": "fonts-noto-cjk",
    "FULLWIDTH": "fonts-noto-cjk",
}
# Comes with matplotlib and has a box for every character there is.
BOXES = "Last Resort"
OTHER_LETTERS = "fonts-noto-core"
SYMBOLS = "fonts-symbola"


class MissingGlyphsError(PipelineError):
    """No installed font has a character of the text."""


def use_fonts_for(texts: Iterable[str]) -> None:
    """Makes the plots that follow use fonts that have every character of the texts.

    Raises:
        MissingGlyphsError: No installed font has some of them; says which and names packages with fonts that do.
    """
    plt = pyplot()
    missing = {ord(character) for text in texts for character in drawable(text)}
    families = []
    for family, characters in _installed():
        if missing & characters:
            families.append(family)
            missing -= characters
        if not missing:
            break
    if missing:
        without = [chr(code) for code in sorted(missing)]
        packages = sorted({_package(character) for character in without})
        raise MissingGlyphsError(
            f"no installed font has {len(without)} characters of the picture, such as "
            f"{', '.join(f'{character} (U+{ord(character):04X})' for character in without[:3])}; "
            f"install {' or '.join(packages)} (names of Debian packages) and try again"
        )
    plt.rcParams["font.family"] = families or [PREFERRED]


def drawable(text: str) -> str:
    """The text with characters that are never drawn, such as controls, replaced by U+FFFD."""
    return "".join(
        "\ufffd" if unicodedata.category(character) in ("Cc", "Cs", "Cn", "Co") else character for character in text
    )


def _installed() -> Iterator[tuple[str, set[int]]]:
    """Family and characters of each installed font, the preferred one first, then by name; read as far as needed."""
    from matplotlib import font_manager  # noqa: PLC0415 -- an optional library
    from matplotlib.ft2font import FT2Font  # noqa: PLC0415

    manager = font_manager.fontManager
    # Matplotlib remembers the fonts of its first use and would not see one installed since.
    for path in sorted(set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}):
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # not a font that it can read
            manager.addfont(path)
    fonts = [font for font in manager.ttflist if font.style == "normal" and font.weight in (400, "normal")]
    for font in sorted(fonts, key=lambda font: (font.name != PREFERRED, font.name, font.fname)):
        if not font.name.startswith(BOXES):
            yield font.name, set(FT2Font(font.fname).get_charmap())


def _package(character: str) -> str:
    name = unicodedata.name(character, "")
    if name.split(" ")[0] in PACKAGES:
        return PACKAGES[name.split(" ")[0]]
    return SYMBOLS if unicodedata.category(character)[0] == "S" else OTHER_LETTERS
