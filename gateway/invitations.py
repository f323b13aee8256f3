"""Links of raters, as the guard of the control plane sees them. A feature keeps them."""

from typing import Protocol

PREFIX = "bgr_"
"""Beginning of the token of every rater's link, so that other keys are not looked up among them."""


class Invited(Protocol):
    """The rater that a link lets in."""

    @property
    def project(self) -> str: ...
    @property
    def rater(self) -> str: ...


class Invitations(Protocol):
    """The links that a feature keeps."""

    async def find(self, token: str) -> Invited | None:
        """Return the rater that a token lets in; None if it is unknown, revoked or expired. Raises StoreError."""

    async def any_exists(self) -> bool:
        """Return whether any rater has a link. Raises StoreError."""
