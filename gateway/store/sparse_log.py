"""One warning for what many loops find wrong at the same time, again and again."""

import logging
import time

REPEAT_SECONDS = 30.0
_MOST_TEXTS = 100


class SparseLog:
    """Logs a warning unless the same text was logged less than REPEAT_SECONDS ago. Use from one thread."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._logged_at: dict[str, float] = {}

    def warning(self, text: str) -> None:
        now = time.monotonic()
        last = self._logged_at.get(text)
        if last is not None and now - last < REPEAT_SECONDS:
            return
        if len(self._logged_at) >= _MOST_TEXTS:
            self._logged_at.clear()
        self._logged_at[text] = now
        self._logger.warning("%s", text)
