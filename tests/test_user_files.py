"""Every reader of a file that people write takes a byte order mark and either line end, and names another encoding."""

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors import judge_reference
from auditors.text.mitigations import MitigationTextError, own_text
from benchmarks.errors import BenchmarkError
from benchmarks.lab.distillation.evaluation import people
from benchmarks.lab.filter_head.training import read_examples
from benchmarks.lab.training import recipe
from benchmarks.run import directory, judge
from benchmarks.simulator import loading as profiles
from gateway.cli.audit import jobs
from gateway.config.loading import load
from gateway.errors import GatewayError
from gateway.features.formats.harness_logs import inspect, lm_eval
from gateway.features.ingest import cli as ingest
from gateway.features.lab.judge import judged, labels, reference
from gateway.features.mitigation.filter_plan import read_head
from tests.benchmarks.run.test_judge_validation import GOOD
from tests.support.auditors.moving_judge import reference_set

REFUSALS = (GatewayError, BenchmarkError, MitigationTextError, judge_reference.ReferenceSetError)
Reader = Callable[[Path], Any]
HEAD = (
    '{"kind": "biasgate filter head 1", "embedder": "e", "weights": [1.0], "bias": 0.0, "threshold": 0.5,'
    '\n"examples_sha256": "x"}'
)
LINE = '{"doc_id": 0, "doc": {}, "arguments": {"gen_args_0": {"arg_0": "Who?"}}, "resps": [["she"]]}'


def ingested(path: Path) -> list[bytes]:
    class Sending:
        def reject(self, number: int, why: str) -> None:
            raise AssertionError(f"line {number}: {why}")

    with path.open("rb") as lines:
        sending: Any = Sending()
        return [line.body for batch in ingest._batches(lines, sending) for line in batch]


READERS: dict[str, tuple[str, Reader]] = {
    "configuration": ("[server]\nport = 9\n", lambda path: load(path, environ={})),
    "profile": ('name = "x"\n', profiles.load),
    "recipe": ('[training]\nbase_model = "m"\nseed = 7\n', recipe.read),
    "own prompts": ('{"prompt": "é"}\n{"prompt": "b"}\n', lambda path: jobs.own_prompts(path).splitlines()),
    "instruction": ("Be fair.\nAlways.\n", lambda path: (own_text(path) or "").split()),
    "labels": ('{"value": 1.0, "measured_value": 0.5}\n' * 2, lambda path: labels.read(path).judgements),
    "other scores": ('{"measured_value": 0.5, "group": "man"}\n' * 2, judged._of_file),
    "replies to judge": ('{"prompt": "a", "reply": "b"}\n' * 2, reference._lines),
    "labels of essays": ('{"essay_id": "1", "value": 2}\n' * 2, people),
    "examples": ('{"text": "a", "biased": true}\n' * 2, lambda path: read_examples(path).examples),
    "recorded replies": ('{"item_id": "1", "text": "a"}\n' * 2, directory.read_recorded),
    "reference set": (reference_set("m").decode(), lambda path: judge_reference.read(path)[0]),
    "judge validation": (msgspec.json.encode(GOOD).decode() + "\n", judge.read),
    "log of lm-eval": (f"{LINE}\n{LINE}\n", lambda path: lm_eval.read(path).answers),
    "log of Inspect": (
        '{"eval": {"task": "t"},\n"samples": [{"input": "Who?", "output": {"completion": "she"}}]}',
        lambda path: inspect.read(path).answers,
    ),
    "head": (HEAD, lambda path: read_head(path, "head")),
    "exchanges": ('{"id": "1"}\n\n{"id": "2"}\n', ingested),
}


@pytest.mark.parametrize("name", READERS)
def test_what_other_editors_write_is_read_alike(name: str, tmp_path: Path) -> None:
    """With the mark that Windows puts first, and with its line ends, a file says the same; UTF-16 is one clear line."""
    text, read = READERS[name]
    path = tmp_path / "file.txt"

    def written(content: bytes) -> Path:
        path.write_bytes(content)
        return path

    plain = text.encode()
    expected = read(written(plain))
    assert read(written(codecs.BOM_UTF8 + plain)) == expected
    assert read(written(plain.replace(b"\n", b"\r\n"))) == expected
    assert read(written(codecs.BOM_UTF8 + plain.replace(b"\n", b"\r\n"))) == expected
    for encoding in ("utf-16", "utf-16-be"):
        with pytest.raises(REFUSALS) as raised:
            read(written(text.encode(encoding)))
        assert "UTF-" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert name == "instruction" or "file.txt" in str(raised.value)
