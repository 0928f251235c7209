"""Every setting of a corpus can be given on the command line."""

import json
from dataclasses import asdict, fields

import click
from click.testing import CliRunner, Result

from jobs.corpus_options import corpus_options
from pipeline.config import CorpusConfig
from pipeline.errors import ConfigError

GIVEN = {
    "--input-format": "conll",
    "--glob": "*.x",
    "--encoding": "latin-1",
    "--tokenizer": "english",
    "--id-column": "key",
    "--text-column": "sentence",
    "--tokens-column": "words",
    "--spans-column": "phrases",
    "--conllu-column": "lemma",
    "--conll-column": "3",
    "--fasta-id": "accession",
}


@click.command()
@click.argument("place")
@corpus_options
@click.option("--other")
def show(place: str, corpus: CorpusConfig, other: str | None) -> int:
    """The first line of the help."""
    click.echo(json.dumps({"place": place, "other": other, **asdict(corpus)}))
    return 0


def run(*arguments: str) -> Result:
    return CliRunner().invoke(show, ["here", *arguments])


def test_without_options_the_settings_are_the_defaults() -> None:
    assert json.loads(run().output) == {"place": "here", "other": None, **asdict(CorpusConfig())}


def test_every_setting_has_an_option() -> None:
    values = json.loads(run("--strict", *(part for option in GIVEN.items() for part in option)).output)
    found = {field.name: values[field.name] for field in fields(CorpusConfig)}
    assert found == {
        "input_format": "conll",
        "glob": "*.x",
        "encoding": "latin-1",
        "tokenizer": "english",
        "blank_lines": "refuse",
        "id_column": "key",
        "text_column": "sentence",
        "tokens_column": "words",
        "spans_column": "phrases",
        "conllu_column": "lemma",
        "conll_column": 3,
        "fasta_id": "accession",
    }
    default = asdict(CorpusConfig())
    assert all(found[name] != default[name] for name in default)


def test_blank_lines_can_be_left_out_and_other_options_stay() -> None:
    found = json.loads(run("--skip-empty", "--other", "x").output)
    assert (found["blank_lines"], found["other"]) == ("skip", "x")


def test_what_is_not_allowed_is_refused() -> None:
    assert "'gene' is not one of" in run("--fasta-id", "gene").output
    assert isinstance(run("--encoding", "klingon").exception, ConfigError)


def test_the_help_is_that_of_the_command() -> None:
    help_text = run("--help").output
    assert "The first line of the help." in help_text
    assert all(option in help_text for option in GIVEN)
