"""Makes structs of others that have fields of the same names."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def combine(kind: type[T], *sources: object, **own: Any) -> T:
    """Return a struct of `kind`, each field from `own`, else from the first source with a field of its name, else the
    default. Raises TypeError for a field that nothing gives.
    """
    for name in kind.__struct_fields__:
        source = None if name in own else next((source for source in sources if hasattr(source, name)), None)
        if source is not None:
            own[name] = getattr(source, name)
    return kind(**own)
