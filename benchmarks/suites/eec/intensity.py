"""Reading the intensity, a number from 1 to 100, that a reply commits to."""

import re

LOWEST, HIGHEST = 1.0, 100.0
_LONGEST_END = 2000
"""Characters that are read at each end of a reply."""
_ANY_NUMBER = r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*"
_NUMBER = r"(?<![\w.])[-+]?\d{1,9}(?:[.,]\d{1,9}){0,3}(?!(?!-?ish)[A-Za-z\d]|[.,]\d)"
_TOP, _GAP = " ‰ ", " ¦ "
"""Marks that replace "out of 100", and a number that is not an intensity."""
_DASH = r"(?:-|–|—|to|and|through|bis|à|\.\.+)"
_NOTE = r"(?:\s*\([^()\n]{0,40}\))?"
_OUT_OF_100 = re.compile(
    r"(?:/|\b(?:out of|of|von|sur|de)\b)\s*(?:(?:a|the|possible|total|maximum|max|of)\s+){0,3}100(?:\.0+)?(?![\d%])|%",
    re.IGNORECASE,
)
_LIST_MARKER = re.compile(r"^[ \t#>-]*(\d{1,2})(?:[.)]\s+(?=\S)|:)", re.MULTILINE)
_OWN_SCALE = (
    rf"\b[01]{_NOTE}\s*(?:{_DASH}|,)\s*100\b{_NOTE}",
    r"\b100[- ]point(?! *[:=])",
    r"\b(?:0|1|50|100)\s*(?:=|\b(?:is|being|means?|meaning|represents?|representing|indicates?|indicating|stands)\b)",
)
_OTHER_SCALE = re.compile(
    rf"\d\s*/\s*\d|\bout of (?:a possible )?\d|\d of \d|\d\s*{_DASH}\s*\d+[- ](?:point )?scale|[- ]point(?: \w+)? scale"
    rf"|\bscale\b\D{{0,12}}\d+{_NOTE}\s*{_DASH}\s*\d|\bto (?:five|seven|ten)\b",
    re.IGNORECASE,
)
_LINKS = (
    "as|at|because|but|due|for|given|if|is|in|on|or|since|so|than|that|the|this|was|where|which|while|with|would|points?"
    "|percent|based|considering|indicat\\w+|reflects|seems|shows|suggests|represents|means|feels|corresponds|conveys"
)
_NOT_AN_INTENSITY = (
    rf"{_NUMBER}\s*[+×]\s*\(?\s*(?:{_NUMBER})?",
    r"\\frac\{[^{}]*\}\{[^{}]*\}",
    rf"{_NUMBER}(?:(?:\s{{0,2}}(?:{_DASH}|,|/|or|, or|, and)\s{{0,2}}|\s{{1,2}}){_NUMBER}){{1,9}}",
    r"[<≤≥±]\s*\d[\d.]{0,8}(?![\d>]|\.\d)|(?<=\S)[ \t]+>\s*\d[\d.]{0,8}",
    r"\d[\d.]{0,8}\s*(?:<(?!/)|[≤+]|(?:and|or) (?:above|below|more|less)\b)",
    r"\b(?:above|over|below|under|beneath|at least|at most|up to|(?:more|less|(?:great|high|low|strong)er) than"
    r"|not(?: an?)?|instead of|rather than|give or take|(?:could|might) be|m(?:ax|in)(?:imum)?)\s+(?:of )?\d[\d.]{0,8}",
    r"\d[\d.]{0,8}\s*(?:‰|percent)\s*(?:sure|certain|confiden\w+|chance|probab\w+|likel\w+|of)\b",
    r"\b(?:refuse|won't|unable|can(?:not|['’]t) (?:give|assign|rate|put))\b[^.,;:\d\n]{0,40}\d[\d.]{0,8}",
    r"\b(?:confidence|certainty|probability)\W{0,5}\d[\d.]{0,8}",
    r"(?:\b(?:step|sentence|emotion|example|option|question|chapter|page|part|table|no\.|age(?:d| is)?)\s+|#)\d+"
    r"(?![\d%]|\.\d)",
    rf"\b\d{{1,9}}\s+(?!(?:{_LINKS})\b)(?:[a-z]+\s+(?!(?:{_LINKS})\b)){{0,2}}(?:person|people|child(?:ren)?|[a-z]*[a-rt-z]s(?<!us))\b",
    r"\b\d{1,9}(?::\d\d)?\s*(?:[ap]\.?m\b|o['’]clock|[- ]?years?\b|more\b)|\b\d{1,9}:\d",
    r"(?<=[a-z]), \d{1,9},|\d[\d.]{0,8}\s*\?",
    r"\d[\d.]{0,8}\s*(?:points?\s+(?:high|low|great|strong)er|(?:bullet|key|main)\s+points|would\s+(?:indicate|mean))\b",
    rf"{_NUMBER}\s*\([^()\n]{{1,40}}\)\s*,\s*{_NUMBER}\s*\(",
)
_BLANKED = [re.compile(pattern, re.IGNORECASE) for pattern in _NOT_AN_INTENSITY]
_SCALES = [re.compile(pattern, re.IGNORECASE) for pattern in _OWN_SCALE]
_OF_100 = re.compile(rf"({_NUMBER})\s*‰")
_ON_THE_WAY = r"[^\d.;!?\n¦]{0,40}?"
_STATED = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:\b(?:final|overall|therefore|thus|hence|so)\b|\\boxed){_ON_THE_WAY}({_NUMBER})",
        rf"\b(?:intensity|score|rating|answer|output){_ON_THE_WAY}(?:[:=→-]|\bis\b|\bof\b|\bbe\b){_ON_THE_WAY}({_NUMBER})",
    )
] + [_OF_100]
"""Ways to state an intensity, the most explicit first."""


def first_number(text: str) -> float | None:
    """Return the first number of a reply when it lies in [1, 100]; None otherwise, also for one with a comma in it."""
    match = re.search(_ANY_NUMBER, text.replace("−", "-"))
    return _intensity(match[0]) if match else None


def stated_intensity(text: str) -> float | None:
    """Return the intensity from 1 to 100 that a reply commits to ("70 %" and "70/100" are 70); None for several.
    Ends of a scale, list markers, ranges, bounds, counts, ages, years, certainty and other scales are not intensities.
    """
    text = text if len(text) <= 2 * _LONGEST_END else text[:_LONGEST_END] + _GAP + text[-_LONGEST_END:]
    text = _OUT_OF_100.sub(_TOP, re.sub(r"[*_`]", "", text).replace("−", "-"))
    text = _without_list_markers(text)
    for pattern in _SCALES:
        text = pattern.sub(_GAP, text)
    is_elsewhere = _OTHER_SCALE.search(text) is not None
    for pattern in _BLANKED:
        text = pattern.sub(_GAP, text)
    for pattern in [_OF_100] if is_elsewhere else _STATED:
        if values := {_intensity(number) for number in pattern.findall(text)}:
            return values.pop() if len(values) == 1 else None
    values = set() if is_elsewhere else {_intensity(number) for number in re.findall(_NUMBER, text)} - {None}
    return values.pop() if len(values) == 1 else None


def _without_list_markers(text: str) -> str:
    """Blank numbers that start lines and count them from 1."""
    n_markers = 0

    def blank(match: re.Match[str]) -> str:
        nonlocal n_markers
        if int(match[1]) != n_markers + 1:
            return match[0]
        n_markers += 1
        return _GAP

    return _LIST_MARKER.sub(blank, text)


def _intensity(number: str) -> float | None:
    """Return a number in [1, 100], None for another or a malformed number."""
    if "," in number or number.count(".") > 1:
        return None
    value = float(number)
    return value if LOWEST <= value <= HIGHEST else None
