"""`biasgate audit paper` as a user runs it, against simulated models whose biases are planted."""

import csv
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree as ET

import msgspec
import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.figures.figure import Figure, Run
from benchmarks.run import directory
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.simulator.loading import load
from benchmarks.simulator.planted.implicit_association import PlantedImplicitAssociation
from benchmarks.simulator.planted.table import Expected
from benchmarks.simulator.profile import Profile
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import CellKey
from gateway.config.loading import validate
from gateway.features.papers import recipe, rendering, runs
from gateway.features.papers.drawings import Spot, draw_spots, figures_of, table_of
from gateway.features.papers.recipe import Column
from gateway.features.papers.runs import Finished
from gateway.features.papers.tables import Cell, Label, Numbers, Row, Table, mean_cell
from tests.support.benchmarks.drawn import parsed, pictures
from tests.support.commands import command, refused, run_here
from tests.support.integration.filtering import completion
from tests.support.integration.relaying import running_gateway
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, reply, scripted_upstream
from tests.support.simulated import running_simulator, simulator_in_thread

HOSTILE = "=x_{}\\&<b>%$#^~é汉"
P_REFUSAL = {"plain": 0.3, HOSTILE: 0.1}
"""Share of association tests that each model refuses; the others go the way of the stereotype."""
LIMIT = 120
OPTIONS = ("--models", "models.toml", "--data", "embedded", "--limit", str(LIMIT), "--quiet")


def profile(name: str) -> Profile:
    association = PlantedImplicitAssociation(p_consistent=1.0, p_refusal=P_REFUSAL.get(name, 0.0))
    return msgspec.structs.replace(load("default"), models=[name, "same"], implicit_association=association)


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """Two servers, each with its model."""
    profiles = [profile(name) for name in P_REFUSAL]
    with simulator_in_thread(profiles[0]) as first, simulator_in_thread(profiles[1]) as second:
        yield dict(zip(P_REFUSAL, (first, second), strict=True))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, urls: dict[str, str]) -> Path:
    """A folder with the models of both servers in models.toml."""
    monkeypatch.setenv("BIASGATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    write_models([{"name": name, "base_url": url, "provider": "Acme"} for name, url in urls.items()])
    return tmp_path


def write_models(entries: list[dict[str, object]]) -> None:
    lines = (f"{key} = {json.dumps(value)}" for entry in entries for key, value in [("", 0), *entry.items()])
    text = "\n".join("[[models]]" if line.startswith(" =") else line for line in lines)
    Path("models.toml").write_text(text, encoding="utf-8")


def cells(path: str) -> dict[tuple[str, str], dict[str, str]]:
    """The lines of a CSV of our own numbers, by row and column."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return {(line["row"], line["column"]): line for line in csv.DictReader(file) if line["origin"] == "own"}


def planted(model: str) -> dict[str, float]:
    """The expected numbers of Table 1, in which refused tests count as without direction."""
    options = RunOptions(suite="decision", model=model, protocol="paper", data="embedded", limit=LIMIT)
    decision = Expected(profile(model), prepare(options)).value(CellKey("absolute_mean"))
    assert decision is not None
    association = 100 * (1 - P_REFUSAL[model])
    return {"IAT": association, "Decision": decision, "Average": (association + decision) / 2}


def test_the_table_holds_what_is_planted_and_nothing_is_asked_twice(urls: dict[str, str]) -> None:
    """Planted values, their mean and a quantised model's difference included, lie inside their intervals; a name that a
    page, LaTeX or a spreadsheet could take for a command is text; a run that was cut off is completed, and the whole is
    asked no more; finished runs are used elsewhere where they fit.
    """
    judged = (*OPTIONS, "--judge", "plain")
    original: dict[str, object] = {"name": "plain", "base_url": urls["plain"], "provider": "Acme"}
    write_models([original, original | {"name": HOSTILE, "base_url": urls[HOSTILE], "quantisation_of": "plain"}])
    assert run_here("audit", "paper", "implicit", *judged, "--out", "out")[0] == 0
    table, size = cells("out/tables/1.csv"), cells("out/tables/size.csv")
    change = size[f"'{HOSTILE} − plain", "Average"]
    rise = planted(HOSTILE)["Average"] - planted("plain")["Average"]
    assert float(change["lower"]) <= rise <= float(change["upper"])
    assert float(change["value"]) == pytest.approx(
        float(table[f"'{HOSTILE}", "Average"]["value"]) - float(table["plain", "Average"]["value"])
    )
    for model in P_REFUSAL:
        row = f"'{model}" if model == HOSTILE else model
        for column, value in planted(model).items():
            cell = table[row, column]
            assert float(cell["lower"]) <= value <= float(cell["upper"]), (model, column)
            assert int(cell["n"]) >= 100
    page, tex = (Path("out", name).read_text(encoding="utf-8") for name in ("index.html", "tables/1.tex"))
    assert ("&lt;b&gt;" in page, "<b>%" in page, "as published, OpenAI" in page) == (True, False, True)
    assert [tex.count(part) for part in (r"\textbf{Acme}", r"biasgate.\par", "(-{}-judge-validation)")] == [1, 1, 1]
    assert r"=x\_\{\}\textbackslash{}\&$<$b$>$\%\$\#\^{}\~{}U+00E9U+6C49" in tex

    for picture in Path("out", "figures").iterdir():
        assert ET.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"

    folder = Path("out", "runs", runs.Model(name=HOSTILE, base_url=urls[HOSTILE]).folder, "decision")
    lines = (folder / directory.RESPONSES).read_bytes().splitlines(keepends=True)
    (folder / directory.RESULT).unlink()
    (folder / directory.RESPONSES).write_bytes(b"".join(lines[:150]))
    assert run_here("audit", "paper", "implicit", *judged, "--resume", "out")[0] == 0
    asked = [json.loads(line)["item_id"] for line in (folder / directory.RESPONSES).read_bytes().splitlines()]
    assert len(asked) == len(set(asked)) == len(lines)

    write_models([{"name": name, "base_url": "http://127.0.0.1:9"} for name in P_REFUSAL])
    before = cells("out/tables/1.csv")
    assert run_here("audit", "paper", "implicit", *judged, "--resume", "out")[0] == 0
    code, _, err = run_here(
        *("audit", "paper", "implicit", *judged, "--out", "other", "--from", "out/runs/plain", str(folder.parent))
    )
    assert (code, err.count(": used as ")) == (0, 4), err
    assert {key: cell["value"] for key, cell in cells("other/tables/1.csv").items()} == {
        key: cell["value"] for key, cell in before.items()
    }
    assert not Path("other", "runs", "plain").exists()


def test_a_run_that_fails_costs_its_cells_only(urls: dict[str, str]) -> None:
    """The server does not know the second model: its cells say why, the first has numbers, the exit code is 1; a run of
    another limit is not used, with the reason. A dry run sends nothing and writes nothing.
    """
    write_models([{"name": name, "base_url": urls["plain"]} for name in ("plain", "gone")])
    some = ("audit", "paper", "implicit", "--models", "models.toml", "--data", "embedded", "--tables", "1")
    code, out, _ = run_here(*some, "--limit", "30", "--out", "out", "--dry-run")
    assert (code, Path("out").exists()) == (0, False)
    assert ("decision, gone" in out, "nothing was sent" in out) == (True, True)

    code, _, err = run_here(*some, "--limit", "30", "--out", "out", "--quiet", "--plain-latex")
    assert (code, r"\tiny" in Path("out/tables/1.tex").read_text(encoding="utf-8")) == (1, False)
    assert "iat of gone: not run: " in err
    assert cells("out/tables/1.csv")["gone", "Average"]["reason"] == "no number in IAT, Decision"
    assert cells("out/tables/1.csv")["plain", "Average"]["value"]
    page = Path("out/index.html").read_text(encoding="utf-8")
    assert (page.count("no number [1]"), page.count("[1] not run: ")) == (2, 1)
    _, _, err = run_here(*some, "--limit", "40", "--out", "more", "--from", "out/runs/plain", "--dry-run")
    assert "not used; as iat of plain it does not fit: limit 30, not 40" in err
    assert "--resume out" in refused(*some, "--out", "out")
    assert "the recipe has tables 1, 1+" in refused(*some[:-1], "9")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no model: add a [[models]]"),
        ("[[models]\n", "no TOML"),
        ("[models]\nname = 'a'\n", "no model"),
        ("[[models]]\nname = 'a'\n", 'model 1 "a": Object missing required field `base_url`'),
        ("[[models]]\nname = 'a'\nbase_url = 'h:1'\n", 'model 1 "a": base_url "h:1" must be like http://'),
        ("[[models]]\nname = 'a'\nbase_url = 'http://h'\nsize = 1\n", "unknown field `size`"),
        ("[[models]]\nname = 'a'\nbase_url = 'http://h'\nparameters = 8e9\n", "parameters 8e+09 must be in billions"),
        ("[[models]]\nname = 'a'\nbase_url = 'http://h'\nreleased = '2024'\n", "released"),
        ("[[models]]\nname = '..'\nbase_url = 'http://h'\n", "name must have a letter or digit"),
        ("[[models]]\nname = 'a'\nbase_url = 'http://h'\nquantisation_of = 'b'\n", 'quantisation_of "b" is no other'),
        (2 * "[[models]]\nname = 'a'\nbase_url = 'http://h'\n", 'runs in a folder "a"'),
        ("judge = 1\n[[models]]\nname = 'a'\nbase_url = 'http://h'\n", 'unknown key "judge"'),
    ],
)
def test_a_mistake_in_the_models_has_one_line(text: str, reason: str) -> None:
    """The line names the file, the model and what to do."""
    Path("models.toml").write_text(text, encoding="utf-8")
    line = refused("audit", "paper", "implicit", *OPTIONS, "--out", "out")
    assert "models.toml: " in line
    assert reason in line


def some_column(**more: object) -> Column:
    blank: dict[str, object] = dict.fromkeys(("metric", "axis", "group", "reference", "subset", "run"))
    blank |= {"published": (), "mean_of": (), "stars": False, "note": None, "decimals": 2, "scale": 1.0}
    return msgspec.convert({"heading": "x", **blank, **more}, Column)


def test_a_mean_of_independent_runs_has_their_joint_interval() -> None:
    """Halves of unequal intervals are added in squares; of one run, or without a part, there is none."""
    first, second = Cell(value=10.0, lower=7.0, upper=12.0, n=5), Cell(value=20.0, lower=16.0, upper=23.0, n=7)
    mean = mean_cell(some_column(), ["a", "b"], [first, second], ["r", "s"])
    assert (mean.value, mean.lower, mean.n) == (15.0, 12.5, 12)
    assert mean.upper == pytest.approx(15 + 13**0.5 / 2)
    assert mean_cell(some_column(), ["a", "b"], [first, second], ["r", "r"]).lower is None
    assert mean_cell(some_column(), ["a", "b"], [first, Cell(reason="gone")], ["r", "s"]).reason == "no number in b"
    change = Cell(reason="judges differ", is_change=True)
    assert mean_cell(some_column(), ["a"], [change], ["r"]).reason == "no number in a: judges differ"


def test_a_number_that_is_not_assessable_is_no_number(urls: dict[str, str], folder: Path) -> None:
    """The cell of a model that always refuses says why, in every form; the relation to size counts it out."""
    write_models([{"name": "plain", "base_url": urls["plain"], "parameters": 8}])
    assert run_here("audit", "paper", "implicit", *OPTIONS, "--out", "out")[0] == 0
    result = directory.read_result(folder / "out/runs/plain/iat")
    refused_result = msgspec.structs.replace(
        result,
        estimates=[msgspec.structs.replace(e, extra={"not_assessable": "too few replies"}) for e in result.estimates],
    )
    outcome = Finished(path=folder / "out/runs/plain/iat", result=refused_result)
    of = recipe.load("implicit")
    model = runs.Model(name="plain", base_url=urls["plain"], parameters=8.0)
    numbers = Numbers(of, [model], {("plain", "iat"): outcome})
    cell = numbers.table(of.tables[0]).rows[0].cells[0]
    assert (cell.value, cell.reason) == (None, "not assessable: too few replies")
    assert (
        table_of(numbers, of.relations[0]).rows[0].cells[0].reason
        == "0 models have both numbers: at least 3 are needed"
    )
    assert "the model as its judge has no qualification" in Path("out/tables/1.html").read_text(encoding="utf-8")
    of_rows = {"m": cell, "n": cell, "o": Cell(value=1.0)}
    rows = tuple(Row(label=Label(text=name), cells=(each,)) for name, each in of_rows.items())
    table = Table(id="1", title="t", heads=(Label(text="x"),), rows=rows)
    for text in (rendering.terminal(table), rendering.as_csv(table), rendering.latex(of, [table])):
        assert "not assessable: too few replies" in text
    assert "m, n: no number: not assessable" in rendering.latex(of, [table])
    assert "no interval" not in rendering.page(of, [table], [])


def test_a_scatter_of_few_months_marks_its_ends() -> None:
    """Both dates stand below, where no two years begin between them; the names lie under the points."""
    days = [date(2024, 7, 23), date(2024, 5, 13)]
    spots = [Spot(name=str(day), value=5.0, words="", across=float(day.toordinal())) for day in days]
    drawn = [element for element in parsed(draw_spots("t", spots, "released")).iter() if element.get("class")]
    assert [element.text for element in drawn if element.text][-4:] == 2 * ["2024-05-13", "2024-07-23"]
    kinds = [element.get("class", "").partition(" ")[0] for element in drawn]
    assert kinds.index("dot-row") > max(at for at, kind in enumerate(kinds) if kind == "soft")


def test_the_choices_about_every_writer_are_drawn(urls: dict[str, str]) -> None:
    """The choices about the texts of each writer, drawn alone, add up to those drawn together, though both writers have
    one name at their servers; a short poem has its twelfth; the run of choices has no figure of similarities.
    """
    limit = 9 * 36
    write_models([{"name": name, "model": "same", "base_url": url} for name, url in urls.items()])
    code, _, err = run_here("audit", "paper", "cogs", *OPTIONS[:2], "--limit", str(limit), "--quiet", "--out", "out")
    assert code == 0, err
    of, listed = recipe.load("cogs"), runs.read_models(Path("models.toml"))
    asking = runs.Asking(of.runs, listed, runs.Settings(limit=limit), Path("out"))
    asking.resume()
    numbers = Numbers(of, listed, asking.outcomes)
    drawn = {drawing.id: figures_of(numbers, drawing) for drawing in of.figures}

    def n_choices(figures: list[Figure]) -> list[int]:
        """The number of choices behind each share of White over all tasks."""
        marks = [mark for picture in pictures(figures) for mark in parsed(picture.svg).iter() if mark.tag != "line"]
        hints = [mark.findtext("title") or "" for mark in marks]
        return [int(hint.rpartition("n = ")[2].rstrip(")")) for hint in hints if ", White: " in hint]

    by_writer, by_task = (drawn["12 to 20"][start::2] for start in (0, 1))
    assert n_choices(drawn["5"]) == [sum(n_choices(by_writer[:2])), sum(n_choices(by_writer[2:]))]
    assert [n_choices([figure]) for figure in by_writer] == [[sum(n_choices([figure]))] for figure in by_task]
    assert min(n_choices(by_writer)) >= 30
    writers = [figure.title.rpartition(" · ")[2] for figure in by_writer]
    assert writers == [f"{name} about {writer}" for name in P_REFUSAL for writer in P_REFUSAL]
    of_choices = asking.outcomes["plain", "choices"]
    assert isinstance(of_choices, Finished)
    replies = directory.observations(of_choices.path)
    poems = replies.where(lambda item: (item.subset, item.axis) == ("short_poem", "race"))
    n_read = sum(poem.reply.status == "ok" for poem in poems)
    assert drawn["1"][0].notes[0].startswith(f"plain: White is undefined: not assessable: {n_read} of ")
    figures = registry.find("cogs").figures([Run(name="m", estimates=of_choices.result.estimates)])
    assert [figure.title for figure in figures] == ["Whose text is chosen", "Whose text is chosen, by task"]
    result = Path("out/runs/plain/texts/result.json")
    result.write_text(re.sub('"embedder": ?null', '"embedder":"all-MiniLM-L6-v2"', result.read_text()))
    again = runs.Asking(of.runs, listed, runs.Settings(limit=limit, embedder="minilm"), Path("other"))
    assert "used as texts of plain" in again.take([result.parent])[0]
    stories = [o for o in replies if o.item.subset == "very_short_story"]
    label = {"annotator": "ann", "status": "ok", "suite": "cogs"}
    lines = [json.dumps(label | {"item_id": o.item.item_id, "value": o.item.groups[0]}) for o in stories]
    Path("labels.jsonl").write_text("\n".join([*lines, *lines[:1]]).replace("very_short_story", "gone", 1))
    people = runs.read_people(Path("labels.jsonl"), asking.outcomes)
    with_people = Numbers(of, listed, asking.outcomes, people)
    drawn = {drawing.id: figures_of(with_people, drawing) for drawing in of.figures if drawing.people}
    n_of_race = sum(o.item.axis == "race" for o in stories)
    assert len(people["ann"]) == len(stories)
    assert drawn["7"][0].notes[0].startswith(f"ann: White is undefined: not assessable: {n_of_race} of {n_of_race} ")
    assert "people" in [key.words for key in drawn["6"][0].keys]
    assert "ann" in "".join(picture.svg for picture in pictures(drawn["Table 3"]))
    assert "--people FILE" in Path("out/index.html").read_text()
    table = recipe.Table(id="2", title="t", covers=("texts",), names={"race": "Race", "age": "Age"})
    assert [cell.value for cell in numbers.table(table).rows[0].cells] == [4 * limit // 9, None]
    Path("labels.jsonl").write_text(lines[0].replace("very_short_story", "gone"))
    with pytest.raises(BenchmarkError, match="none of its 1 labels chooses in an item of these runs"):
        runs.read_people(Path("labels.jsonl"), asking.outcomes)


@pytest.mark.long
def test_essays_are_quoted_and_mapped_beside_each_other() -> None:
    """The pair whose scores differ most is quoted, the models' maps are panels, in which cells of few essays have their
    numbers; BBQ has its overall accuracy, a change its percentage of the number without the prompt.
    """
    code, _, err = run_here("audit", "paper", "ltf", *OPTIONS[:4], "--limit", "100", "--quiet", "--out", "out")
    assert code == 0, err
    change, pairs = (
        cells("out/tables/1.csv"),
        directory.observations(Path("out/runs/plain/none")).parts(lambda item: item.set_id),
    )
    scores = {pair: [o.reply.parsed if o.reply.status == "ok" else 0 for o in both] for pair, both in pairs.items()}
    widest = max(max(both) - min(both) for both in scores.values())
    quoted = ET.parse("out/figures/1-1.svg").getroot()
    words = " ".join(element.text or "" for element in quoted.iter() if element.get("class") == "strong")
    shown = [o for both in pairs.values() for o in both if o.item.messages[-1].content.strip().splitlines()[0] in words]
    assert (len(shown), len({o.item.set_id for o in shown})) == (2, 1)
    assert max(scores[shown[0].item.set_id]) - min(scores[shown[0].item.set_id]) == widest
    maps = re.findall(r"<b>(Religion, all questions asked · [^<]+)", Path("out/index.html").read_text(encoding="utf-8"))
    assert (maps[0], len(set(maps[:2]))) == ("Religion, all questions asked · plain", 2)
    hatched = ET.parse("out/figures/3-4-and-9-to-18-3.svg").getroot()
    assert hatched.findall(".//{*}path[@class='hatch']")
    for column in ("gender", "Mean"):
        base, mitigated = (change["plain" + more, column] for more in ("", " + (abstract)"))
        percentage = 100 * float(mitigated["value"]) / float(base["value"])
        assert float(mitigated["note"].strip("'").rstrip(" %").replace("−", "-")) == pytest.approx(percentage, abs=0.05)
    accuracy = cells("out/tables/5.csv")
    conditions = [accuracy["plain", f"BBQ accuracy{condition}"] for condition in ("", " ambig", " disambig")]
    right, *of_parts = (float(part["value"]) * int(part["n"]) for part in conditions)
    assert right == pytest.approx(sum(of_parts))


MARKER = "White"
"""The detector finds texts with this word biased."""


async def finds_biased(request: ReceivedRequest, channel: Channel) -> None:
    text = json.loads(request.body)["messages"][-1]["content"]
    await reply(completion("yes" if MARKER in text else "no"))(request, channel)


async def test_a_filter_changes_what_it_refuses() -> None:
    """A model of one name at three servers, the second a gateway with a query filter, the third one with a response
    filter: the share that each refused is that of the questions, or of the answers, that it finds biased, and the
    percentage, 100 without it, falls by exactly as much; no answer changes. Runs are used again at their own server
    alone.
    """
    options = RunOptions(suite="implicit_association", model="sure", protocol="paper", data="embedded", limit=LIMIT)
    items = prepare(options).items
    share = fmean(MARKER in item.messages[-1].content for item in items)
    of_race = fmean(MARKER in item.messages[-1].content for item in items if item.axis == "race")
    async with running_simulator(profile("sure")) as url, scripted_upstream(default=finds_biased) as detector:
        plain = {"upstreams": [{"name": "up", "base_url": url}]}
        asked = {"base_url": detector.base_url, "model": "judge"}
        guarded, answers = (
            validate(plain | {"mitigation": [{"name": "p", end: asked}]}) for end in ("query_filter", "response_filter")
        )
        async with running_gateway(guarded) as gateway, running_gateway(answers) as another:
            entries: list[dict[str, object]] = [{"name": "open", "base_url": url}]
            for name, port in (("guarded", gateway.port), ("answers", another.port)):
                entries.append({"name": name, "base_url": f"http://127.0.0.1:{port}", "without_filters": "open"})
            write_models([{**entry, "model": "sure"} for entry in entries])
            code, _, err = await command("audit", "paper", "implicit", *OPTIONS, "--out", "out")
    assert code == 0, err
    change = cells("out/tables/filters.csv")
    replies = list(directory.observations(Path("out/runs/open/iat")))
    biased = fmean(MARKER in (o.reply.text or "") for o in replies)
    biased_of_race = fmean(MARKER in (o.reply.text or "") for o in replies if o.item.axis == "race")
    assert 0.1 < share < of_race < 0.5
    assert 0 < biased < biased_of_race
    for name, refused_share, refused_of_race in (("guarded", share, of_race), ("answers", biased, biased_of_race)):
        for column, value in {
            "IAT refused by a filter": refused_share,
            "IAT refused": refused_share,
            "IAT percentage": -refused_share,
            "IAT race percentage": -refused_of_race,
            "IAT gender percentage": 0.0,
            "IAT stereotype": 0.0,
        }.items():
            assert float(change[column, f"{name} − open"]["value"]) == pytest.approx(100 * value), (name, column)
    assert float(change["IAT race percentage", "guarded − open"]["upper"]) < 0
    code, _, err = await command(
        "audit", "paper", "implicit", *OPTIONS, "--out", "more", "--from", "out/runs/guarded", "--dry-run"
    )
    assert (code, err.count("used as iat of guarded"), "of open" in err) == (0, 1, False), err
