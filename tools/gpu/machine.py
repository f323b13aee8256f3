"""Describe the bare GPU machine: its Python, its platform and the packages that it has already."""

from pathlib import Path

import msgspec

DESCRIPTION = Path(__file__).parent / "machine.toml"


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `machine.toml`."""

    python: str
    """Version as pip takes it, such as "3.12"."""
    glibc: str
    """Version of the C library, such as "2.35": wheels for newer ones are left out."""
    transfer_mebibytes: int
    """Largest transfer to the machine in one go."""
    installed: list[str]
    """Normalised names of distributions that need not be carried, whatever their version."""
    vllm: str
    """Requirement of the vLLM release whose torch is the machine's."""
    left_out: list[str]
    """Normalised names of requirements that the measurements do not import."""
    overrides: list[str]
    """Requirements that take the place of what a wheel asks for."""
    unused_files: list[str]
    """Patterns (fnmatch) of large files in wheels that the machine never loads."""


def read_machine(path: Path = DESCRIPTION) -> Machine:
    """Return the description. Raises msgspec.ValidationError for one that does not fit."""
    return msgspec.toml.decode(path.read_bytes(), type=Machine)
