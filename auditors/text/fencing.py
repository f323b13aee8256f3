"""Prompt-injection defence: quotes audited text to a judge between random delimiters, control tokens broken up.
The mark is drawn for every question. Control marks of chat templates, which servers turn into real turns, are broken up
by a blank, by families of shapes: `<|...|>` with any bars, `<...|>`, `[|...|]`, words with an underscore or behind a
colon in brackets, and short words of turns, thoughts, tools and media. Look-alikes, entities (`&lt;`), case, blanks and
signs without width do not hide a mark; ordinary markup has other shapes. Linear time.
"""

import html
import re
import secrets
import unicodedata
from collections.abc import Iterator

LONGEST = 100
"""Signs of a mark between its brackets; no known special token has a third of that."""

_WORDS = (
    r"s|bos|eos|pad|unk|sep|cls|mask|sys|inst|so[a-z]|eo[a-z]|eoss|sos/eos|blank|madeupword|im|img|imgpad|image|video|"
    r"audio|sound|patch|global-img|img-?context|ref|box|quad|poly|point|loc|obj|object|phrase|ground|grounding|frame|"
    r"delimiter|think|thinking|thought|thoughts|reasoning|reflection|analysis|answer|scratch-?pad|tool|tools|toolcall|"
    r"tooluse|observation|system|user|assistant|human|bot|model|developer|function|channel|turn|endofturn|endoftext|"
    r"startoftext|endofprompt|escape|ipython|interpreter|unused|special|reserved|extra|dummy|placeholder|seg|token|ent|"
    r"invoke|minimax|digits|response|doc|chunk|line|break|filename|reponame"
)
"""Alone between angle brackets; with a number behind them too."""
_ANGLE = re.compile(
    rf"<\|.{{0,{LONGEST}}}\|>|<\|[\w.:/+\"'-]{{1,64}}>|</?[\w.:/+\"'-]{{1,64}}\|>"
    rf"|</?(?:{_WORDS})\d{{0,6}}/?>"
    r"|</?\[?(?!(?:your|my|our|the|insert|some|any|enter)_)(?!\w{0,60}_(?:t|here)>)(?=\w{0,60}[^\W_]_)\w{1,64}+\]?/?>"
    rf"|</?[\w-]{{1,20}}:(?:(?:{_WORDS})\d{{0,6}}|(?=\w{{0,40}}_)\w{{1,60}}+)>|</?seed:\w{{1,40}}>"
    rf"|</?\w{{2,12}}\|(?:(?:{_WORDS})\d{{0,6}}|(?=\w{{0,40}}_)\w{{1,60}}+)>"
    r"|<\].{1,64}\[>|<\|\w{1,40}\|[\w.:/-]{1,40}>"
)
"""Pattern of a mark between angle brackets, folded: small letters, no blanks, plain signs."""
_SQUARE = re.compile(
    r"\[\|(?=.{0,64}[a-z])[\w.:/+-]{1,64}\|\]"
    r"|\[/?(?:inst|think|[gs]mask|cls|unk|bos|eos|eot|[se]op|multimodal|img_(?:end|break|start)|system_prompt|"
    r"available_tools|tool_(?:calls?|results?|content)|call_id|model_settings|begin_audio|unused\d{1,5}|"
    r"unused_token_\d{1,5}|extra_id_\d{1,5}|control_\d{1,5}|start_ref|end_ref)\]"
)
"""Between square brackets, in any case."""
_SQUARE_CAPITALS = re.compile(
    r"\[/?(?:SEP|PAD|MASK|IMG|ARGS|AUDIO|PREFIX|MIDDLE|SUFFIX|TRANSCRIBE|SYSTEM|USER|ASSISTANT|TOOLS?|STOP|SPACE|GO|"
    r"EMPTY|RESERVED|LEAF|REF|QUESTION)\d{0,4}\]"
    r"|\[/?(?!(?:YOUR|MY|OUR|THE|INSERT)_)(?![A-Z0-9_]{0,60}_(?:NAME|HERE|DATE)\])[A-Z]{1,30}(?:_[A-Z0-9]{1,30}){1,5}\]"
)
"""Between square brackets, in capitals only: in small letters these are ordinary words of manuals."""

_LESS = r"(?:<|&lt;|&#0{0,5}60;|&#x0{0,5}3c;|\\u003c)"
_GREATER = r"(?:>|&gt;|&#0{0,5}62;|&#x0{0,5}3e;|\\u003e)"
_BETWEEN_ANGLES = re.compile(
    rf"(?P<begin>{_LESS})(?:[^<>&\\\n]|&(?!lt;|#0{{0,5}}60;|#x0{{0,5}}3c;)|"
    rf"\\(?!u003c)){{0,{LONGEST}}}?(?P<end>{_GREATER})",
    re.IGNORECASE,
)
_BETWEEN_SQUARES = re.compile(rf"(?P<begin>\[|&\#91;|&lsqb;)[^\[\]\n]{{1,{LONGEST}}}?(?P<end>\]|&\#93;|&rsqb;)")
_PLAIN = re.compile(
    r"(?P<begin>\])(?:~!?[A-Za-z]{1,10}|![A-Za-z]{1,3}~|<\][^\[\]\n]{1,40}\[>)(?P<end>[\[\]])"
    r"|(?P<begin2>\[)[A-Za-z]{1,3}~(?P<end2>\[)"
    r"|(?P<begin3>>>)[A-Z]{3,15}(?P<end3><<)"
    r"|(?P<begin4>\|\|\|)[A-Z]{2,20}_[A-Z_]{2,20}(?P<end4>\|\|\|)"
    r"|(?P<begin5>/)(?:no_?)?think(?P<end5>)"
    r"|(?P<begin6>PI:)(?=[A-Z_]{2})(?P<end6>)"
)
"""Marks with brackets of their own kind, and the words that switch thinking off and on ("/no_think")."""
_FULL_WIDTH = re.compile(r"(?P<begin>｜)[A-Za-z_▁]{2,40}(?P<end>｜)")
"""Between full-width bars, without brackets; between plain ones it is a table."""


def cuts(text: str) -> Iterator[int]:
    """Places, in order, where a blank must be put: behind the first bracket of a mark and before its last."""
    plain = text.translate(_LOOK_ALIKES)
    places = set[int]()
    for match in _BETWEEN_ANGLES.finditer(plain):
        if _ANGLE.fullmatch(_bare(match[0]).lower()) and not _is_generic(plain, match):
            places.update((match.end("begin"), match.start("end")))
    for match in _BETWEEN_SQUARES.finditer(plain):
        bare = _bare(match[0])
        if _SQUARE.fullmatch(bare.lower()) or _SQUARE_CAPITALS.fullmatch(bare):
            places.update((match.end("begin"), match.start("end")))
    for match in _PLAIN.finditer(plain):
        begin, end = next(pair for pair in _PLAIN_ENDS if match[pair[0]] is not None)
        places.update((match.end(begin), match.start(end)) if match[end] else (match.end(begin),))
    for match in _FULL_WIDTH.finditer(text):
        places.update((match.end("begin"), match.start("end")))
    yield from (at for at in sorted(places) if not (text[at - 1].isspace() or text[at : at + 1].isspace()))


def defused(text: str) -> str:
    """The text with a blank behind the first and before the last bracket of each control mark: "< |im_end| >"."""
    parts, begin = list[str](), 0
    for at in cuts(text):
        parts.append(text[begin:at])
        begin = at
    return " ".join([*parts, text[begin:]]) if parts else text


def _bare(mark: str) -> str:
    """Plain signs, without blanks, signs without width, and backslashes."""
    return _UNSEEN.sub("", html.unescape(mark.replace("\\u003c", "<").replace("\\u003e", ">")))


def _is_generic(text: str, match: re.Match[str]) -> bool:
    """Return whether the match is a type's parameter, as in `List<User>`: tokens are not capitalised words."""
    inside = match[0][1:-1]
    return inside.isalpha() and inside.istitle() and match.start() > 0 and text[match.start() - 1].isalnum()


def _look_alikes() -> dict[int, str]:
    """Map each sign to the ASCII sign that it looks like, a single sign each, so that places stay the same."""
    by_sign = {ord(sign): word[0] for word in _SHAPES.split() for sign in word[1:]}
    for first, last in ((0x2100, 0x214F), (0xFF01, 0xFF5E), (0x1D400, 0x1D7FF)):
        for code in range(first, last + 1):
            same = unicodedata.normalize("NFKC", chr(code))
            if len(same) == 1 and same.isascii():
                by_sign.setdefault(code, same)
    return by_sign


_SHAPES = (
    "<＜‹˂〈⟨〈﹤❮ᐸ❬ >＞›˃〉⟩〉﹥❯ᐳ❭ |｜│┃∣ǀ⏐❘￨❙︱| [［〔⟦❲﹝【 ]］〕⟧❳﹞】 /／⁄∕ :：꞉∶ _▁＿ "
    "aаɑα cсϲ dԁ eеҽ hһ iіıι jј kкκ mм nո oоοօ pрρ rг sѕ tт uυս vν xхχ yуγ "
    "AАΑ BВΒ CСϹ EЕΕ HНΗ IІΙӀ KКΚ MМΜ NΝ OОΟ PРΡ SЅ TТΤ XХΧ YҮΥ ZΖ"
)
"""Words of similar signs: the first sign of each word is the plain sign that the others look like."""
_LOOK_ALIKES = _look_alikes()
_UNSEEN = re.compile(
    r"[\s\\\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_PLAIN_ENDS = (("begin", "end"), *((f"begin{number}", f"end{number}") for number in range(2, 7)))


_ORDERS = re.compile(
    r"(?:ignore|disregard|forget|override) (?:all |any |the |your |my )?(?:previous|prior|above|earlier|other|"
    r"system|rules|instructions)|you are (?:a|the|now)[a-z ]{0,20} judge|"
    r"\b(?:as|dear|to the) (?:a )?(?:judge|evaluator|grader)\b|"
    r"(?:reply|respond|answer|output) (?:only )?(?:with|exactly)[^\n]{0,40}[{\"]|\"findings\"\s*:|\"refused\"\s*:|"
    r"DATA [0-9a-f]{4,}>>>|<<<DATA|(?:give|assign|set) (?:it |this |a |the )?(?:score|rating)",
    re.IGNORECASE,
)


def mark() -> str:
    """A fresh mark: 64 random bits in hexadecimal."""
    return secrets.token_hex(8)


def speaks_to_a_judge(text: str) -> bool:
    """Return whether a text seems to give orders to its judge; noted with a score, never used for it."""
    return bool(_ORDERS.search(text))
