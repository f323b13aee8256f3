"""Trains a LoRA adapter with peft and trl, imported where used; a killed training goes on from its checkpoints."""

import hashlib
import os
import resource
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.lab.training import artefact, base_model, estimate
from benchmarks.lab.training.artefact import Card, Example, Identity
from benchmarks.lab.training.recipe import Recipe

LIBRARIES = ("torch", "transformers", "peft", "trl")

Say = Callable[[str], None]
"""Takes a line about the progress."""


def train(
    recipe: Recipe,
    data: Sequence[Example],
    out: Path,
    *,
    kind: str,
    about: Mapping[str, Any],
    say: Say = lambda _: None,
) -> Path:
    """Train, or go on from the last whole checkpoint in `out` (`training.json`, `losses.jsonl`, `checkpoint-N/`,
    `adapter/`), return the adapter's directory. `kind`, `about` (the examples) go into the card. BenchmarkError: a
    library or the base model is missing, the device lacks memory, the directory holds another training.
    """
    for name in LIBRARIES:
        try:
            version(name)
        except PackageNotFoundError as exc:
            raise BenchmarkError(f'{name} is not installed: pip install "biasgate[mitigation]"') from exc
    base = base_model.describe(Path(recipe.base_model))
    if recipe.max_tokens > base.context:
        raise BenchmarkError(f"max_tokens {recipe.max_tokens} is more than {recipe.base_model} reads: {base.context}")
    _quieten()
    rows, n_too_long = _rows(recipe, data)
    estimate.demand_room(estimate.estimate(base, recipe, max(len(row["input_ids"]) for row in rows)), recipe)
    identity = Identity(
        kind=kind,
        recipe=recipe,
        recipe_sha256=recipe.sha256,
        data_sha256=hashlib.sha256(msgspec.json.Encoder().encode_lines(data)).hexdigest(),
        n_examples=len(rows),
        n_too_long=n_too_long,
        base_fingerprint=base_model.fingerprint(base.path),
        about=dict(about),
    )
    adapter = out / artefact.ADAPTER
    if _begun(out, identity) and (adapter / artefact.CARD).exists():
        say(f"{adapter}: is finished")
        return adapter
    _run(recipe, rows, out, identity, say)
    return adapter


def _begun(out: Path, identity: Identity) -> bool:
    """Return whether the same training was begun there before; if not, record it as begun."""
    before = artefact.recorded(out)
    if before is not None:
        artefact.demand_same(out, before, identity)
        return True
    artefact.begin(out, {}, lacks=" and holds no training")
    artefact.write(out / artefact.TRAINING, identity)
    return False


def _quieten() -> None:
    """No progress bars and no calls home; both libraries read these when they are imported."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers leaves it untyped


def _rows(recipe: Recipe, data: Sequence[Example]) -> tuple[list[dict[str, list[int]]], int]:
    """Tokens of each example and which are its answer's; and how many examples were too long."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(recipe.base_model)
    if tokenizer.chat_template is None:
        raise BenchmarkError(f"{recipe.base_model}: has no chat template: take the instruction-tuned model")
    rows, n_too_long = [], 0
    for example in data:
        messages = [{"role": message.role, "content": message.content} for message in example.prompt]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        answered = [*messages, {"role": "assistant", "content": example.answer}]
        whole = tokenizer.apply_chat_template(answered, return_dict=False)
        if whole[: len(prompt)] != prompt:
            raise BenchmarkError(
                f"{recipe.base_model}: its chat template changes a prompt once it is answered: nothing says where the "
                "answer begins, take a model without this"
            )
        if len(whole) > recipe.max_tokens:
            n_too_long += 1
            continue
        mask = [0] * len(prompt) + [1] * (len(whole) - len(prompt))
        rows.append({"input_ids": whole, "completion_mask": mask})
    if not rows:
        raise BenchmarkError(f"all {len(data)} examples are longer than max_tokens {recipe.max_tokens}: raise it")
    return rows, n_too_long


def _run(recipe: Recipe, rows: list[dict[str, list[int]]], out: Path, identity: Identity, say: Say) -> None:
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, set_seed
    from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined, unused-ignore]  # trl loads its names lazily

    warnings.simplefilter("ignore", FutureWarning)  # of one library about the other
    set_seed(recipe.seed)
    has_gpu = torch.cuda.is_available()
    dtype = torch.bfloat16 if recipe.precision == "bfloat16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(recipe.base_model, dtype=dtype)
    tokenizer = AutoTokenizer.from_pretrained(recipe.base_model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    steps = n_steps(recipe, len(rows))
    options = SFTConfig(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.accumulation,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=round(recipe.warmup_share * steps),
        gradient_checkpointing=recipe.gradient_checkpointing,
        bf16=has_gpu and recipe.precision == "bfloat16",
        use_cpu=not has_gpu,
        max_length=None,
        completion_only_loss=True,
        save_steps=recipe.checkpoint_every,
        logging_steps=1,
        disable_tqdm=True,
        report_to="none",
        seed=recipe.seed,
        data_seed=recipe.seed,
        dataloader_pin_memory=has_gpu,
        include_num_input_tokens_seen="all",
    )
    trainer = SFTTrainer(
        model=model,
        args=options,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=recipe.rank,
            lora_alpha=recipe.alpha,
            lora_dropout=recipe.dropout,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )
    keeping = _keeping(out, identity, steps, say)
    trainer.pop_callback(PrinterCallback)  # prints every log entry where there is not a progress bar
    trainer.add_callback(keeping)
    _remove_cut_off(out, say)
    last = max(artefact.checkpoints(out), default=None)
    if last is not None:
        say(f"goes on from step {last[0]} of {steps}")
    trainer.train(resume_from_checkpoint=None if last is None else str(last[1]))
    # What serving needs of the last checkpoint, the card last: a directory with one is whole.
    last_step, adapter = out / f"{artefact.CHECKPOINT}{steps}", out / artefact.ADAPTER
    adapter.mkdir(exist_ok=True)
    for name in ("adapter_config.json", artefact.WEIGHTS, artefact.CARD):
        shutil.copyfile(last_step / name, adapter / name)


def n_steps(recipe: Recipe, n_examples: int) -> int:
    """Return the number of steps of the whole training, at least 1."""
    a_step = recipe.batch_size * recipe.accumulation
    return recipe.steps or max(1, round(recipe.epochs * n_examples / a_step))


def _remove_cut_off(out: Path, say: Say) -> None:
    """Takes away a checkpoint that was being written when the training was killed: it has no card."""
    whole = {path for _, path in artefact.checkpoints(out)}
    for path in out.glob(f"{artefact.CHECKPOINT}*"):
        if path not in whole:
            say(f"{path.name}: was being written when the training ended, is made again")
            shutil.rmtree(path)


def _keeping(out: Path, identity: Identity, steps: int, say: Say) -> Any:
    import torch
    from transformers import TrainerCallback

    began = time.monotonic()

    class Keeping(TrainerCallback):  # type: ignore[misc, unused-ignore]  # transformers leaves it untyped
        def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.log_history and "loss" in state.log_history[-1]:
                step, loss = state.global_step, state.log_history[-1]["loss"]
                if step == 1 or step % max(1, steps // 10) == 0 or step == steps:
                    say(f"step {step} of {steps}: loss {loss:.4f}")

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            path = out / f"{artefact.CHECKPOINT}{state.global_step}"
            for place in (out, path):  # forms of peft and trl with most fields empty; the card is card.json
                (place / "README.md").unlink(missing_ok=True)
            losses = [entry for entry in state.log_history if "loss" in entry]
            lines = [{"step": loss["step"], "loss": loss["loss"]} for loss in losses]
            part = out / f"{artefact.LOSSES}.part"
            part.write_bytes(msgspec.json.Encoder().encode_lines(lines))
            part.replace(out / artefact.LOSSES)
            card = Card(
                identity=identity,
                step=state.global_step,
                steps=steps,
                loss=losses[-1]["loss"] if losses else None,
                adapter_sha256=artefact.sha256(path / artefact.WEIGHTS),
                seconds=round(time.monotonic() - began, 3),
                n_tokens=int(state.num_input_tokens_seen),
                peak_memory_bytes=_peak(),
                device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
                versions={name: version(name) for name in LIBRARIES},
            )
            artefact.write(path / artefact.CARD, card)

    return Keeping()


def _peak() -> int:
    """Bytes at most: of the GPU, or of this process."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
