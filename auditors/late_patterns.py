"""Regular expressions that are compiled at their first use: the largest take 50 to 120 ms, and not every process that
imports their module reads with them.
"""

import re
from typing import Any, cast


class LatePattern:
    """Stands for a compiled pattern, and has its methods."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        """Called once for each method: what it returns is kept as an attribute."""
        method = getattr(self.compiled(), name)
        setattr(self, name, method)
        return method

    def compiled(self) -> re.Pattern[str]:
        return re.compile(*self._source)


def compile_late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern, for use by its methods only (`re.sub(pattern, ...)` takes none of these)."""
    return cast("re.Pattern[str]", LatePattern(pattern, flags))
