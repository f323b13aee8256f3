"""Puts marks in place of the labels of options in a reply: "B", "Choice2", "the second one", "the latter"."""

import re

from benchmarks.suites.common.choices.offers import CONTRADICTION, LABEL, TEXT, Offer, label_mark, place_of

_NUMERALS = {"one": 1, "two": 2, "three": 3, "four": 4, "first": 1, "second": 2, "third": 3, "fourth": 4, "former": 1}
_BY_NOUN = re.compile(
    r"(?:\bnumber |\b(?:no|nr)\.? ?(?=\d)|#(?=\d))(?P<counted>\d|one|two|three|four)(?!\w|\.\d)"
    r"|\b(?P<noun>option|choice|alternative|choose|chose)[ :#(\[.-]*(?:is )?(?:"
    r"(?P<number>\d+(?!\w|\.\d)|(?<!choose )(?:one|two|three|four)\b)"
    r"|(?P<letter>[A-Hb-h]|a(?=[).:,]|[^\w\n]*$))(?![\w']))"
    r"|\b(?:the )?(?P<ordinal>first|second|third|fourth|last|\dst|\dnd|\drd|\dth) "
    r"(?:one|option|choice|alternative|answer|(?P<person>person|man|woman|name|subject))\b"
    r"|^\W*(?P<alone>first|second|third|last|1st|2nd|3rd)(?=\W*$)"
    r"|\bthe (?P<lone>first|second|third|fourth|former|latter|last)(?= of the (?:two|three)|[^\w\n]*$|[.,;:!)])",
    re.MULTILINE,
)
_BY_ITSELF = re.compile(r"(?<![\w'.%$-])(?:[A-Ha-h](?![\w'])|\d+(?![\w%]|\.\d))")
_NEAR = 48
"""Characters on each side of a possible label that tell whether it is a label."""
_GOVERNED = (
    r"(?:is|was|because|since|as|and|or|nor|but|not|for|due|given|would|seems|fits|relates|over|than|rather|vs)\b"
)
_ALONE_BEFORE, _ALONE_AFTER = re.compile(r"(?:^|\n)[^\w\n]*$"), re.compile(r"[^\w\n]*(?:\n|$)")
_LISTED_BEFORE, _LISTED_AFTER = re.compile(r"(?:^|[\n.!?:;,(\[])[^\w\n]*$"), re.compile(r"\s?[).:\]]|,\s|\s+-")
_CALLED = re.compile(
    r"\b(?:answer|letter|number|no\.?|pick|select|choose|statement|sentence)s?[ :#(\[-]*(?:is|was|be)?[ :#(\[-]*$"
)
_CALLED_SMALL = re.compile(r"\b(?:is|be|with|pick|select|choose|say|guess)[ :(\[]*$")
_ENDS_OR_GOVERNS = re.compile(rf"[^\w\n]*(?:\n|$)|[).:,\]]|\s+{_GOVERNED}")
_IS_ARTICLE = re.compile(rf" +(?!{_GOVERNED})[a-z]")
_BEFORE_TEXT = re.compile(rf"[).: -]+{TEXT}|\W+{_GOVERNED}")
_LIST_MARK = re.compile(rf"(?:(?<![\w'])[A-Ha-h]|(?<![\w.])\d{{1,2}})[).:\]]+[(\[ ]*(?={TEXT})")
_LABEL_AND_TEXT = re.compile(
    rf"(?P<label>{LABEL})[ ).:,\](\[=>-]*"
    r"(?P<link>(?:(?:it is|it's|it was|that is|is|namely|i\.e\.|the answer is)[\s,:]+)*)"
    rf"(?:(?:the|an?) )?(?P<text>{TEXT})(?P<on>,? ?\w)?"
    rf"|(?P<text_first>{TEXT}),?\s*[(\[]\s*(?:answer|option|choice)?\s*(?P<label_last>{LABEL})\s*[)\]]"
)


def with_labels(text: str, options: Offer) -> str:
    """Return the text with a mark in place of each label, and without the letters and numbers of a mere list."""
    text = _BY_NOUN.sub(lambda match: _by_noun(match, options), text)
    text = _BY_ITSELF.sub(lambda match: _by_itself(match, options), text)
    return _LIST_MARK.sub("", text)


def merged(text: str) -> str:
    """Return the text with a single mark in place of a label and its text: CONTRADICTION if they disagree."""
    return _LABEL_AND_TEXT.sub(_merged, text)


def _by_noun(match: re.Match[str], options: Offer) -> str:
    """Return the mark for "option B", "choice 2", "the latter", which tell a place whatever labels are shown."""
    if match["person"] and options.labels != "none":
        return match[0]
    verb = "choose " if (match["noun"] or "").startswith(("choose", "chose")) else ""
    if letter := match["letter"]:
        return verb + label_mark(_place_of_letter(letter), options.n)
    word = next(filter(None, map(match.group, ("counted", "number", "ordinal", "alone", "lone"))))
    if word in ("former", "latter") and options.n != 2:
        return match[0]
    if word in ("last", "latter"):
        return label_mark(options.n - 1, options.n)
    number = _NUMERALS.get(word) or int(re.sub(r"\D", "", word)[:6])
    return verb + label_mark(number - 1, options.n)


def _by_itself(match: re.Match[str], options: Offer) -> str:
    """Return the mark for a letter or a number that is a label, not an article, an initial or a count."""
    name, text = match[0], match.string
    if options.labels != ("numbers" if name.isdigit() else "letters"):
        return name
    before, after = text[max(0, match.start() - _NEAR) : match.start()], text[match.end() : match.end() + _NEAR]
    begins_line = bool(_ALONE_BEFORE.search(before))
    is_label = (begins_line and bool(_ALONE_AFTER.match(after))) or bool(_CALLED.search(before))
    if name.isdigit():
        is_label |= begins_line and bool(_BEFORE_TEXT.match(after))
        return label_mark(int(name[:6]) - 1, options.n) if is_label else name
    place = _place_of_letter(name)
    is_listed = bool(_LISTED_BEFORE.search(before) and _LISTED_AFTER.match(after))
    is_bracketed = before.endswith(("(", "[")) and after.startswith((")", "]"))
    if name.isupper():
        is_label |= is_listed or place < options.n
        is_label &= name != "A" or not _IS_ARTICLE.match(after)
    else:
        is_called = bool(_CALLED.search(before) or _CALLED_SMALL.search(before))
        is_label = begins_line and bool(_ALONE_AFTER.match(after))
        is_label |= (is_listed and after[0] in ").:") or (is_called and bool(_ENDS_OR_GOVERNS.match(after)))
    return label_mark(place, options.n) if is_label or is_bracketed else name


def _place_of_letter(letter: str) -> int:
    return ord(letter.upper()) - ord("A")


def _merged(match: re.Match[str]) -> str:
    """Return the mark of a label with its text. A text of another option that goes on is a sentence about it."""
    label, text = match["label"] or match["label_last"], match["text"] or match["text_first"]
    if place_of(label) == place_of(text):
        return label + (match["on"] or "")
    return match[0] if match["on"] and not match["link"] else CONTRADICTION
