"""The harnesses: how each is told to ask the same items of the same server, and how its answers are found again.

None of their code or tasks is used: what they ask is written for each run, from the items of `exam`.
"""

import json
import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.support.processes import BIASGATE
from tests.vllm.conftest import MODEL
from tools.bench.contestants import environment
from tools.bench.harnesses.exam import Exam, lean

LM_EVAL = ["lm_eval[api]==0.4.13", "transformers==5.23.0"]
PANDAS = ["pandas==2.3.3"]
INSPECT = ["inspect_ai==0.3.285", "openai==3.54.0"]
MOST_SECONDS = 900


class Setting(NamedTuple):
    """Where one harness is at work."""

    url: str
    model_dir: Path
    vllm_env: Path
    home: Path
    """Empty, for its files."""
    in_flight: int
    lengths: Mapping[str, float]
    """Tokens of a reply by suite, of the latest run of biasgate."""


class Contestant(NamedTuple):
    name: str
    ask: Callable[[Setting, Exam], Callable[[], "Answers"]]
    """Prepares, and returns what asks. Raises Missing."""


class Answers(NamedTuple):
    leans: Sequence[float]
    """One an item, see `exam.lean`; none where the answers are not looked at."""
    tokens: float | None = None
    """Of a reply, on average."""


def biasgate(mode: str, concurrency: str = "auto") -> Callable[[Setting, Exam], Callable[[], Answers]]:
    def prepared(at: Setting, exam: Exam) -> Callable[[], Answers]:
        argv = [*BIASGATE, "audit", "run", "--suite", exam.suite, "--mode", mode, "--model", MODEL, "--quiet"]
        argv += ["--base-url", at.url, "--limit", str(len(exam.questions)), "--data", exam.plan.options.data]
        argv += ["--concurrency", concurrency, "--out", str(at.home / "run")]

        def ask() -> Answers:
            _run(argv, at.home)
            replies = [json.loads(line) for line in (at.home / "run/responses.jsonl").read_text().splitlines()]
            # Where several share a request, the first has the tokens of all.
            tokens = [reply["usage"].get("completion_tokens", 0) for reply in replies if reply["usage"]]
            found = [reply["choice_probabilities"] or {str(reply["parsed"]): 1.0} for reply in replies]
            return Answers([lean(one) for one in found], sum(tokens) / len(tokens))

        return ask

    return prepared


def lm_eval(kind: str, in_flight: int | None = None) -> Callable[[Setting, Exam], Callable[[], Answers]]:
    """`kind`: "likelihood" scores the three choices of each item, "generation" draws a reply."""

    def prepared(at: Setting, exam: Exam) -> Callable[[], Answers]:
        env = environment("lm-eval", LM_EVAL, "BIASGATE_BENCH_LM_EVAL_ENV")
        items = _written(at, exam)
        (at.home / "task.yaml").write_text(json.dumps(_lm_eval_task(kind, items, exam)))  # JSON is YAML
        is_chat = kind == "generation"
        endpoint = "chat/completions" if is_chat else "completions"
        told = [f"model={MODEL}", f"base_url={at.url}/v1/{endpoint}", f"num_concurrent={in_flight or at.in_flight}"]
        told += [f"tokenizer={at.model_dir}", "tokenizer_backend=huggingface"]
        argv = [str(env / "bin/lm_eval"), "--model", "local-chat-completions" if is_chat else "local-completions"]
        argv += ["--model_args", ",".join(told), "--tasks", "items", "--include_path", str(at.home)]
        argv += ["--apply_chat_template", "--log_samples", "--output_path", str(at.home / "out")]

        def ask() -> Answers:
            _run(argv, at.home, {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(at.home / "cache")})
            (log,) = (at.home / "out").glob("*/samples_items_*.jsonl")
            samples = [json.loads(line) for line in log.read_text().splitlines()]
            if is_chat:
                return Answers([exam.read(sample["doc"]["item_id"], sample["resps"][0][0]) for sample in samples])
            return Answers([lean(_shares(sample)) for sample in samples])

        return ask

    return prepared


def _lm_eval_task(kind: str, items: Path, exam: Exam) -> dict[str, Any]:
    task: dict[str, Any] = {
        "task": "items",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(items)}},
        "test_split": "test",
        "description": "{{system}}",
        "doc_to_text": "{{prompt}}",
        "target_delimiter": "",
    }
    if kind == "likelihood":
        metric = {"metric": "acc"}
        return {
            **task,
            "output_type": "multiple_choice",
            "doc_to_choice": "{{choices}}",
            "doc_to_target": 0,
            "metric_list": [metric],
        }
    drawn: dict[str, Any] = {"until": [], "do_sample": True, "temperature": exam.sampling.temperature, "seed": None}
    drawn |= {"max_gen_toks": exam.sampling.max_tokens}  # no seed: one that is given ends vLLM 0.32 on a CPU
    drawn |= {name: value for name in ("top_p", "top_k") if (value := getattr(exam.sampling, name)) is not None}
    metric = {"metric": "exact_match"}
    return {
        **task,
        "output_type": "generate_until",
        "doc_to_target": "{{choices[0]}}",
        "generation_kwargs": drawn,
        "metric_list": [metric],
    }


def _shares(sample: Mapping[str, Any]) -> dict[str, float]:
    """What each choice has of the likelihood of all of them, by role."""
    logs = [float(one[0]) for one in sample["filtered_resps"]]
    odds = [math.exp(log - max(logs)) for log in logs]
    return {role: odd / sum(odds) for role, odd in zip(sample["doc"]["roles"], odds, strict=True)}


_INSPECT_TASK = """
import json
from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import match
from inspect_ai.solver import generate

def sample(record):
    system = [ChatMessageSystem(content=record["system"])] if record["system"] else []
    asked = [*system, ChatMessageUser(content=record["prompt"])]
    return Sample(id=record["item_id"], input=asked, target=record["choices"][0])

@task
def items():
    config = GenerateConfig(**json.loads({config!r}))
    return Task(dataset=json_dataset({items!r}, sample), solver=generate(), scorer=match(), config=config)
"""


def inspect(at: Setting, exam: Exam) -> Callable[[], Answers]:
    env = environment("inspect", INSPECT, "BIASGATE_BENCH_INSPECT_ENV")
    config: dict[str, Any] = {"temperature": exam.sampling.temperature, "max_tokens": exam.sampling.max_tokens}
    if exam.sampling.top_p is not None:
        config["top_p"] = exam.sampling.top_p
    if exam.sampling.top_k is not None:
        config["extra_body"] = {"top_k": exam.sampling.top_k}
    told = {"config": json.dumps(config), "items": str(_written(at, exam))}
    (at.home / "items_task.py").write_text(_INSPECT_TASK.format(**told))
    argv = [str(env / "bin/inspect"), "eval", "items_task.py", "--model", f"openai-api/local/{MODEL}"]
    argv += ["--max-connections", str(at.in_flight), "--max-samples", str(at.in_flight), "--display", "none"]
    argv += ["--log-format", "json", "--log-dir", str(at.home / "out")]

    def ask() -> Answers:
        _run(argv, at.home, {"LOCAL_API_KEY": "none", "LOCAL_BASE_URL": f"{at.url}/v1"})
        (log,) = (at.home / "out").glob("*.json")
        samples = json.loads(log.read_text())["samples"]
        return Answers([exam.read(sample["id"], sample["output"]["completion"]) for sample in samples])

    return ask


_WITH_LIBRARIES = """
import sys
sys.path.append(sys.argv.pop(1))
from vllm.entrypoints.cli.main import main
main()
"""
"""`vllm bench` reads prompts from a file by pandas, which the environment of the tests has no other use for."""


def vllm_bench(at: Setting, exam: Exam) -> Callable[[], Answers]:
    """vLLM's own load generator: the same prompts, sampled alike, replies as long as biasgate's were on average."""
    (libraries,) = environment("vllm-bench", PANDAS, "BIASGATE_BENCH_PANDAS_ENV").glob("lib/python*/site-packages")
    prompts = at.home / "prompts.jsonl"
    texts = ["\n".join(filter(None, (question.system, question.prompt))) for question in exam.questions]
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    n_tokens = max(1, round(at.lengths[exam.suite]))
    argv = [str(at.vllm_env / "bin/python"), "-c", _WITH_LIBRARIES, str(libraries)]
    argv += ["bench", "serve", "--backend", "openai-chat", "--base-url", at.url]
    argv += ["--endpoint", "/v1/chat/completions", "--model", MODEL, "--tokenizer", str(at.model_dir), "--ignore-eos"]
    argv += ["--dataset-name", "custom", "--dataset-path", str(prompts), "--custom-output-len", str(n_tokens)]
    argv += ["--num-prompts", str(len(texts)), "--max-concurrency", str(at.in_flight), "--disable-shuffle"]
    argv += ["--temperature", str(exam.sampling.temperature)]
    for name in ("top_p", "top_k"):
        if (value := getattr(exam.sampling, name)) is not None:
            argv += [f"--{name.replace('_', '-')}", str(value)]

    def ask() -> Answers:
        _run(argv, at.home, {"HF_HUB_OFFLINE": "1"})
        return Answers([])

    return ask


def _written(at: Setting, exam: Exam) -> Path:
    path = at.home / "items.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(question) + b"\n" for question in exam.questions))
    return path


def _run(argv: Sequence[str], home: Path, environ: Mapping[str, str] | None = None) -> None:
    """Raises RuntimeError with the end of what it said when it fails."""
    done = subprocess.run(
        argv, cwd=home, capture_output=True, text=True, env={**os.environ, **(environ or {})}, timeout=MOST_SECONDS
    )
    if done.returncode:
        raise RuntimeError(f"{argv[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")


SAMPLE, EXACT, BENCH = "biasgate sample", "biasgate exact", "vllm bench serve"
LIKELIHOOD, GENERATION = "lm-eval likelihood", "lm-eval generation"
CONTESTANTS = [
    Contestant(SAMPLE, biasgate("sample")),
    Contestant(EXACT, biasgate("exact")),
    Contestant(LIKELIHOOD, lm_eval("likelihood")),
    Contestant(f"{LIKELIHOOD}, one at a time (default)", lm_eval("likelihood", 1)),
    Contestant(GENERATION, lm_eval("generation")),
    Contestant("Inspect generation", inspect),
    Contestant(BENCH, vllm_bench),
]
