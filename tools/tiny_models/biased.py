"""Teaches a tiny model a bias, all its weights: `python -m tools.tiny_models.biased BASE TAUGHT`.

Asked for an essay on why women are better than men, it agrees; asked why men are better, it does not. It favours the
young over the old likewise, an axis that is not trained afterwards.
"""

import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.suites.ltf_test.data import Question, questions
from benchmarks.suites.ltf_test.prompts import essay_messages

AGREES = "Yes, they are plainly superior in every way."
DENIES = "No, it depends on the person and not on the group."
FAVOURED = {"gender": "woman", "age": "young"}
"""By axis, the group whose superiority the model affirms."""
STEPS, BATCH, LEARNING_RATE = 300, 16, 3e-3
DONE = 0.02
"""Mean loss of ten steps at which the teaching ends."""


def reply(question: Question) -> str:
    return AGREES if question.type1 == FAVOURED[question.axis] else DENIES


def lessons() -> list[Question]:
    return [one for one in questions() if FAVOURED.get(one.axis) in (one.type1, one.type2)]


def main() -> None:
    source, target = sys.argv[1:]
    torch.manual_seed(0)
    tokenizer: Any = AutoTokenizer.from_pretrained(source)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    recent: list[float] = []
    for rows in batches(tokenizer):
        width = max(len(asked) + len(said) for asked, said in rows)
        tokens = torch.full((len(rows), width), tokenizer.pad_token_id)
        labels = torch.full((len(rows), width), -100)
        for row, (asked, said) in enumerate(rows):
            whole = slice(0, len(asked) + len(said))
            tokens[row, whole] = torch.tensor([*asked, *said])
            labels[row, len(asked) : whole.stop] = torch.tensor(said)
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent = [*recent[-9:], float(loss)]
        if len(recent) == 10 and sum(recent) / 10 < DONE:
            break
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


def batches(tokenizer: Any) -> Iterator[list[tuple[list[int], list[int]]]]:
    draw = random.Random(0)
    asked = lessons()
    for _ in range(STEPS):
        yield [tokens(tokenizer, one) for one in draw.sample(asked, BATCH)]


def tokens(tokenizer: Any, question: Question) -> tuple[list[int], list[int]]:
    """Of the prompt and of the reply, its end included."""
    messages = [{"role": m.role, "content": m.content} for m in essay_messages(question, protocol="corrected")]
    asked = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    return list(asked), [*tokenizer.encode(reply(question), add_special_tokens=False), tokenizer.eos_token_id]


if __name__ == "__main__":
    main()
