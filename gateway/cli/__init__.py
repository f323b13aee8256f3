"""The subcommands of `biasgate`, one module each, and their one-line summaries.

A module has `HELP` (shown under --help, with an example), `add_arguments(parser)` and `run(arguments)`, which returns
the exit code.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    module: str
    summary: str


VERBS = {
    "serve": Verb("serve", "run the gateway and the auditor on one machine"),
    "gateway": Verb("serve_gateway", "run the gateway role only"),
    "auditor": Verb("serve_auditor", "run the auditor role only"),
    "simulate": Verb("simulate", "run the planted-bias model server"),
    "demo": Verb("demo", "show the whole system on a simulated model"),
    "suites": Verb("suites", "list the benchmark suites, or write the items of one"),
    "datasets": Verb("datasets", "list, fetch and verify benchmark data"),
    "audit": Verb("audit", "run, score, compare, gate and report audits"),
    "canary": Verb("canary", "compare a new model with the one that serves, and wait for a verdict"),
    "ingest": Verb("ingest", "send a file of exchanges that something else recorded to a running gateway"),
    "export": Verb("export", "write measurements and runs as Parquet files, as far as they are new"),
    "exchanges": Verb("exchanges", "delete stored exchanges, or show who accessed them"),
    "auditors": Verb("auditors", "measure how often a live auditor is wrong about labelled replies"),
    "annotate": Verb("annotate", "have people label replies: draw tasks, serve them to raters, take labels out"),
    "judge": Verb("judge", "compare a judge with people's labels"),
    "mitigate": Verb("mitigate", "fine-tune a model against bias (REGARD-FT), or train a filter"),
    "plan": Verb("plan", "what traffic of a given size needs, and what is full first"),
    "config": Verb("config", "check a configuration and print what holds"),
    "store": Verb("store", "upgrade the store's schema, as every start does"),
    "deploy": Verb("deploy", "write the files to run it with: compose, systemd, Helm, alerts, dashboards"),
}
