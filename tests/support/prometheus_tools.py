"""Prometheus' own programs, where they are installed."""

import subprocess

from tests.support import required


def program(name: str) -> str:
    """Path of promtool or prometheus."""
    return required.program(name, package="prometheus", kind="PROMTOOL")


def promtool(*arguments: str) -> str:
    """Runs promtool to a good end and returns what it printed."""
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def amtool(*arguments: str) -> str:
    """Runs Alertmanager's own amtool to a good end and returns what it printed."""
    path = required.program("amtool", package="prometheus-alertmanager", kind="PROMTOOL")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
