"""What a Flex Template's launcher runs: parameters of the template into `elmo submit dataflow`.

The parameters stand in `metadata.json`. Everything else that the launcher hands over is an option of Beam.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

METADATA = Path(__file__).with_name("metadata.json")


def submit_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of `elmo submit` for those of the launcher, all of which look like `--name=value`.

    Raises:
        ValueError: `inputs` or `output` is missing, or an argument looks otherwise.
    """
    ours = {parameter["name"] for parameter in json.loads(METADATA.read_text(encoding="utf-8"))["parameters"]}
    values: dict[str, str] = {}
    beam = []
    for argument in arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not (equals or name not in ours):
            raise ValueError(f"{argument!r} does not look like --name=value")
        if name in ours:
            values[name] = value
        elif name != "runner":
            beam.append(argument)
    for name in ("inputs", "output"):
        if not values.get(name):
            raise ValueError(f"the parameter {name} is missing")
    options = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in values.items()
        if name not in ("inputs", "output", "take_over") and value
    ]
    if values.get("take_over") == "true":
        options.append("--take-over")
    inputs = [url for url in values["inputs"].split(",") if url]
    return ["submit", "dataflow", *inputs, values["output"], *options, "--", *beam]


if __name__ == "__main__":
    from jobs.cli import main

    main(submit_arguments(sys.argv[1:]))
