"""Options of several commands that only differ in name and values."""

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def choice(*names: str, of: Any, default: str, help: str) -> Callable[[_Command], _Command]:  # noqa: A002
    """An option whose values are those of a Literal type; its help shows the default."""
    return click.option(*names, type=click.Choice(get_args(of)), default=default, show_default=True, help=help)


def text(name: str, *, default: str, help: str) -> Callable[[_Command], _Command]:  # noqa: A002
    """An option with any text as its value; its help shows the default."""
    return click.option(name, default=default, show_default=True, help=help)
