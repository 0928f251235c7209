"""`elmo models`: the trained models that come with the package."""

from __future__ import annotations

import click

from elmo_model.pretraining.model_files import read_card
from elmo_model.shipped import model_folder, shipped_models
from jobs.progress import readable_bytes


@click.command()
def models() -> None:
    """List the shipped models: size, training data, licence, held-out perplexity."""
    for name in shipped_models():
        folder = model_folder(name)
        card = read_card(folder)
        assert card is not None, "shipped_models lists folders with a card"
        size = sum(path.stat().st_size for path in folder.iterdir())
        click.echo(f"{name}  {readable_bytes(size)}  {card.licence}")
        click.echo(f"  {card.description}")
        for source in card.data:
            click.echo(f"  data: {source['name']} ({source['licence']})")
        click.echo(f"  tokens: {card.tokenizer}")
        for split, values in card.perplexity.items():
            click.echo(
                f"  perplexity on {split}: "
                + ", ".join(
                    f"{key} {value:.1f}" for key, value in values.items() if key in ("forward", "backward", "mean")
                )
            )
        click.echo(f"  folder: {folder}")
