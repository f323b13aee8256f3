"""What a machine may lack: a test that needs it is skipped by name, or fails where that is not allowed."""

import os
import shutil
from typing import NoReturn

import pytest


def lacking(message: str, kind: str) -> NoReturn:
    """Skips the test with this message; fails it where BIASGATE_REQUIRE_<kind> is 1."""
    if os.environ.get(f"BIASGATE_REQUIRE_{kind}") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)  # a contributor without the program runs the rest; .ci/run sets the variable


def program(*names: str, package: str, kind: str) -> str:
    """Path of the first of these programs that is installed; `lacking` the Debian package without any."""
    for name in names:
        if path := shutil.which(name):
            return path
    lacking(f"{names[0]} is not installed (Debian package {package})", kind)
