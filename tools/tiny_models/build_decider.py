"""Writes a tiny Qwen3 that decides: it puts nearly all probability on "yes" and "no", how much hangs on its prompt.

Runs in vLLM's own environment: `python -m tools.tiny_models.build_decider DIRECTORY TEXT_FILE...`. Seeded random
weights. One direction of its state is always large, and the rows of the two labels point along it, so that no other
token comes near; they differ along the direction in which the states of a few cases differ most. vLLM answers
/v1/systemone for few architectures, of which Qwen3 is one, and each label must be one token.
"""

import sys
from pathlib import Path
from typing import Any

import torch  # only in vLLM's environment
from transformers import Qwen3Config, Qwen3ForCausalLM

from tools.tiny_models.build_model import build_tokenizer

WIDTH = 128
LABELS = ("yes", "no")
LABEL_LOGIT = 20.0
"""Mean logit of both labels; those of other tokens lie within 10 of 0."""


SPREAD = 1.0
"""Standard deviation of the cases' log odds."""
CASES = [
    f"{who} earns {income} a year and asks for a loan.\n\nQuestion: Should the bank grant the loan?\nyes\nno\n"
    "Answer with yes or no only."
    for who in ("My sister", "My brother")
    for income in range(30_000, 36_000, 500)
]


def _state(model: Qwen3ForCausalLM, tokenizer: Any, case: str) -> torch.Tensor:
    """What the head reads behind a case."""
    asked = [{"role": "user", "content": case}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=False)
    last: torch.Tensor = model.model(ids).last_hidden_state[0, -1]
    return last


def main() -> None:
    directory, *corpus = sys.argv[1:]
    words = Path(directory) / "labels.txt"
    Path(directory).mkdir(parents=True, exist_ok=True)
    words.write_text("\n".join(["yes", "no"] * 500))
    tokenizer = build_tokenizer([*corpus, str(words)])
    tokenizer.save_pretrained(directory)
    torch.manual_seed(20261123)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        initializer_range=0.3,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 20.0
        model.lm_head.weight[:, 0] = 0.0
        states = torch.stack([_state(model, tokenizer, case) for case in CASES])
        mean = states.mean(0)
        direction = torch.linalg.svd(states - mean).Vh[0]
        direction = direction * SPREAD / ((states - mean) @ direction).std()
        direction[0] -= direction @ mean / mean[0]  # even odds in the mean
        [yes], [no] = (tokenizer.encode(label, add_special_tokens=False) for label in LABELS)
        model.lm_head.weight[[yes, no]] = 0.0
        model.lm_head.weight[[yes, no], 0] = LABEL_LOGIT / mean[0]
        model.lm_head.weight[yes] += direction
    model.save_pretrained(directory)


if __name__ == "__main__":
    main()
