"""The plan of a dump: what a job keeps to from its first shard to its manifest.

Its fingerprint covers all that changes the store's bytes, so the same command again continues a job, and any other is
refused.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Self

from pipeline.config import DumpConfig, StoreConfig
from pipeline.corpus import corpus_tokenizer
from pipeline.encoding import EncoderSpec
from pipeline.errors import CorpusError, FingerprintError, OutputInUseError, StoreError
from pipeline.forecast import Forecast
from pipeline.formats.streams import InputFile
from pipeline.scanning import CorpusScan, PlannedShard
from pipeline.schema import FORMAT_VERSION, LOCK, LOCKS, MANIFEST, PLAN, TASKS, Column, task_name
from pipeline.storage import Folder
from pipeline.tasks import write_task

_NAMED_DIFFERENCES = 5


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a job does, fixed before it does it.

    Attributes:
        settings: All that changes the bytes of the store, as JSON values.
        shards: In document order.
        counts: Of the corpus, as `CorpusScan` counts.
    """

    settings: dict[str, Any]
    shards: tuple[PlannedShard, ...]
    counts: dict[str, int]

    @cached_property
    def fingerprint(self) -> str:
        """The hexadecimal SHA-256 of the settings as canonical JSON."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def sentences(self) -> int:
        """Sentences of all shards."""
        return sum(shard.sentences for shard in self.shards)

    @property
    def tokens(self) -> int:
        """Tokens of all shards."""
        return sum(shard.tokens for shard in self.shards)

    def bytes_of(self, numbers: Iterable[int]) -> int:
        """About the bytes that the shards of these numbers, once written, add to the store."""
        chosen = [self.shards[number] for number in numbers]
        share = sum(shard.tokens + shard.sentences for shard in chosen) / max(1, self.tokens + self.sentences)
        return Forecast.of(
            chosen,
            {name: round(share * self.counts.get(name, 0)) for name in ("string_bytes", "spans")},
            config=StoreConfig(**self.settings["store"]),
            columns=[Column.from_json(column) for column in self.settings["columns"]],
        ).store_bytes

    def to_json(self) -> bytes:
        """The contents of `plan.json`: the same for the same plan."""
        value = {
            "format_version": FORMAT_VERSION,
            "fingerprint": self.fingerprint,
            "settings": self.settings,
            "counts": self.counts,
            "shards": [asdict(shard) for shard in self.shards],
        }
        return (json.dumps(value, sort_keys=True, indent=1) + "\n").encode()

    @classmethod
    def read(cls, folder: Folder) -> Self:
        """The plan of a store, begun or complete.

        Raises:
            StorageError: There is no plan, or it cannot be read.
            StoreError: It is of a newer format, no plan, or altered.
        """
        where = f"{folder.url}/{PLAN}"
        try:
            value = json.loads(folder.read_bytes(PLAN))
            version = value["format_version"]
            if version > FORMAT_VERSION:
                raise StoreError(f"{where} has format {version}, this version reads up to {FORMAT_VERSION}; update it")
            shards = tuple(PlannedShard(**shard) for shard in value["shards"])
            plan = cls(settings=value["settings"], shards=shards, counts=value["counts"])
            if plan.fingerprint != value["fingerprint"]:
                raise StoreError(f"{where} was altered: its settings do not have its fingerprint")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(f"{where} is no plan of a feature store: {error!r}") from None
        return plan


def check_output(folder: Folder) -> None:
    """Refuses a folder that holds anything but a store or the start of one; touches nothing.

    Raises:
        OutputInUseError: It has files that no dump wrote; names one.
    """
    names = folder.top_level()
    foreign = [name for name in names if name not in (LOCK, LOCKS, TASKS)]
    if foreign and PLAN not in names and MANIFEST not in names:
        advice = "take a new or an empty folder, so that nothing of yours is touched"
        raise OutputInUseError(f"{folder.url} is no feature store but holds {foreign[0]!r}; {advice}")


def make_plan(
    inputs: Sequence[InputFile], folder: Folder, *, config: DumpConfig, spec: EncoderSpec, columns: Sequence[Column]
) -> Plan:
    """The plan for these inputs and settings, with a task file for every shard; call it under the folder's lock.

    A plan that the folder has already is returned if it is the same; `restore_tasks` then sees to its task files. After
    an error no plan and no task file is left.

    Args:
        inputs: As `list_inputs` gives them.
        folder: Of the store; need not exist.
        config: All settings.
        spec: Of the encoder.
        columns: All that is stored, derived ones included.

    Raises:
        CorpusError: Something in the corpus is refused; see `CorpusScan`.
        FingerprintError: The folder has another plan; names the settings that differ.
        OutputInUseError: The folder holds something else.
        StorageError: The plan or a task file cannot be written.
    """
    check_output(folder)
    if folder.exists(PLAN):
        plan = Plan.read(folder)
        tokenizer = corpus_tokenizer(config.corpus).version
        digests = [file.sha256() for file in inputs]
        _refuse_others(folder, plan, _settings(inputs, digests, tokenizer, config=config, spec=spec, columns=columns))
        return plan
    folder.remove_all(TASKS)
    try:
        scan = CorpusScan(inputs, config)
        for shard, sentences in groupby(scan, key=scan.shard_of):
            write_task(folder, shard, sentences)
        settings = _settings(inputs, scan.digests, scan.tokenizer, config=config, spec=spec, columns=columns)
        plan = Plan(settings=settings, shards=scan.shards(), counts=dict(scan.counts))
        if not folder.create_bytes(PLAN, plan.to_json()):
            _refuse_others(folder, Plan.read(folder), settings)
    except BaseException:
        folder.remove_all(TASKS)
        raise
    return plan


def restore_tasks(
    inputs: Sequence[InputFile], folder: Folder, plan: Plan, *, config: DumpConfig, shards: Iterable[int]
) -> None:
    """Writes those task files of these shards that are missing, by another pass over the corpus.

    Raises:
        CorpusError: The inputs are not what the plan was made from.
        StorageError: A task file cannot be written.
    """
    present = set(folder.list(TASKS))
    missing = {shard for shard in shards if task_name(shard) not in present}
    if not missing:
        return
    scan = CorpusScan(inputs, config)
    try:
        for shard, sentences in groupby(scan, key=scan.shard_of):
            if shard in missing:
                write_task(folder, shard, sentences)
        if _inputs_json(inputs, scan.digests) != plan.settings["inputs"] or scan.shards() != plan.shards:
            raise CorpusError(f"the input is not what {folder.url}/{PLAN} was made from; start afresh")
    except BaseException:
        for shard in missing:
            folder.remove(task_name(shard))
        raise


def _settings(
    inputs: Sequence[InputFile],
    digests: Sequence[str],
    tokenizer: str,
    *,
    config: DumpConfig,
    spec: EncoderSpec,
    columns: Sequence[Column],
) -> dict[str, Any]:
    encode = asdict(config.encode)
    # Devices give the same features to rounding, and a job may go on with another one.
    del encode["device"]
    return {
        "format_version": FORMAT_VERSION,
        "inputs": _inputs_json(inputs, digests),
        "corpus": asdict(config.corpus) | {"tokenizer": tokenizer},
        "encode": encode,
        "store": asdict(config.store),
        "encoder": {"family": spec.family, "model_digest": spec.model_digest, "numerics": dict(spec.numerics)},
        "columns": [column.to_json() for column in columns],
    }


def _inputs_json(inputs: Sequence[InputFile], digests: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": file.name, "sha256": digest} for file, digest in zip(inputs, digests, strict=True)]


def _refuse_others(folder: Folder, plan: Plan, settings: dict[str, Any]) -> None:
    before, now = dict(_leaves(plan.settings, "")), dict(_leaves(settings, ""))
    differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if not differing and plan.settings != settings:
        differing = ["inputs"]  # the same files in another order
    if differing:
        named = [f"{key} was {before.get(key, 'absent')}, is {now.get(key, 'absent')}" for key in differing]
        more = f"; and {len(named) - _NAMED_DIFFERENCES} more" if len(named) > _NAMED_DIFFERENCES else ""
        raise FingerprintError(
            f"{folder.url} was begun with other inputs or settings: {'; '.join(named[:_NAMED_DIFFERENCES])}{more}. "
            "Take another output folder, or start this one afresh"
        )


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Each single setting under its dotted name, in words; entries of a list go by their name."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and all(isinstance(entry, dict) and "name" in entry for entry in value):
        for entry in value:
            yield from _leaves({k: v for k, v in entry.items() if k != "name"}, f"{key}.{entry['name']}")
    else:
        text = json.dumps(value, ensure_ascii=False)
        yield key, text if len(text) <= 40 else f"{text[:36]}..."
