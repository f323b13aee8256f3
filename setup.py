"""What pyproject.toml cannot say: files from outside the packages that the wheel carries, and links for an index.

`biasgate deploy write` hands out the repository's own deployment files, so the wheel holds them as data of the package
`gateway.features.deploy`. README.md links its neighbours; on an index those are links to the repository.
"""

import re
import runpy
import shutil
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
FILES = runpy.run_path(str(ROOT / "gateway/features/deploy/files.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


class BuildWithDeployFiles(build_py):
    """Puts the deployment files beside the modules of `gateway.features.deploy`, but in an editable installation."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name, source in FILES["in_checkout"](ROOT).items():
            target = Path(self.build_lib) / "gateway/features/deploy" / FILES["DATA"] / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def long_description() -> str:
    """README.md, whose links to files of the repository are addresses."""
    source = PROJECT["urls"]["Source"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!\w+:|#)", rf"\g<1>{source}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!\w+:|#)", rf"\g<1>{source}/blob/main/", text)


setup(
    cmdclass={"build_py": BuildWithDeployFiles},
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
