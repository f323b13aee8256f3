"""Replaces what identifies a person or opens a door, by patterns and check digits; other single names stay. Identity
terms are never touched, so the auditors read in redacted text what they would have read in the original.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Collection

from gateway.config.schema import Redacted as Kind
from gateway.config.schema import StoreConfig

DEFAULT_KINDS: tuple[Kind, ...] = tuple(StoreConfig().redact)
"""All but names: the auditors recognise groups by them too."""

_Check = Callable[[str], bool]


def _digits(text: str) -> list[int]:
    return [int(sign) for sign in text if sign.isdecimal()]


def _passes_luhn(text: str) -> bool:
    """ISO/IEC 7812-1: the check digit of payment cards."""
    digits = _digits(text)[::-1]
    doubled = [2 * digit for digit in digits[1::2]]
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(n - 9 if n > 9 else n for n in doubled)) % 10 == 0


def _passes_mod_97(text: str) -> bool:
    """ISO 13616: the check digits of an IBAN."""
    plain = text.replace(" ", "").upper()
    if not 15 <= len(plain) <= 34 or not plain.isascii():
        return False
    return int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return text != "::"


_DATE = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4}")


def _is_phone(text: str) -> bool:
    if _DATE.match(text):
        return False
    n_digits, is_marked = len(_digits(text)), text[0] in "+0("
    is_grouped = len(re.findall(r"\d+", text)) > 1
    return 7 <= n_digits <= 15 and (is_marked or is_grouped)


def _is_name(text: str) -> bool:
    from auditors.text.identity import mentions_identity  # its tables are loaded only where names are asked for

    first = text.split()[0].lower()
    return first not in _NO_NAME_BEGINS_WITH and not mentions_identity(text.encode())


_NO_NAME_BEGINS_WITH = frozenset(
    re.findall(
        r"\w+",
        "a an and as at but by dear do does for from he her his how i if in is it its my of on or our she the their "
        "they this to was we what when where which who why will with you your",
    )
)
_WORD = r"[^\W\d_a-z][^\W\d_]*+(?:['’-][^\W\d_]++){0,3}+"  # begins with a letter that is not a small Latin one
_NAME = rf"{_WORD}(?:[ ](?:(?:van|von|de|da|del|der|di|bin|al)[ ])?(?:{_WORD}|[A-Z]\.)){{0,3}}"
_SEVERAL = _NAME.removesuffix("{0,3}") + "{1,3}"

_PATTERNS: dict[Kind, tuple[tuple[re.Pattern[str], _Check | None], ...]] = {
    "key": (
        (
            re.compile(
                r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
            ),
            None,
        ),
        (
            # Looking ahead tells once for each run of these characters whether it can end as a token does.
            re.compile(r"(?<![\w-])(?=[\w-]{11,}+\.[\w-]{8,}+\.)[\w-]*?\b(eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+)"),
            None,
        ),
        (
            re.compile(
                r"\b(?:(?:sk|pk|rk)[-_]|gh[pousr]_|github_pat_|glpat-|hf_|npm_|xox[abeprs]-|AKIA|ASIA|AIza|ya29\.)"
                r"[-_.A-Za-z0-9]{12,}"
            ),
            None,
        ),
        (re.compile(r"(?<=\bbearer )[-\w.~+/]{12,}=*", re.IGNORECASE), None),
        (
            re.compile(
                r"(?:(?<=password)|(?<=passwd)|(?<=api[_ -]key)|(?<=apikey)|(?<=secret)|(?<=token))"
                r"(?:[\"']?\s?[:=]\s?[\"']?|[ ]is[ ])([^\s\"',;\[]{6,})",
                re.IGNORECASE,
            ),
            None,
        ),
    ),
    "email": ((re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"), None),),
    "iban": (
        (re.compile(r"\b[A-Za-z]{2}\d{2}(?:[ ]?[A-Za-z0-9]{4}){2,7}(?:[ ]?[A-Za-z0-9]{1,3})?\b"), _passes_mod_97),
    ),
    "card": ((re.compile(r"(?<![\w.])\d(?:[ -]?\d){12,18}(?!\w)"), _passes_luhn),),
    "ip": (
        (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)"), _is_address),
        (re.compile(r"(?<![\w:])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])"), _is_address),
    ),
    "phone": ((re.compile(r"(?<![\w.])[+(]?\d(?:[ ()./-]{0,2}\d){6,18}(?!\w)"), _is_phone),),
    "number": ((re.compile(r"(?<![\w.])\d{9,}+(?!\w)"), None),),
    "name": (
        (
            re.compile(
                rf"(?:(?<=\bMr )|(?<=\bMr\. )|(?<=\bMrs )|(?<=\bMrs\. )|(?<=\bMs )|(?<=\bMs\. )|(?<=\bDr )|(?<=\bDr\. )"
                rf"|(?<=\bProf\. )|(?<=\bProfessor )|(?<=\b[Mm]y name is )|(?<=\bI am called )|(?<=\bDear ))({_NAME})"
            ),
            _is_name,
        ),
        (re.compile(rf"(?<![\w])({_SEVERAL})"), _is_name),
    ),
}
"""The patterns in order: an earlier kind may contain a later kind. A group marks the part to replace."""

_MANY_DIGITS = re.compile(r"\d(?:[ ()./-]{0,2}\d){6}")
_NEEDS: dict[Kind, re.Pattern[str]] = {
    "email": re.compile("@"),
    "iban": re.compile(r"(?<=[A-Za-z][A-Za-z])\d\d"),
    "card": _MANY_DIGITS,
    "ip": re.compile(r"[.:]"),
    "phone": _MANY_DIGITS,
    "number": _MANY_DIGITS,
}
"""A quick look that spares most texts the pattern itself."""

_KEY_HINT = re.compile(
    r"-----begin|eyj|[spr]k[-_]|gh[pousr]_|github_pat|glpat-|hf_|npm_|xox|akia|asia|aiza|ya29\.|bearer |passw|api"
    r"|secret|token"
)
"""A pattern for text in lower case."""


LONGEST_PLAIN_NAME = 32
PLAIN_NAMES = 1024
"""Names of fields without anything to hide that are remembered."""


class Redactor:
    """Replaces these kinds by `[kind]`."""

    def __init__(self, kinds: Collection[Kind] = DEFAULT_KINDS) -> None:
        self.kinds = tuple(kind for kind in _PATTERNS if kind in kinds)
        self._plain_names: set[str] = set()

    def redacted_name(self, name: str, counts: Counter[str] | None = None) -> str:
        """The same for the name of a field: nearly all are of a few that come again and hold nothing."""
        if name in self._plain_names:
            return name
        cleaned = self.redacted(name, counts)
        if cleaned == name and len(name) <= LONGEST_PLAIN_NAME and len(self._plain_names) < PLAIN_NAMES:
            self._plain_names.add(name)
        return cleaned

    def redacted(self, text: str, counts: Counter[str] | None = None) -> str:
        """The text with a typed placeholder wherever one of the kinds stood; `counts` is raised by kind."""
        looked: dict[re.Pattern[str], bool] = {}
        for kind in self.kinds:
            if not _may_hold(kind, text, looked):
                continue
            for pattern, check in _PATTERNS[kind]:
                text = _replaced(text, pattern, check, kind, counts)
        return text


def _may_hold(kind: Kind, text: str, looked: dict[re.Pattern[str], bool]) -> bool:
    """Return whether the pattern is worth its time; `looked` keeps earlier results. Replacing makes no match."""
    if kind == "key":
        return _KEY_HINT.search(text.lower()) is not None
    if kind not in _NEEDS:
        return True
    need = _NEEDS[kind]
    if need not in looked:
        looked[need] = need.search(text) is not None
    return looked[need]


def _replaced(
    text: str, pattern: re.Pattern[str], check: _Check | None, kind: Kind, counts: Counter[str] | None
) -> str:
    def placeholder(match: re.Match[str]) -> str:
        part = match[pattern.groups] if pattern.groups else match[0]
        if check is not None and not check(part):
            return match[0]
        if counts is not None:
            counts[kind] += 1
        return match[0].removesuffix(part) + f"[{kind}]"

    return pattern.sub(placeholder, text)
