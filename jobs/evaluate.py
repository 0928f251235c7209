"""`elmo evaluate`: the perplexity of a language model on held-out text."""

from __future__ import annotations

from typing import get_args

import click
import torch

from elmo_model.pretraining.evaluation import carried_perplexity, perplexity
from elmo_model.pretraining.model_files import read_card, read_language_model
from elmo_model.shipped import model_folder
from jobs.encoders.devices import available_device
from jobs.prose import Prose, corpus_options
from pipeline.config import CorpusConfig, Device


@click.command()
@click.argument("model")
@click.argument("heldout")
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True, help="Sentences at a time.")
@click.option(
    "--carried-state",
    is_flag=True,
    help="As the original test program did: state carried over all sentences, rows of single tokens, an unweighted "
    "mean over batches; the result depends on the batch size.",
)
@click.option(
    "--device", type=click.Choice(get_args(Device)), default="auto", show_default=True, help="Where to compute."
)
@corpus_options
def evaluate(
    model: str, heldout: str, batch_size: int, carried_state: bool, device: Device, corpus_config: CorpusConfig
) -> None:
    """Print how well MODEL, a folder or the name of a shipped model, predicts the text HELDOUT.

    Each sentence starts from zero state; a direction's perplexity is exp(total loss / predictions), full softmax, end
    marks counted.
    """
    folder = model_folder(model)
    language_model, vocabulary = read_language_model(folder)
    language_model.to(torch.device(available_device(device)))
    card = read_card(folder)
    if card is not None and card.tokenizer.split()[0] != corpus_config.tokenizer:
        click.echo(
            f"note: the model was trained on {card.tokenizer} tokens, this text is read as {corpus_config.tokenizer}",
            err=True,
        )
    sentences = Prose.open(heldout, corpus_config).sentences()
    if carried_state:
        value = carried_perplexity(language_model, list(sentences), vocabulary=vocabulary, batch_size=batch_size)
        click.echo(f"perplexity {value:.3f} (state carried, batches of {batch_size}, both directions in one mean loss)")
        return
    result = perplexity(language_model, sentences, vocabulary=vocabulary, batch_size=batch_size)
    for direction, value in result.by_direction.items():
        click.echo(f"{direction:10} {value:.3f}")
    click.echo(f"{'mean':10} {result.mean:.3f}")
    words = result.tokens - result.sentences
    click.echo(
        f"{result.tokens:,} predictions in {result.sentences:,} sentences; {result.unknown / max(1, words):.2%} of the "
        f"words are unknown to the {len(vocabulary):,} words of the vocabulary"
    )
