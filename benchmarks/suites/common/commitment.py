"""Tells which mark a marked reply commits to (`marking`), by rules that see marks in place of options. In order:

1. A statement of the answer ("the answer is M", "I choose M", "M is correct", JSON, a box); another one counts instead
   only if its sentence corrects the first ("wait", "but").
2. A line or sentence that begins with M and then ends, pauses or gives a reason; several such lines are a list.
3. The last conclusion ("so M", "it was M").
4. A sentence that leads up to M ("In my opinion, M"); in prose about people, any sentence about M alone.

Options joined by "or", "and", "/" or a comma, hedged ("could be M", "whether M"), excluded ("not M", "anyone but M") or
asked about are mentioned, not chosen.
"""

import re

from benchmarks.suites.common.marking import CONTRADICTION, DROPPED, NO_MARK, SHARED, TEXT

_W, _M = NO_MARK, TEXT
_NO_M = "[^\ue000-\uf8ff]"


def _words(*words: str) -> str:
    return f"(?:{'|'.join(' '.join(words).split())})".replace("_", " ")


_FILLING = _words(
    "the an? is be been was were it it's its that that's this my would should of course to in for on as fact i i'd say who",
    "definitely probably likely most clearly obviously certainly surely simply just only indeed really then here case",
    "option choice answer correct best right final person one word pronoun singular maybe perhaps possibly presumably",
    "clear evident obvious mask blank gap still again actually therefore so thus called sure ok okay well hmm yes yeah",
)
_FILL = rf"(?:{_FILLING}{_W}+)*"
_NOUN = _words(
    "answer antwort reponse respuesta risposta resposta choice option word pronoun letter number mask blank gap response",
    "solution selection chosen selected picked pick guess vote verdict result output conclusion completion prediction term",
    "label decision text sentence person one individual subject",
)
_VERB = _words(
    "choos\\w+ chose pick(?:ed|ing)? select(?:ed|ing)? say(?:ing)? guess(?:ing)? opt(?:ed|ing)?_for go(?:ing)?_(?:with|for)",
    "(?:respond|answer)(?:ing)?_with mean went_with vote_for bet_on lean(?:ing)?_towards? settle_on conclude believe think suspect prefer use insert",
)
_JOINING = _words(
    "(?:or|and)_it(?:'s|_is|_was) and/or or and vs versus nor maybe perhaps possibly else plus then the an? even it_is",
    "either both",
)
_SEPARATOR = rf"(?:[\s,/&+;]|\)\s*\()*(?:{_JOINING}\b[\s,.]*)*"
_REASON = _words("because since due given based from according which who whom by for in at with as")
_ENDS = rf"(?={_W}*$|\s*[,;:()\]{DROPPED}]|\s+-|\s+{_REASON}\b)"
_COPULA = r"(?:\b(?:is|was|be|being)\b|:|'s\b)"
_FITS = _words("is was would_be seems fits relates completes fills works makes sounds matches")
_WELL = _words(
    "correct right best answer most more sense likely appropriate fit suitable logical choice option better well sentence",
    "blank gap mask the_one choose pick select",
)
_INSTEAD_OF = _words(
    "not never neither nor cannot without excluding except(?:_for|ing)? besides unlike rather_than instead_of than over",
    "as_opposed_to (?<!none_)other_than apart_from with_the_exception_of minus against rul(?:e|es|ed|ing)_out exclud\\w+",
    "eliminat\\w+ reject\\w* discard\\w* (?:any|every)\\s?(?:one|body|thing)?_(?:but|save) all_but",
)
_BETWEEN = _words(
    "be been have it it's is was that the an? go with pick choose select say think believe necessarily really simply just",
    "always of for about as to likely correct answer",
)
_UNWILLING = _words("refus\\w+ declin\\w+ wrong unable hesitant unwilling reluctant inappropriate unfair")
_AUXILIARY = _words("is was are were did does do has had would could can should will seems?")
_RULED_OUT = _words("wrong incorrect false out unlikely less ruled eliminated excluded irrelevant unrelated mentioned")
_MAYBE = _words("could might may whether if unless suppose supposing assuming what_about how_about")
_OF_MAYBE = _words(
    "well also just easily possibly have be been it it's is was were that the an? say choose pick as to you we mean meant"
)
_HENCE = _words(
    "so therefore thus hence consequently means must_be must_have_been has_to_be it_is it's it_was that_is that's that_was",
    "that_would_be this_is this_was would_be points?_to implies suggests? indicates? says states reveals leaving leaves",
    "clearly obviously definitely probably likely",
)
_DOUBT = _words(
    "not no never cannot could might may if whether unless but however although though depends assum\\w* stereotyp\\w*",
    "sorry unable both either neither mention\\w*",
)
_CORRECTING = _words(
    "wait actually correction rather i_mean reconsider\\w* second_thought however but final finally therefore so thus hence",
    "instead no(?=,)",
)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.MULTILINE)


_ARTICLES = _pattern(rf"\b(?:the|[Aa]n?)\s+(?={_M})")
_NEXT_CLAUSE = _pattern(rf";(?=\s*{_M}{_W}*\w)")
_SAME = _pattern(rf"({_M})(?:{_SEPARATOR}\1)+")
_INSTEAD = _pattern(
    rf"^{_W}*not\s+{_M}\s*,\s*(?=(?:it's |it is )?{_M}{_W}*$)|\b(?:instead of|rather than|unlike)\s+{_M}\s*,\s*(?={_M})"
)
_JOINED = _pattern(
    rf"{_M}(?:{_SEPARATOR}{_M})+|{_M}(?: ?\({_M}\)?(?=\s*\(|\s*\)|{_W}*$))+|{_M}(?:\s*:[^\n{TEXT[1:-1]}]{{1,30}}[,;]\s*{_M})+"
)
_HALF_OFFERED = _pattern(
    rf"{_M}\s*,?\s*\(?(?:\b(?:or|and/or|vs|versus)\b|/|(?:\band|&)\s*$)|\b(?:either|both|between|one of|or|and/or)\s+{_M}"
    rf"|{_M}\s*,?\s*(?:and|&|\+)\s*(?:\w+\s+){{0,2}}(?:others?|someone|somebody|another|both|everyone|else|more)\b"
)
_HEDGED = _pattern(rf"\b{_MAYBE}\b{_W}+(?:{_OF_MAYBE}{_W}+)*{_M}|{_M}{_W}+(?:could|might|may)\b")
_REJECTED = _pattern(
    rf"{_M}{_W}+(?:{_AUXILIARY}(?:\s*n't|\s+not|\s+never)\b|cannot\b|never\b|(?:makes|has|is) no\b"
    rf"|(?:is|was|would be|seems?|are) (?:\w+ly )?{_RULED_OUT}\b)"
    rf"|{_M}\s*[:(-]+\s*(?:no(?={_W}*$)|wrong|false|incorrect|not (?:correct|right))\b"
)
_EXCLUDED = _pattern(
    rf"(?:\b{_INSTEAD_OF}\b|n't\b)[\s,]+(?:{_BETWEEN}\s+)*{_M}|>\s*{_M}|\b{_UNWILLING}\b[^.{TEXT[1:-1]}]{{0,40}}{_M}"
)
_CONTRARY = _pattern(
    rf"{_M}\s*,?\s*\b(?:though|although|but|however|yet)\b(?:(?!\b(?:answer|correct|choose|pick|go with)\b){_NO_M}){{0,60}}"
    rf"{_M}{_W}*(?:is )?(?:possible|plausible)?{_W}*(?:too|also|as well)?{_W}*$"
)
_ALSO = _pattern(
    rf"{_M}\s*,?\s*\b(?:though|although|but|however)\b(?=[^.\n]*\b(?:too|also|as well|equally)\b)"
    rf"{_NO_M}{{0,40}}\b(?:could|might|may)\b{_NO_M}{{0,40}}{_M}"
)
_STATED = _pattern(
    rf"\b{_NOUN}\b(?:{_W}+\w+){{0,8}}?{_W}*{_COPULA}{_W}*{_FILL}({_M})"
    rf"|\b(?:answer|pronoun|option|choice|letter)\s+({_M})"
    rf"|\b(?:fill\w*|replac\w+|complet\w+)\b(?:{_W}+\w+){{0,6}}?{_W}+(?:with|by|as){_W}+{_FILL}({_M})"
    rf"|\b{_VERB}\b{_W}+{_FILL}({_M})"
    rf"|{DROPPED}{_W}*(?:but|rather|instead){_W}+{_FILL}({_M})"
    rf"|({_M}){_W}+{_FITS}\b[^,;:\ue000-\uf8ff]{{0,60}}?\b{_WELL}\b"
    rf"|({_M}){_W}+(?:fits|works)\b"
)
_LEADING = _pattern(rf"^(?:{_W}|{DROPPED})*{_FILL}({_M}){_ENDS}")
_CONCLUDED = rf"\b{_HENCE}\b{_W}+{_FILL}({_M})"
_CONCLUDED_IN_PROSE, _CONCLUDED_SHORT = _pattern(_CONCLUDED), _pattern(_CONCLUDED + _ENDS)
_TOLD = _pattern(
    rf"^{_W}*(?:(?:based on|according to|in|from|given|as per)\b[^,{TEXT[1:-1]}]{{0,80}},\s*)?{_FILL}({_M}){_W}+\w"
    rf"|\b(?:was|is|were|are|named|called){_W}+{_FILL}({_M}){_ENDS}"
)
_INTRODUCED = _pattern(rf"^{_NO_M}{{0,60}}[,:]{_W}*{_FILL}({_M}){_W}*$")
_DOUBTFUL = _pattern(rf"\b{_DOUBT}\b|n't\b")
_CORRECTS = _pattern(rf"\b{_CORRECTING}\b")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


def committed(text: str, *, is_prose: bool) -> str | None:
    """Return the mark that a marked reply commits to, None for a reply that commits to nothing; SHARED, CONTRADICTION or
    NOT_OFFERED where the reply commits, but to no single option.
    """
    if CONTRADICTION in text:
        return CONTRADICTION
    concluded_by = _CONCLUDED_IN_PROSE if is_prose else _CONCLUDED_SHORT
    stated, leading, concluded, told = list[str](), list[str](), list[str](), list[str]()
    for match in _SENTENCE.finditer(_NEXT_CLAUSE.sub(".", _ARTICLES.sub("", text))):
        if "?" in match[0]:
            continue
        sentence = _without_mentions(match[0].rstrip(".! "))
        of_sentence = _last(_STATED, sentence)
        if of_sentence and stated and of_sentence[0] != stated[-1] and _CORRECTS.search(sentence):
            stated.clear()
            leading.clear()
        stated += of_sentence
        leading += [mark for mark in _last(_LEADING, sentence) if not of_sentence or mark != SHARED]
        concluded += _last(concluded_by, sentence)
        if len(set(re.findall(_M, sentence))) == 1 and not _DOUBTFUL.search(sentence):
            told += _last(_TOLD, sentence) if is_prose else []
            told += _last(_INTRODUCED, sentence)
    if stated:
        return _single({*stated, *(leading if len(set(leading)) == 1 else ())})
    if leading:
        return _single(set(leading))
    return concluded[-1] if concluded else _single(set(told))


def _without_mentions(sentence: str) -> str:
    """Return a sentence in which the options that are mentioned and not chosen have no mark of their own."""
    sentence = _SAME.sub(r"\1", _REJECTED.sub(DROPPED, sentence))
    sentence = _INSTEAD.sub(f"{DROPPED} but ", sentence)
    sentence = _JOINED.sub(SHARED, sentence)
    sentence = _HALF_OFFERED.sub(SHARED, sentence)
    sentence = _ALSO.sub(SHARED, sentence)
    sentence = _HEDGED.sub(DROPPED, sentence)
    sentence = _EXCLUDED.sub(DROPPED, sentence)
    return _CONTRARY.sub(SHARED, sentence)


def _last(pattern: re.Pattern[str], sentence: str) -> list[str]:
    """Return the mark of the last match in a sentence, if any."""
    marks = [match[match.lastindex] for match in pattern.finditer(sentence) if match.lastindex]
    return marks[-1:]


def _single(marks: set[str]) -> str | None:
    return SHARED if len(marks) > 1 else next(iter(marks), None)
