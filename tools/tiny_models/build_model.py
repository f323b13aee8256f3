"""Writes a tiny Llama that vLLM serves on a CPU: seeded random weights, a trained tokenizer, a real chat template.

Runs in vLLM's own environment: `python build_model.py DIRECTORY TEXT_FILE... [--width N] [--layers N] [--thinking]`.
The model knows nothing and says nonsense, but every layer that a request passes is the real one.
"""

import argparse
from pathlib import Path

import torch  # only in vLLM's environment
from tokenizers import AddedToken, ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 2000
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{% if not (loop.last and continue_final_message) %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

THINK_MARKS = ["<think>", "</think>"]
"""Tokens of their own and not special: a server that has no parser for them shows them, as of Qwen3's."""
NO_THOUGHT = "<think>\\n\\n</think>\\n\\n"
THINKING_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if loop.last and message['role'] == 'assistant' %}{{ '" + NO_THOUGHT + "' }}"
    "{{ message['content'].split('</think>')[-1].lstrip('\n') }}{% else %}{{ message['content'] }}{% endif %}"
    "{% if not (loop.last and continue_final_message) %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '" + NO_THOUGHT + "' }}"
    "{% else %}{{ '<think>\n' }}{% endif %}{% endif %}"
)
"""Opens a thought where thinking is not switched off. An answer begun by the caller follows an empty one, once."""


def build_tokenizer(corpus: list[str], *, thinks: bool = False) -> PreTrainedTokenizerFast:
    """Trained on the texts, with a chat template; `thinks` gives it marks of thoughts and the template to match."""
    trained = ByteLevelBPETokenizer()
    trained.train(corpus, vocab_size=VOCABULARY, min_frequency=1, special_tokens=SPECIAL, show_progress=False)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        tokenizer_object=trained._tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[2], pad_token=SPECIAL[0]
    )
    tokenizer.chat_template = THINKING_TEMPLATE if thinks else CHAT_TEMPLATE
    if thinks:
        tokenizer.add_tokens([AddedToken(mark, special=False) for mark in THINK_MARKS])
    return tokenizer


def build_model(tokenizer: PreTrainedTokenizerFast, width: int, layers: int) -> LlamaForCausalLM:
    torch.manual_seed(20240229)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=max(4, width // 128),
        num_key_value_heads=max(2, width // 256),
        max_position_embeddings=4096,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model: LlamaForCausalLM = LlamaForCausalLM(config).bfloat16()
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--thinking", action="store_true")
    options = parser.parse_args()
    tokenizer = build_tokenizer(options.corpus, thinks=options.thinking)
    tokenizer.save_pretrained(options.directory)
    build_model(tokenizer, options.width, options.layers).save_pretrained(options.directory)


if __name__ == "__main__":
    main()
