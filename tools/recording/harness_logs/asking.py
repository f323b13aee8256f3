"""Asks questions.jsonl with lm-eval and Inspect, of models that answer by script, and keeps their logs.

What is about the machine, and Inspect's events, are taken out of the logs; nothing else is.
"""

import json
import os
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1"}

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

ABOUT_THE_MACHINE = ("pretty_env_info", "model_source", "git_hash", "upper_git_hash", "configs")
REFUSAL = "I'm sorry, but I can't help with that."
TASK = """\
task: bbq_{name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: questions.jsonl}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{context}}}}\\n\\nQ: {{{{question}}}}\\nA:"
{more}
metric_list: [{{metric: {metric}}}]
metadata: {{version: 1.0}}
"""
FUNCTIONS = """\
def options(doc): return [doc["ans0"], doc["ans1"], doc["ans2"]]
def right(doc): return int(doc["label"])
"""


class Scripted(LM):  # type: ignore[misc, unused-ignore]
    """Names the first, the second, nobody, the third, a letter, and so on; likes the second continuation best."""

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        return [((-3.0, -1.0, -2.0)[place % 3], False) for place in range(len(requests))]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        replies = []
        for place, request in enumerate(requests):
            doc = request.doc
            replies.append((f" {doc['ans0']}", f" {doc['ans1']}.", REFUSAL, f" {doc['ans2']}", " B")[place % 5])
        return replies


def lm_eval() -> None:
    tasks = Path("tasks")
    tasks.mkdir(exist_ok=True)
    (tasks / "functions.py").write_text(FUNCTIONS)
    choices = "doc_to_choice: !function functions.options\ndoc_to_target: !function functions.right"
    likelihood = TASK.format(name="multiple_choice", kind="multiple_choice", more=choices, metric="acc")
    generated = TASK.format(name="generate", kind="generate_until", more="doc_to_target: ans0", metric="exact_match")
    (tasks / "multiple_choice.yaml").write_text(likelihood)
    (tasks / "generate.yaml").write_text(generated)
    tracker = EvaluationTracker(output_path="logs")
    results = simple_evaluate(
        model=Scripted(),
        tasks=["bbq_multiple_choice", "bbq_generate"],
        task_manager=TaskManager(include_path="tasks", include_defaults=False),
        log_samples=True,
        evaluation_tracker=tracker,
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for name, found in samples.items():
        tracker.save_results_samples(task_name=name, samples=found)
    for file in Path("logs").rglob("results_*.json"):
        about = json.loads(file.read_text())
        file.write_text(json.dumps({name: part for name, part in about.items() if name not in ABOUT_THE_MACHINE}))


def inspect() -> None:
    rows = [json.loads(line) for line in Path("questions.jsonl").read_text().splitlines()]
    samples = [
        Sample(
            input=f"Context: {row['context']}\n\nQuestion: {row['question']}",
            target="ABC"[row["label"]],
            choices=[row["ans0"], row["ans1"], row["ans2"]],
            id=place,
        )
        for place, row in enumerate(rows)
    ]
    texts = ("ANSWER: A", "ANSWER: B", "B is tempting.\n\nANSWER: C", REFUSAL)
    outputs = [ModelOutput.from_content("mockllm/model", texts[place % 4]) for place in range(len(rows))]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    asked = Task(dataset=MemoryDataset(samples, name="bbq"), solver=[multiple_choice()], scorer=choice(), name="bbq")
    model = get_model("mockllm/model", custom_outputs=outputs)
    eval(asked, model=model, log_format="json", log_dir="logs", display="none", max_connections=1)
    for file in Path("logs").glob("*.json"):
        log = json.loads(file.read_text())
        for sample in log["samples"]:
            for name in ("events", "events_data", "attachments", "timelines"):
                sample.pop(name, None)
        log["eval"].pop("revision", None)
        file.write_text(json.dumps(log))


if __name__ == "__main__":
    lm_eval()
    inspect()
