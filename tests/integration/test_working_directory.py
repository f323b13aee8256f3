"""biasgate in a directory whose files have the names of its packages, as anybody's project may."""

import asyncio
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.integration.serving import READY_SECONDS, write_config
from tests.support.long import but_long

NAMES = ("gateway", "auditors", "benchmarks", "json", "litestar", "anyio", "numpy")


@pytest.mark.parametrize("starter", but_long(["pip", "pipx"], quick="pipx"))
async def test_files_of_the_working_directory_are_nobodys_modules(tmp_path: Path, starter: str) -> None:
    """Gateway, writer and auditor start, and a page is made in a process of its own, all from the installed code. pipx
    has its scripts pass over PYTHONPATH, which may name the working directory."""
    for name in NAMES:  # a package goes before a module of the same name
        path = tmp_path / name / "__init__.py" if starter == "pip" else tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise SystemExit('imported from the working directory')\n")
    config = write_config(tmp_path, "http://127.0.0.1:9", 'admin_key_env = "WORKING_KEY"\n')
    script = Path(sys.executable).with_name("biasgate")  # as people start it
    environ = {"PATH": "/usr/bin:/bin", "WORKING_KEY": "sesame", "HOME": str(tmp_path)}
    if starter == "pipx":
        _, _, program = script.read_text().partition("\n")
        script = tmp_path / "bin" / "biasgate"
        script.parent.mkdir()
        script.write_text(f"#!{sys.executable} -sE\n{program}")
        script.chmod(0o700)
        environ["PYTHONPATH"] = ":"
    process = await asyncio.create_subprocess_exec(
        *(str(script), "serve", "--config", str(config), "--port", "0"),
        cwd=tmp_path,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(READY_SECONDS):
            while "biasgate is ready" not in "".join(said[-1:]):
                said.append((await process.stdout.readline()).decode())
                assert said[-1], "".join(said)
        root = said[-1].split("base URL ")[1].split("/v1")[0]
        async with httpx.AsyncClient(base_url=root, trust_env=False, timeout=60) as client:
            client.headers["authorization"] = "Bearer sesame"
            made = await client.get("/live/exchanges")
            async with asyncio.timeout(READY_SECONDS):
                while (await client.get("/suites")).status_code != 200:  # noqa: ASYNC110 - the auditor reports them
                    await asyncio.sleep(0.2)
    finally:
        process.terminate()
        rest, _ = await process.communicate()

    assert made.status_code == 200, made.text
    assert process.returncode == 0
    assert "imported from the working directory" not in "".join(said) + rest.decode()
