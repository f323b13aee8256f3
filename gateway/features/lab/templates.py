"""`biasgate audit templates`: proposes templates for LTF-TEST by a model and filters them by a judge."""

import argparse
import asyncio
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from auditors.clients.judge_client import JudgeClient, JudgeQuestion, UnreadableError, prompt_sha256
from auditors.text.own_identities import Name
from auditors.text.reply_object import NoObjectError, read_reply_object
from auditors.types import CompletionError, CompletionRequest, Message
from benchmarks.errors import BenchmarkError
from benchmarks.suites.ltf_test.data import PAPER_AXES, TOPICS
from benchmarks.suites.ltf_test.own_templates import FILTER, FORM, PROPOSAL, Candidate, Verdict
from gateway.cli.actions import write_file
from gateway.cli.audit.jobs import split
from gateway.cli.audit.servers import asking

HELP = """\
FILE gets a JSON object a line: a template, and whether the judge finds it factual (then it is rejected) and one-sided
(else it is). Decide on each, "accept" or "reject": audit run --suite ltf_test --own FILE asks what is accepted.

Example:
  biasgate audit templates --topics cooking,home_care --model m --base-url http://127.0.0.1:8000 --judge-model j \\
    --out templates.jsonl
"""
MOST_TEMPLATES = 100
"""Most templates of a topic: a reply of 2,048 tokens has room for as many."""
_OF_PAPER = frozenset(template for topic in TOPICS for template in topic.templates)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topics", required=True, metavar="T[,T...]", help="lower case, with underscores")
    parser.add_argument("--n", type=int, default=10, metavar="N", help="templates of each topic (default 10)")
    for who, default in (("", "required"), ("judge-", "default: the model's")):
        parser.add_argument(f"--{who}model", required=True, metavar="M")
        parser.add_argument(f"--{who}base-url", required=not who, metavar="URL", help=f"its server ({default})")
        parser.add_argument(f"--{who}api-key-env", metavar="VAR", help="environment variable with the server's key")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="a new file")


def run(arguments: argparse.Namespace) -> int:
    if arguments.out.exists():
        raise BenchmarkError(f"--out {arguments.out}: is there, with people's decisions: choose another")
    if not 1 <= arguments.n <= MOST_TEMPLATES:
        raise BenchmarkError(f"--n {arguments.n}: choose 1 to {MOST_TEMPLATES}")
    try:
        topics = msgspec.convert(split(arguments.topics), list[Name])
    except msgspec.ValidationError as exc:
        raise BenchmarkError(f'--topics {arguments.topics}: write lower-case letters and "_", as home_care') from exc
    try:
        candidates = asyncio.run(_propose(arguments, topics))
    except CompletionError as exc:
        raise BenchmarkError(f"no templates of --topics {arguments.topics}: {exc}") from exc
    if not candidates:
        raise BenchmarkError(f'"{arguments.model}" wrote no usable template of "{arguments.topics}": ask another')
    write_file(arguments.out, msgspec.json.Encoder().encode_lines(candidates))
    n_rejected = sum(candidate.decision == "reject" for candidate in candidates)
    n_unread = sum(candidate.verdict is None for candidate in candidates)
    print(f"{arguments.out}: {len(candidates)} templates, {n_rejected} rejected, {n_unread} without a verdict: decide")
    return 0


async def _propose(arguments: argparse.Namespace, topics: Sequence[str]) -> list[Candidate]:
    server = arguments.base_url, arguments.api_key_env
    judging = arguments.judge_base_url or server[0], arguments.judge_api_key_env or server[1]
    async with asking(*server, 1) as writer, asking(*judging, 8) as completer:
        judge = JudgeClient(completer, arguments.judge_model)
        candidates: list[Candidate] = []
        for topic in topics:
            messages = (Message("user", PROPOSAL.format(n=arguments.n, topic=topic.replace("_", " "))),)
            reply = await writer.complete(CompletionRequest(model=arguments.model, messages=messages, max_tokens=2048))
            written = dict.fromkeys(re.findall(FORM, reply.text or "")).keys() - _OF_PAPER
            candidates += await asyncio.gather(*map(partial(_filter, judge, topic, arguments.model), sorted(written)))
        return candidates


async def _filter(judge: JudgeClient, topic: str, writer: str, template: str) -> Candidate:
    messages = (Message("user", FILTER.format(question=template, axes=", ".join(PAPER_AXES))),)
    question = JudgeQuestion(messages=messages, prompt_sha256=prompt_sha256(PROPOSAL, FILTER))
    verdict = (await judge.ask(lambda: question, _read_verdict)).value
    return Candidate(
        decision="reject" if verdict is not None and (verdict.factual or not verdict.one_sided) else "",
        topic=topic,
        template=template,
        verdict=verdict,
        writer=writer,
        judge=judge.model,
        prompts_sha256=question.prompt_sha256,
    )


def _read_verdict(text: str | None) -> Verdict:
    try:
        return msgspec.convert(read_reply_object(text, "factual", "one_sided").fields, Verdict, strict=False)
    except (NoObjectError, msgspec.ValidationError) as exc:
        raise UnreadableError(str(exc)) from exc
