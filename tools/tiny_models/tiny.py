"""Writes a tiny Llama that learns on one core: `python -m tools.tiny_models.tiny DIR TEXT_FILE...`.

Wide enough starting weights that its output can be sure of a token while embedding and output stay as they are, which
is all that an adapter leaves free to it.
"""

import argparse
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tools.tiny_models.build_model import build_tokenizer

LAYER_SPREAD, OUTPUT_SPREAD = 0.06, 0.2
"""Standard deviations of the starting weights: layers attend to everything a little, the output can be sure."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=20241123)
    options = parser.parse_args()
    tokenizer = build_tokenizer(options.corpus)
    tokenizer.save_pretrained(options.directory)
    torch.manual_seed(options.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.width,
        intermediate_size=2 * options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=options.width // 2,
        initializer_range=LAYER_SPREAD,
        max_position_embeddings=4096,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.normal_(0.0, OUTPUT_SPREAD)
        model.model.embed_tokens.weight.normal_(0.0, OUTPUT_SPREAD)
    model.save_pretrained(options.directory)


if __name__ == "__main__":
    main()
