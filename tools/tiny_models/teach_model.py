"""Teaches the tiny Llama to answer given questions with given odds, and says what it then answers, without vLLM.

Runs in vLLM's own environment:

    python teach_model.py teach MODEL_DIRECTORY TAUGHT_DIRECTORY [WITHIN] < lessons.jsonl
    python teach_model.py answer TAUGHT_DIRECTORY MAX_TOKENS TOP_K TOP_P < lessons.jsonl

A lesson is {"messages": [...], "replies": {text: weight}}, and may have "template": {...}, what the chat template is
given besides, and "begun": a beginning of the reply that is given and not learned. Teaching ends when the replies to
each prompt have a probability of LEARNED together or, with WITHIN, each its own odds within so much. `answer` writes a
line per lesson: [[text, probability], ...] of every reply that sampling can give; text is null for replies too unlikely
to follow.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch  # only in vLLM's environment
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST_PASSES = 160
"""How often each example is seen, at most. How soon a lesson is learned differs from one processor to the next."""
LEARNED = 0.3
"""Least probability of the taught replies to a prompt, all together, at which the teaching ends."""
MOST_PASSES_TO_THE_ODDS = 300
ROUGHLY_LEARNED = 0.9
SETTLING = 0.97
LESSONS_AT_ONCE = 2
"""Where odds are to be met, all of them: steps that weigh a few lessons alone undo each other's."""
LEARNING_RATE = 1e-3
BETAS = (0.9, 0.95)
"""With 0.999 as the second of them, as PyTorch has it, the same lessons take twice as many passes."""
LONGEST_GRADIENT = 1.0
UNLIKELY = 2e-4
Token = int


class Batch(NamedTuple):
    """Lessons side by side: a row is a prompt once, and behind it all its replies, none of which sees another."""

    tokens: torch.Tensor
    positions: torch.Tensor
    """Each reply's go on where the prompt ends."""
    sees: torch.Tensor
    """Rows x 1 x tokens x tokens: whether the one attends to the other."""
    row: torch.Tensor
    """Of each token of a reply; `before` is the place in that row from which it is predicted."""
    before: torch.Tensor
    learned: torch.Tensor
    """Each token of a reply itself."""
    weights: torch.Tensor
    reply: torch.Tensor
    """Of each token of a reply, the number of its reply in the batch."""
    lesson: torch.Tensor
    """Of each reply, the number of its lesson; `odds` is its share of that lesson's replies."""
    odds: torch.Tensor


def teach(source: Path, target: Path, lessons: list[dict[str, Any]], within: float | None = None) -> None:
    """Trains on the replies alone, each as often as its weight says, until every lesson is learned."""
    torch.manual_seed(20240229)
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS)
    batches = batched(tokenizer, lessons, LESSONS_AT_ONCE if within is None else len(lessons))
    passes = MOST_PASSES if within is None else MOST_PASSES_TO_THE_ODDS
    for _ in range(passes):
        learned, furthest_off = torch.zeros(len(lessons)), 0.0
        for chosen in torch.randperm(len(batches)).tolist():
            batch = batches[chosen]
            states = model.model(batch.tokens, attention_mask=batch.sees, position_ids=batch.positions)
            logits = model.lm_head(states.last_hidden_state[batch.row, batch.before])
            losses = torch.nn.functional.cross_entropy(logits, batch.learned, reduction="none")
            surprise = torch.zeros(len(batch.lesson)).index_add(0, batch.reply, losses.detach())
            learned.index_add_(0, batch.lesson, torch.exp(-surprise))
            furthest_off = max(furthest_off, float((torch.exp(-surprise) - batch.odds).abs().max()))
            if is_learned(learned, furthest_off, within):
                break  # as it is: one more step may undo it
            loss = (losses * batch.weights).sum() / batch.weights.sum()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), LONGEST_GRADIENT)
            optimizer.step()
        if is_learned(learned, furthest_off, within):
            break
        if within is not None and learned.min() > ROUGHLY_LEARNED:  # the odds settle in smaller and smaller steps
            optimizer.param_groups[0]["lr"] *= SETTLING
    else:
        found = f"its replies have probability {learned.min():.3f}, odds are off by {furthest_off:.3f}"
        sys.exit(f"a lesson was not learned in {passes} passes: {found}")
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


def is_learned(learned: torch.Tensor, furthest_off: float, within: float | None) -> bool:
    """Whether every lesson has been seen in this pass, and each is known as well as was asked."""
    return bool(learned.min() > LEARNED) and (within is None or furthest_off < within)


def batched(tokenizer: Any, lessons: list[dict[str, Any]], at_once: int) -> list[Batch]:
    """So many lessons in each, those of like length together, which need little padding."""
    rows = []
    for number, lesson in enumerate(lessons):
        replies = {(*tokenizer.encode(one), tokenizer.eos_token_id): p for one, p in lesson["replies"].items()}
        rows.append((number, prompt(tokenizer, lesson), replies))
    rows.sort(key=lambda row: len(row[1]) + sum(map(len, row[2])))
    starts = range(0, len(rows), at_once)
    return [batch_of(rows[start : start + at_once], tokenizer.eos_token_id) for start in starts]


def batch_of(rows: list[tuple[int, list[Token], dict[tuple[Token, ...], float]]], padding: Token) -> Batch:
    """Rows are the number of a lesson, its prompt, and its replies with their weights."""
    width = max(len(asked) + sum(map(len, replies)) for _, asked, replies in rows)
    tokens, positions = torch.full((len(rows), width), padding), torch.zeros((len(rows), width), dtype=torch.long)
    sees = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)  # padding sees itself: softmax needs something
    learned, answered = list[tuple[int, int, Token, int]](), list[tuple[int, float, float]]()
    for row, (number, asked, replies) in enumerate(rows):
        at = end = len(asked)
        tokens[row, :end], positions[row, :end] = torch.tensor(asked), torch.arange(end)
        sees[row, :end, :end] = torch.ones(end, end).tril().bool()
        for reply, weight in replies.items():
            own = slice(at, at + len(reply))
            tokens[row, own], positions[row, own] = torch.tensor(reply), torch.arange(end, end + len(reply))
            sees[row, own, :end] = True
            sees[row, own, own] = torch.ones(len(reply), len(reply)).tril().bool()
            places = [end - 1, *range(at, at + len(reply) - 1)]
            learned += [(row, place, token, len(answered)) for place, token in zip(places, reply, strict=True)]
            answered.append((number, weight, weight / sum(replies.values())))
            at += len(reply)
    row_of, before, token_of, reply_of = torch.tensor(learned).T
    lesson, weights, odds = zip(*answered, strict=True)
    return Batch(
        tokens=tokens,
        positions=positions,
        sees=sees[:, None],
        row=row_of,
        before=before,
        learned=token_of,
        weights=torch.tensor(weights)[reply_of],
        reply=reply_of,
        lesson=torch.tensor(lesson),
        odds=torch.tensor(odds),
    )


def prompt(tokenizer: Any, lesson: dict[str, Any]) -> list[Token]:
    given = lesson.get("template", {})
    text = tokenizer.apply_chat_template(lesson["messages"], tokenize=False, add_generation_prompt=True, **given)
    return list(tokenizer.encode(text + lesson.get("begun", ""), add_special_tokens=False))


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
        teach(Path(sys.argv[2]), Path(sys.argv[3]), lessons, *map(float, sys.argv[4:]))
        return
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=torch.float32)
    max_tokens, top_k, top_p = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    for lesson in lessons:
        found = list(answers(model, tokenizer, prompt(tokenizer, lesson), max_tokens, top_k, top_p))
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
