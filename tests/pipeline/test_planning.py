"""Plans: what is checked, how shards are cut, and what makes two jobs the same."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import CorpusConfig, DumpConfig, EncodeConfig, StoreConfig
from pipeline.encoding import EncoderSpec
from pipeline.errors import CorpusError, FingerprintError, OutputInUseError, StoreError
from pipeline.formats.streams import InputFile
from pipeline.inputs import list_inputs
from pipeline.planning import Plan, check_output, make_plan, restore_tasks
from pipeline.scanning import PlannedShard
from pipeline.schema import MANIFEST, PLAN, TASKS, Column
from pipeline.storage import Folder
from pipeline.tasks import read_task
from pipeline.tokenizers import load_tokenizer

COLUMNS = (
    Column(name="token", width=4, layer=0, direction="none"),
    Column(name="forward_1", width=4, layer=1, direction="forward"),
)
SPEC = EncoderSpec(family="fake", columns=COLUMNS, model_digest="d1", numerics={"kernel": 1})


def plan_of(
    corpus: Path, folder: Folder, config: DumpConfig | None = None, *, spec: EncoderSpec = SPEC, columns: Any = COLUMNS
) -> Plan:
    config = config or DumpConfig()
    return make_plan(inputs_of(corpus, config), folder, config=config, spec=spec, columns=columns)


def inputs_of(corpus: Path, config: DumpConfig | None = None) -> list[InputFile]:
    return list_inputs([str(corpus)], (config or DumpConfig()).corpus)


def modified(folder: Folder) -> dict[str, int]:
    paths = {name: folder.local_path(name) for name in [PLAN, *folder.list(TASKS)]}
    return {name: path.stat().st_mtime_ns for name, path in paths.items() if path}


def shard_config(tokens: int, **corpus: Any) -> DumpConfig:
    return DumpConfig(corpus=CorpusConfig(**corpus), store=StoreConfig(shard_tokens=tokens))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("a b c\n\nd e\n")
    (folder / "b.txt").write_text("f\ng h i j k l m n o p\nq\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "out")


def test_shards_are_cut_in_document_order_without_splitting_a_sentence(corpus: Path, folder: Folder) -> None:
    plan = plan_of(corpus, folder, shard_config(5))
    assert plan.shards == (
        PlannedShard(number=0, sentences=3, tokens=5),
        PlannedShard(number=1, sentences=1, tokens=1),
        PlannedShard(number=2, sentences=1, tokens=10),
        PlannedShard(number=3, sentences=1, tokens=1),
    )
    assert (plan.sentences, plan.tokens) == (6, 17)
    tasks = [[sentence.id for sentence in read_task(folder, shard.number)] for shard in plan.shards]
    assert tasks == [["a.txt:1", "a.txt:2", "a.txt:3"], ["b.txt:1"], ["b.txt:2"], ["b.txt:3"]]
    assert Plan.read(folder) == plan
    assert folder.top_level() == (PLAN, TASKS)


def test_blank_lines_do_not_fill_a_shard_without_end(
    corpus: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.scanning.MAX_SENTENCES", 4)
    (corpus / "a.txt").write_text("\n" * 9)
    (corpus / "b.txt").unlink()
    assert [shard.sentences for shard in plan_of(corpus, folder).shards] == [4, 4, 1]


def test_carried_state_has_one_shard(corpus: Path, folder: Folder) -> None:
    config = DumpConfig(encode=EncodeConfig(carried_state=True, batch_sentences=2), store=StoreConfig(shard_tokens=2))
    assert plan_of(corpus, folder, config).shards == (PlannedShard(number=0, sentences=6, tokens=17),)


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(0, 12), min_size=1), limit=st.integers(1, 20))
def test_shards_hold_every_sentence_once_and_keep_to_their_tokens(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int
) -> None:
    root = tmp_path_factory.mktemp("plan")
    (root / "a.txt").write_text("".join("w " * length + "\n" for length in lengths))
    folder = Folder(root / "out")
    plan = plan_of(root / "a.txt", folder, shard_config(limit))
    tasks = [read_task(folder, shard.number) for shard in plan.shards]
    assert [len(sentence.tokens) for task in tasks for sentence in task] == lengths
    assert [shard.number for shard in plan.shards] == list(range(len(plan.shards)))
    for shard, task in zip(plan.shards, tasks, strict=True):
        assert (shard.sentences, shard.tokens) == (len(task), sum(len(sentence.tokens) for sentence in task))
        assert shard.tokens <= limit or shard.sentences == 1
    assert len(folder.list(TASKS)) == len(plan.shards)


def test_the_same_command_gives_the_same_plan_and_reads_it_again(corpus: Path, folder: Folder, tmp_path: Path) -> None:
    plan = plan_of(corpus, folder)
    other = Folder(tmp_path / "other")
    assert plan_of(corpus, other) == plan
    assert other.read_bytes(PLAN) == folder.read_bytes(PLAN)
    before = modified(folder)
    assert plan_of(corpus, folder) == plan
    assert modified(folder) == before


def test_the_device_is_no_part_of_the_fingerprint(corpus: Path, folder: Folder) -> None:
    plan = plan_of(corpus, folder, DumpConfig(encode=EncodeConfig(device="cpu")))
    assert plan_of(corpus, folder, DumpConfig(encode=EncodeConfig(device="cuda"))) == plan


CHANGED: dict[str, DumpConfig] = {
    "corpus.input_format": DumpConfig(corpus=CorpusConfig(input_format="text")),
    "corpus.encoding": DumpConfig(corpus=CorpusConfig(encoding="latin-1")),
    "corpus.blank_lines": DumpConfig(corpus=CorpusConfig(blank_lines="skip")),
    "encode.batch_tokens": DumpConfig(encode=EncodeConfig(batch_tokens=7)),
    "encode.batch_sentences": DumpConfig(encode=EncodeConfig(carried_state=True, batch_sentences=2)),
    "encode.precision": DumpConfig(encode=EncodeConfig(precision="bfloat16")),
    "store.shard_format": DumpConfig(store=StoreConfig(shard_format="parquet")),
    "store.dtype": DumpConfig(store=StoreConfig(dtype="float16")),
    "store.layers": DumpConfig(store=StoreConfig(layers="top")),
    "store.shard_tokens": DumpConfig(store=StoreConfig(shard_tokens=7)),
}


@pytest.mark.parametrize("field", sorted(CHANGED))
def test_another_setting_is_refused_by_its_name_and_changes_nothing(corpus: Path, folder: Folder, field: str) -> None:
    plan = plan_of(corpus, folder)
    with pytest.raises(FingerprintError, match=rf"out was begun with other inputs or settings: .*{field} was .*, is "):
        plan_of(corpus, folder, CHANGED[field])
    assert Plan.read(folder) == plan
    assert len(folder.list(TASKS)) == len(plan.shards)


def test_the_version_of_a_tokenizer_is_in_the_fingerprint(
    corpus: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_of(corpus, folder)
    newer = dataclasses.replace(load_tokenizer("whitespace"), version="whitespace 2")
    for module in ("pipeline.scanning", "pipeline.planning"):
        monkeypatch.setattr(f"{module}.corpus_tokenizer", lambda config: newer)
    with pytest.raises(FingerprintError, match=r'corpus\.tokenizer was "whitespace", is "whitespace 2"'):
        plan_of(corpus, folder)


def test_every_setting_is_in_the_fingerprint(corpus: Path, folder: Folder) -> None:
    plan = plan_of(corpus, folder)
    for part in ("corpus", "encode", "store"):
        fields = {field.name for field in dataclasses.fields(getattr(DumpConfig(), part))}
        assert set(plan.settings[part]) == fields - {"device"}


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.text("ab./é", min_size=1, max_size=4), min_size=1, unique=True),
    digest=st.text("01", min_size=1),
    numerics=st.dictionaries(st.text("xy", min_size=1), st.none() | st.integers() | st.text("ab")),
    tokens=st.integers(1, 9),
    change=st.sampled_from(["input", "digest", "numerics", "tokens", "column"]),
)
def test_plans_have_one_fingerprint_exactly_if_nothing_differs(
    names: list[str], digest: str, numerics: dict[str, Any], tokens: int, change: str
) -> None:
    settings: dict[str, Any] = {
        "inputs": [{"name": name, "sha256": digest} for name in names],
        "encoder": {"model_digest": digest, "numerics": numerics},
        "store": {"shard_tokens": tokens},
        "columns": [column.to_json() for column in COLUMNS],
    }
    plan = Plan(settings=settings, shards=(), counts={})
    same = json.loads(json.dumps(dict(reversed(settings.items()))))
    assert Plan(settings=same, shards=(), counts={"blank": 1}).fingerprint == plan.fingerprint
    match change:
        case "input":
            same["inputs"][-1]["name"] += "x"
        case "digest":
            same["encoder"]["model_digest"] += "x"
        case "numerics":
            same["encoder"]["numerics"]["x"] = [numerics.get("x")]
        case "tokens":
            same["store"]["shard_tokens"] += 1
        case _:
            same["columns"][1]["width"] += 1
    assert Plan(settings=same, shards=(), counts={}).fingerprint != plan.fingerprint


def test_another_model_or_column_is_refused_by_its_name(corpus: Path, folder: Folder) -> None:
    plan_of(corpus, folder)
    digest = dataclasses.replace(SPEC, model_digest="d2")
    with pytest.raises(FingerprintError, match=r'encoder.model_digest was "d1", is "d2"'):
        plan_of(corpus, folder, spec=digest)
    with pytest.raises(FingerprintError, match=r"encoder.numerics.kernel was 1, is 2"):
        plan_of(corpus, folder, spec=dataclasses.replace(SPEC, numerics={"kernel": 2}))
    with pytest.raises(FingerprintError, match=r"columns.forward_1.width was 4, is absent"):
        plan_of(corpus, folder, columns=COLUMNS[:1])


def test_other_inputs_are_refused_by_their_names(corpus: Path, folder: Folder) -> None:
    plan_of(corpus, folder)
    (corpus / "b.txt").write_text("f\n")
    with pytest.raises(FingerprintError, match=r"inputs\.b\.txt\.sha256 was "):
        plan_of(corpus, folder)
    (corpus / "b.txt").unlink()
    (corpus / "c.txt").write_text("f\n")
    with pytest.raises(
        FingerprintError, match=r"inputs\.b\.txt\.sha256 was .*, is absent; inputs\.c\.txt.* was absent"
    ):
        plan_of(corpus, folder)


def test_the_same_inputs_in_another_order_are_refused(corpus: Path, folder: Folder) -> None:
    config = DumpConfig()
    files = inputs_of(corpus)
    make_plan(files, folder, config=config, spec=SPEC, columns=COLUMNS)
    with pytest.raises(FingerprintError, match="inputs"):
        make_plan(files[::-1], folder, config=config, spec=SPEC, columns=COLUMNS)


def test_many_differences_are_told_shortly(corpus: Path, folder: Folder) -> None:
    plan_of(corpus, folder)
    for number in range(100):
        (corpus / f"more{number}.txt").write_text("x\n")
    with pytest.raises(FingerprintError, match="and 95 more") as caught:
        plan_of(corpus, folder)
    assert len(str(caught.value)) < 1000


def test_task_files_that_are_missing_are_restored_and_no_others(corpus: Path, folder: Folder) -> None:
    config = shard_config(5)
    plan = plan_of(corpus, folder, config)
    before = {name: folder.read_bytes(name) for name in folder.list(TASKS)}
    folder.remove_all(TASKS)
    restore_tasks(inputs_of(corpus), folder, plan, config=config, shards=[1, 3])
    assert folder.list(TASKS) == ["tasks/00001.parquet", "tasks/00003.parquet"]
    restore_tasks(inputs_of(corpus), folder, plan, config=config, shards=range(4))
    assert {name: folder.read_bytes(name) for name in folder.list(TASKS)} == before


def test_no_task_is_restored_from_inputs_that_changed(corpus: Path, folder: Folder) -> None:
    config = shard_config(5)
    plan = plan_of(corpus, folder, config)
    folder.remove("tasks/00001.parquet")
    (corpus / "b.txt").write_text("F\ng h i j k l m n o p\nq\n")
    with pytest.raises(CorpusError, match=r"the input is not what .*plan.json was made from"):
        restore_tasks(inputs_of(corpus), folder, plan, config=config, shards=[1])
    assert "tasks/00001.parquet" not in folder.list(TASKS)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a.tsv": "1\tx\n2\ty\n", "b.tsv": "3\tz\n1\tw\n"}, "^b.tsv:2: the id '1' stands at a.tsv:1 already$"),
        ({"a.tsv": "b.txt:2\tx\n", "b.txt": "one\ntwo\n"}, "^b.txt:2: the id 'b.txt:2' stands at a.tsv:1 already$"),
        ({"a.txt": "fine\n", "b.tsv": "no tab\n"}, "^b.tsv:1: no tab"),
        ({"a.txt": ""}, "^no sentence in a.txt: nothing but empty input$"),
        ({"a.txt": "", "b.jsonl": "\n"}, "^no sentence in 2 files"),
    ],
)
def test_a_refused_corpus_leaves_no_output(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    (tmp_path / "corpus").mkdir()
    for name, text in files.items():
        (tmp_path / "corpus" / name).write_text(text)
    folder = Folder(tmp_path / "out")
    with pytest.raises(CorpusError, match=problem), folder.lock():
        plan_of(tmp_path / "corpus", folder, shard_config(1))
    assert not (tmp_path / "out").exists()


def test_ids_with_equal_hashes_are_told_apart(corpus: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.scanning.id_hash", len)
    monkeypatch.setattr("pipeline.scanning._SUSPECTS", 1)
    (corpus / "c.tsv").write_text("12345\tx\n1234\ty\n")
    assert plan_of(corpus, folder).sentences == 8
    (corpus / "c.tsv").write_text("12345\tx\n1234\ty\n1234\tz\n")
    with pytest.raises(CorpusError, match=r"c.tsv:3: the id '1234' stands at c.tsv:2"):
        plan_of(corpus, Folder(corpus.parent / "other"))


def test_nothing_but_skipped_blank_lines_is_a_plan_without_shards(corpus: Path, folder: Folder) -> None:
    for name in ("a.txt", "b.txt"):
        (corpus / name).write_text("\n \n\n")
    plan = plan_of(corpus, folder, shard_config(5, blank_lines="skip"))
    assert plan.shards == ()
    assert plan.counts == {"blank": 6, "skipped_blank": 6}
    assert Plan.read(folder) == plan


def test_a_folder_with_other_files_is_refused_and_untouched(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.doc").write_text("years of work")
    with pytest.raises(OutputInUseError, match=r"out is no feature store but holds 'thesis.doc'"):
        check_output(Folder(out))
    with pytest.raises(OutputInUseError, match=r"thesis.doc"):
        plan_of(corpus, Folder(out))
    assert os.listdir(out) == ["thesis.doc"]


def test_stores_and_their_beginnings_are_accepted_as_output(corpus: Path, folder: Folder) -> None:
    check_output(folder)
    folder.write_bytes("tasks/00000.parquet", b"left by a job that was killed while planning")
    folder.write_bytes("tasks/00009.parquet", b"left by a job that was killed while planning")
    with folder.lock():
        check_output(folder)
        plan_of(corpus, folder)
    assert folder.list(TASKS) == ["tasks/00000.parquet"]
    folder.write_bytes("notes.txt", b"beside the store")
    check_output(folder)
    folder.remove(PLAN)
    folder.write_bytes(MANIFEST, b"{}")
    check_output(folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda plan: plan | {"format_version": 99}, "has format 99, this version reads up to 1"),
        (lambda plan: plan | {"settings": plan["settings"] | {"x": 1}}, "was altered"),
        (lambda plan: plan | {"shards": [{"number": 0}]}, "is no plan"),
        (lambda plan: {"format_version": 1}, "is no plan"),
        (lambda plan: [], "is no plan"),
        (lambda plan: {"name": "of another tool"}, "is no plan"),
    ],
)
def test_a_plan_that_cannot_be_kept_to_is_refused(corpus: Path, folder: Folder, change: Any, problem: str) -> None:
    plan_of(corpus, folder)
    folder.write_bytes(PLAN, json.dumps(change(json.loads(folder.read_bytes(PLAN)))).encode())
    with pytest.raises(StoreError, match=rf"plan\.json {problem}"):
        Plan.read(folder)
    with pytest.raises(StoreError, match=rf"plan\.json {problem}"):
        plan_of(corpus, folder)


def test_unknown_keys_of_a_plan_are_ignored(corpus: Path, folder: Folder) -> None:
    plan = plan_of(corpus, folder)
    folder.write_bytes(PLAN, json.dumps(json.loads(plan.to_json()) | {"later": 1}).encode())
    assert Plan.read(folder) == plan


def test_a_plan_killed_at_any_point_is_made_whole_by_the_next_run(corpus: Path, tmp_path: Path) -> None:
    (corpus / "a.txt").write_text("a b c d e\n" * 1000)
    config = shard_config(50)
    undisturbed = Folder(tmp_path / "undisturbed")
    plan = plan_of(corpus, undisturbed, config)
    script = """if True:
        import os, signal, sys
        from pipeline.config import DumpConfig, StoreConfig
        from pipeline.encoding import EncoderSpec
        from pipeline.inputs import list_inputs
        from pipeline.planning import make_plan
        from pipeline.storage import Folder
        config = DumpConfig(store=StoreConfig(shard_tokens=50))
        folder = Folder(sys.argv[2])
        replace, count = os.replace, 0
        def replace_or_die(*names):
            global count
            count += 1
            if count == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*names)
        os.replace = replace_or_die
        with folder.lock():
            make_plan(list_inputs(sys.argv[1:2], config.corpus), folder, config=config,
                      spec=EncoderSpec(family="fake", columns=(), model_digest="d1"), columns=())
    """
    folder = Folder(tmp_path / "out")
    for step in (1, 2, 30, 100):
        command = [sys.executable, "-c", script, str(corpus), str(tmp_path / "out"), str(step)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert not folder.exists(PLAN)
    with folder.lock():
        check_output(folder)
        folder.remove_stale()
        assert plan_of(corpus, folder, config) == plan
    assert folder.top_level() == undisturbed.top_level()
    names = [PLAN, *undisturbed.list(TASKS)]
    assert folder.list(TASKS) == names[1:]
    assert [folder.read_bytes(name) for name in names] == [undisturbed.read_bytes(name) for name in names]
