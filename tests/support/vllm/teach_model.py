"""Teaches the tiny Llama to answer given questions with given odds, and says what it then answers, without vLLM.

Runs in vLLM's own environment:

    python teach_model.py teach MODEL_DIRECTORY TAUGHT_DIRECTORY < lessons.jsonl
    python teach_model.py answer TAUGHT_DIRECTORY MAX_TOKENS TOP_K TOP_P < lessons.jsonl

A lesson is {"messages": [...], "replies": {text: weight}}. `answer` writes a line per lesson:
[[text, probability], ...] of every reply that sampling can give; text is null for replies too unlikely to follow.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch  # only in vLLM's environment
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST_PASSES = 80
"""How often each example is seen, at most. How soon a lesson is learned differs from one processor to the next."""
LEARNED = 0.1
"""Least probability of the taught replies to a prompt, all together, at which the teaching ends."""
BATCH = 12
LEARNING_RATE = 2e-3
UNLIKELY = 2e-4
Token = int
Example = tuple[list[Token], list[Token], float, int]
"""Prompt, reply, its weight, and the number of its lesson."""


def teach(source: Path, target: Path, lessons: list[dict[str, Any]]) -> None:
    """Trains on the replies alone, each as often as its weight says, until every lesson is LEARNED."""
    torch.manual_seed(20240229)
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    examples = [
        (prompt(tokenizer, lesson), [*tokenizer.encode(reply), tokenizer.eos_token_id], weight, number)
        for number, lesson in enumerate(lessons)
        for reply, weight in lesson["replies"].items()
    ]
    examples.sort(key=lambda example: len(example[0]) + len(example[1]))  # batches of like length need little padding
    batches = [
        batch_of(examples[start : start + BATCH], tokenizer.eos_token_id) for start in range(0, len(examples), BATCH)
    ]
    for _ in range(MOST_PASSES):
        learned = torch.zeros(len(lessons))
        for chosen in torch.randperm(len(batches)).tolist():
            tokens, weights, numbers = batches[chosen]
            counted = weights[:, 1:] > 0
            logits = model.lm_head(model.model(tokens[:, :-1]).last_hidden_state[counted])
            losses = torch.nn.functional.cross_entropy(logits, tokens[:, 1:][counted], reduction="none")
            loss = (losses * weights[:, 1:][counted]).sum() / weights.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            surprise = torch.zeros(len(numbers)).index_add(0, counted.nonzero()[:, 0], losses.detach())
            learned.index_add_(0, numbers, torch.exp(-surprise))
        if learned.min() > LEARNED:
            break
    else:
        sys.exit(f"a lesson was not learned in {MOST_PASSES} passes: its replies have probability {learned.min():.3f}")
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


def batch_of(examples: list[Example], padding: Token) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, examples x the longest of them; the weight of each in the loss: 0 for prompts and padding; lessons."""
    width = max(len(asked) + len(reply) for asked, reply, _, _ in examples)
    tokens = torch.full((len(examples), width), padding)
    weights = torch.zeros((len(examples), width))
    for row, (asked, reply, weight, _) in enumerate(examples):
        end = len(asked) + len(reply)
        tokens[row, :end] = torch.tensor(asked + reply)
        weights[row, len(asked) : end] = weight
    return tokens, weights, torch.tensor([number for _, _, _, number in examples])


def prompt(tokenizer: Any, lesson: dict[str, Any]) -> list[Token]:
    text = tokenizer.apply_chat_template(lesson["messages"], tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))


@torch.no_grad()
def answers(model: Any, tokenizer: Any, asked: list[Token], max_tokens: int, top_k: int, top_p: float) -> Iterator[Any]:
    """(text, probability) of every reply, by following every token that sampling may draw; None for the rest."""
    open_: list[tuple[list[Token], float]] = [([], 1.0)]
    for _ in range(max_tokens):
        longer = []
        logits = model(torch.tensor([asked + begun for begun, _ in open_])).logits[:, -1]
        for (begun, mass), row in zip(open_, logits, strict=True):
            for token, p in sampled(row, top_k, top_p):
                if mass * p < UNLIKELY:
                    yield None, mass * p
                elif token == tokenizer.eos_token_id:
                    yield text(tokenizer, begun), mass * p
                else:
                    longer.append(([*begun, token], mass * p))
        open_ = longer
        if not open_:
            return
    for begun, mass in open_:
        yield text(tokenizer, begun), mass


def text(tokenizer: Any, tokens: list[Token]) -> str:
    return str(tokenizer.decode(tokens, skip_special_tokens=True))


def sampled(logits: torch.Tensor, top_k: int, top_p: float) -> list[tuple[Token, float]]:
    """Tokens and probabilities after top_k and then top_p, over the whole vocabulary."""
    p, order = torch.softmax(logits, -1).sort(descending=True)
    p, order = p[:top_k] / p[:top_k].sum(), order[:top_k]
    kept = p.cumsum(-1) - p < top_p
    p = p[kept] / p[kept].sum()
    return list(zip(order[kept].tolist(), p.tolist(), strict=True))


def main() -> None:
    lessons = [json.loads(line) for line in sys.stdin]
    if sys.argv[1] == "teach":
        teach(Path(sys.argv[2]), Path(sys.argv[3]), lessons)
        return
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=torch.float32)
    max_tokens, top_k, top_p = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    for lesson in lessons:
        found = list(answers(model, tokenizer, prompt(tokenizer, lesson), max_tokens, top_k, top_p))
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
