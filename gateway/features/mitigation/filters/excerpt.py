"""The excerpt of a long text that a filter shows its detector: its beginning and its end."""

HALF = 8_000
"""Characters of the beginning, and again of the end. Text between them is not looked at."""
_GAP = "\n[...]\n"


class Excerpt:
    """A text that grows, of which no more is kept than is shown."""

    def __init__(self) -> None:
        self._beginning = ""
        self._end = ""
        self._length = 0

    def add(self, piece: str) -> None:
        room = HALF - len(self._beginning)
        if room > 0:
            self._beginning += piece[:room]
        rest = piece[max(room, 0) :]
        if rest:
            self._end = (self._end + rest[-HALF:])[-HALF:]
        self._length += len(piece)

    @property
    def is_whole(self) -> bool:
        """Nothing is left out."""
        return self._length <= 2 * HALF

    @property
    def text(self) -> str:
        return self._beginning + ("" if self.is_whole else _GAP) + self._end
