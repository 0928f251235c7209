"""`elmo convert`: a store in the layouts of the original tools, for code that reads those."""

from typing import get_args

import click

from pipeline.export import Layers, Layout
from pipeline.export import convert as convert_store


@click.command()
@click.argument("store")
@click.argument("output")
@click.option("--layout", type=click.Choice(get_args(Layout)), required=True, help="Whose file to write.")
@click.option(
    "--layers",
    type=click.Choice(get_args(Layers)),
    default="all",
    show_default=True,
    help="As --all, --top and --average of the original command; allennlp alone has a choice.",
)
@click.option("--skip-failed", is_flag=True, help="Leave failed sentences out; else a store that has some is refused.")
def convert(store: str, output: str, layout: Layout, layers: Layers, skip_failed: bool) -> None:
    """Write the features of STORE to the HDF5 file OUTPUT, one dataset a sentence, as the original tools did."""
    sentences = convert_store(store, output, layout=layout, layers=layers, skip_failed=skip_failed)
    click.echo(f"{output}: {sentences:,} sentences in the layout of {layout}")
