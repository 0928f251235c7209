"""`elmo token-table`: the token vectors of a closed vocabulary, computed once for all."""

from pathlib import Path

import click
import torch

from elmo_model.token_table import write_token_table
from elmo_model.vocabulary import Vocabulary
from elmo_model.weights import read_bilm


@click.command("token-table")
@click.argument("model")
@click.argument("vocabulary", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
def token_table(model: str, vocabulary: Path, output: Path) -> None:
    """Write MODEL's vector of every word of VOCABULARY to OUTPUT (HDF5), for `elmo dump --token-table`.

    VOCABULARY has a word on each line, with <S>, </S> and <UNK> among them. The file is as bilm-tf writes it.
    """
    words = Vocabulary.read(vocabulary)
    output.parent.mkdir(parents=True, exist_ok=True)
    bilm = read_bilm(model)
    write_token_table(bilm, words, output, device="cuda" if torch.cuda.is_available() else "cpu")
    click.echo(f"{output}: {len(words):,} vectors of width {bilm.lstm.projection_dim}")
