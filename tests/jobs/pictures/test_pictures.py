"""Pictures as files: legible fonts or a refusal, a page that needs nothing else, and charts that are really drawn."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from jobs.occurrences import Occurrence
from jobs.pictures import fonts
from jobs.pictures.charts import Bar, draw_bars, draw_curves, draw_occurrences, draw_similarities, draw_weights
from jobs.pictures.fonts import MissingGlyphsError, use_fonts_for
from jobs.pictures.page import occurrences_page
from jobs.pictures.plotting import pyplot
from jobs.pictures.projection import principal_components

pytest.importorskip("matplotlib")


def occurrences(tokens: tuple[str, ...], count: int = 3) -> list[Occurrence]:
    vectors = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    return [
        Occurrence(id=f"a<b>.txt:{number}", position=1, tokens=tokens, vector=vector)
        for number, vector in enumerate(vectors, 1)
    ]


def pixels(path: Path) -> np.ndarray:
    image: np.ndarray = pyplot().imread(path)
    return image


def draw(path: Path, found: list[Occurrence], groups: list[str] | None = None) -> None:
    projection = principal_components([occurrence.vector for occurrence in found])
    draw_occurrences(path, title="word", occurrences=found, projection=projection, groups=groups)


def test_text_that_the_default_font_has_is_drawn_in_it() -> None:
    use_fonts_for(["naïve café", "Ωμέγα", "a\x00b $x$"])
    assert pyplot().rcParams["font.family"] == ["DejaVu Sans"]


def test_characters_that_no_font_has_are_named_with_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_installed", lambda: [("DejaVu Sans", set(map(ord, "ab ")))])
    with pytest.raises(MissingGlyphsError, match=r"2 characters .*中 \(U\+4E2D\).*fonts-noto-cjk"):
        use_fonts_for(["a 中文 b"])
    with pytest.raises(MissingGlyphsError, match="fonts-noto-core"):
        use_fonts_for(["ह"])
    with pytest.raises(MissingGlyphsError, match="fonts-symbola"):
        use_fonts_for(["🎈"])


def test_a_font_of_boxes_does_not_count_as_one_that_has_the_character(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import font_manager  # noqa: PLC0415

    manager = font_manager.fontManager
    kept = [font for font in manager.ttflist if font.name.startswith(("DejaVu Sans", "Last Resort"))]
    assert any(font.name.startswith("Last Resort") for font in kept)
    monkeypatch.setattr(manager, "ttflist", kept)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    with pytest.raises(MissingGlyphsError, match=r"中 \(U\+4E2D\)"):
        use_fonts_for(["a 中"])


def test_a_second_font_helps_out_where_the_first_lacks_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_installed", lambda: [("One", {ord("a")}), ("Idle", {ord("a")}), ("Two", {ord("中")})])
    use_fonts_for(["a中"])
    assert pyplot().rcParams["font.family"] == ["One", "Two"]


def test_occurrences_are_drawn_with_their_sentences_and_without_warnings(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    found = occurrences(("the", "$x_{bank}$", "& <b>more</b>", "\x07"))
    draw(tmp_path / "a.png", found)
    draw(tmp_path / "b.png", found, ["money", "river", "money"])
    many = occurrences(("a", "b"), count=60)
    draw(tmp_path / "c.png", many)
    wide, _, narrow = (pixels(tmp_path / f"{name}.png").shape[1] for name in "abc")
    assert wide > 1.3 * narrow
    assert [str(warning.message) for warning in recwarn if "Glyph" in str(warning.message)] == []


def test_a_picture_has_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw(tmp_path / name, occurrences(("x", "y", "z")))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


class Collector(HTMLParser):
    """Tags with their attributes, and the text outside of script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.text += data


def test_the_page_holds_every_sentence_escaped_and_asks_for_nothing_from_outside() -> None:
    hostile = ("</li><script>alert(1)</script>", "bank", "&amp;", "\ud800")
    found = occurrences(hostile)
    projection = principal_components([occurrence.vector for occurrence in found])
    page = occurrences_page(
        title="bank <i>", occurrences=found, projection=projection, groups=["<b>", "river", "river"]
    )
    page.encode("utf-8")
    collector = Collector()
    collector.feed(page)
    names = [tag for tag, _ in collector.tags]
    assert names.count("script") == 1
    assert names.count("circle") == names.count("li") == 3
    assert not {"b>", "i", "img", "link", "iframe"} & set(names)
    assert "alert(1)" in collector.text
    assert "&amp;" in collector.text
    assert not re.search(r"(src|href)\s*=|https?:|url\(", page)
    policies = [attributes["content"] for tag, attributes in collector.tags if "http-equiv" in attributes]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]
    places = [(float(a["cx"] or 0), float(a["cy"] or 0)) for tag, a in collector.tags if tag == "circle"]
    assert all(0 < x < 640 and 0 < y < 640 for x, y in places)
    assert len(set(places)) == 3


def test_charts_are_drawn(tmp_path: Path) -> None:
    draw_similarities(
        tmp_path / "s.png", title="s", rows=["a", "b"], columns=["c", "$d", "e"], cosines=np.array([[1, 0, -0.2]] * 2)
    )
    draw_weights(tmp_path / "w.png", title="w", weights={"one, input": [0.2, 0.7, 0.1], "two": [1.0]})
    draw_bars(
        tmp_path / "b.png",
        title="b",
        unit="F1",
        bars={"row": {"x": Bar(value=3.0, spread=0.5)}, "other": {"y": Bar(value=9.0)}},
    )
    points = [(1.0, Bar(value=3.0, spread=0.5)), (100.0, Bar(value=5.0))]
    draw_curves(tmp_path / "c.png", title="c", unit="F1", curves={"POS": {"baseline": points, "+ ELMo": points[:1]}})
    for name in "swbc":
        image = pixels(tmp_path / f"{name}.png")
        assert min(image.shape[:2]) > 200
        assert len(np.unique(image.reshape(-1, image.shape[2]), axis=0)) > 10
