"""Names and instructions of the policies of `[[mitigation]]`."""

from pathlib import Path

from auditors.text.identity import AXES
from auditors.text.mitigations import NAMES, NONE, TEXTS, MitigationTextError, category, file_name, own_text
from gateway.errors import ConfigError, nearest
from gateway.features.mitigation.config import MitigationConfig


def policy_name(config: MitigationConfig, place: int) -> str:
    """Its own, or one by its place in the file, counted from 1."""
    return config.name or f"policy-{place}"


def instruction_of(setting: str) -> tuple[str, str | None]:
    """Name and text of an instruction: none, abstract, detailed or a file. Raises ConfigError if unreadable."""
    if setting == NONE:
        return NONE, None
    if setting in TEXTS:
        words = [category(axis) for axis in AXES]
        return setting, TEXTS[setting].format(category=f"{', '.join(words[:-1])} or {words[-1]}")
    try:
        text = own_text(Path(setting))
    except MitigationTextError as exc:
        raise ConfigError(f"instruction {setting}: {exc}") from exc
    if text is None:
        raise ConfigError(
            f'instruction "{setting}" is neither a file nor one of {", ".join(NAMES)}{nearest(setting, NAMES)}'
        )
    return file_name(text), text
