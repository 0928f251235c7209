"""Occurrences as one HTML page that needs nothing else: no network, no library, no fonts of its own."""

from collections.abc import Sequence
from html import escape

from jobs.occurrences import Occurrence
from jobs.pictures.charts import group_colours
from jobs.pictures.projection import Projection

SIZE, MARGIN = 640, 30

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 sans-serif; margin: 1.5em; color: #222; background: #fff; }}
main {{ display: flex; flex-wrap: wrap; gap: 1.5em; }}
svg {{ flex: 1 1 320px; max-width: {size}px; height: auto; border: 1px solid #ccc; }}
circle {{ cursor: pointer; }}
circle:focus, circle.on {{ stroke: #000; stroke-width: 3; outline: none; }}
text {{ font: 11px sans-serif; pointer-events: none; }}
ol {{ flex: 1 1 320px; max-height: {size}px; overflow-y: auto; margin: 0; padding-left: 3em; }}
li {{ padding: 2px 4px; }}
li.on {{ background: #fff3c4; }}
small {{ color: #666; }}
p.key span {{ margin-right: 1em; white-space: nowrap; }}
</style>
<h1>{title}</h1>
<p>{axes} Point at a dot, or tap it, to find its sentence; point at a sentence to find its dot.</p>
<p class="key">{key}</p>
<main>
<svg viewBox="0 0 {size} {size}" role="img" aria-label="{title}">
{circles}
</svg>
<ol>
{items}
</ol>
</main>
<script>
"use strict";
const parts = kind => [...document.querySelectorAll(kind)];
const circles = parts("circle"), items = parts("main li");
function mark(number, scroll) {{
  for (const list of [circles, items]) list.forEach((part, place) => part.classList.toggle("on", place === number));
  if (scroll) items[number].scrollIntoView({{block: "nearest"}});
}}
circles.forEach((circle, number) => {{
  for (const event of ["mouseenter", "focus", "click"]) circle.addEventListener(event, () => mark(number, true));
}});
items.forEach((item, number) => item.addEventListener("mouseenter", () => mark(number, false)));
</script>
</html>
"""


def occurrences_page(
    *, title: str, occurrences: Sequence[Occurrence], projection: Projection, groups: Sequence[str] | None
) -> str:
    """The page, with a dot and a whole sentence for each occurrence.

    Args:
        title: Its heading.
        occurrences: In the order of their numbers.
        projection: Where their dots stand.
        groups: The label of each, shown by colour and in words; None for none.
    """
    colours, names = group_colours(groups, len(occurrences))
    low, high = projection.points.min(axis=0), projection.points.max(axis=0)
    scaled = (projection.points - low) / (high - low + (high == low)) * (SIZE - 2 * MARGIN) + MARGIN
    circles, items = [], []
    for number, (occurrence, colour, (x, y)) in enumerate(zip(occurrences, colours, scaled.tolist(), strict=True), 1):
        before, word, after = (
            " ".join(occurrence.tokens[: occurrence.position]),
            occurrence.tokens[occurrence.position],
            " ".join(occurrence.tokens[occurrence.position + 1 :]),
        )
        top = SIZE - y
        circles.append(
            f'<circle tabindex="0" cx="{x:.1f}" cy="{top:.1f}" r="7" fill="{colour}">'
            f"<title>{escape(' '.join(occurrence.tokens))}</title></circle>"
            f'<text x="{x + 9:.1f}" y="{top - 5:.1f}">{number}</text>'
        )
        group = f" · {escape(groups[number - 1])}" if groups is not None else ""
        items.append(
            f'<li><span style="color:{colour}">●</span> {escape(before)} <b>{escape(word)}</b> {escape(after)} '
            f"<small>{escape(occurrence.id)}{group}</small></li>"
        )
    first, second = projection.explained
    page = PAGE.format(
        title=escape(title),
        size=SIZE,
        axes=f"The two directions of largest variance, {first:.0%} and {second:.0%} of it.",
        key=" ".join(f'<span style="color:{colour}">● {escape(name)}</span>' for name, colour in names.items()),
        circles="\n".join(circles),
        items="\n".join(items),
    )
    return page.encode("utf-8", "replace").decode("utf-8")
