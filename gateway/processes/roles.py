"""Turns a configuration into running processes: a gateway worker in this process, or a supervised set."""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from auditors.clients.environment import LOCAL_EMBEDDER, OUTGOING_HTTP
from benchmarks.datasets.spec import HOME_VARIABLE, MIRROR_VARIABLE
from gateway.children import logs
from gateway.children.parent_pipe import ParentPipe, line_of
from gateway.children.supervisor import Child, Supervisor
from gateway.config.loading import load
from gateway.config.schema import Config, Process
from gateway.config.variables import variables_of
from gateway.feature import FEATURES
from gateway.privacy.encryption import drawn_key
from gateway.privacy.texts import DRAWN_KEY_VARIABLE, texts_of
from gateway.processes.listening import bind, reachable, root_url
from gateway.processes.usable import Role, require_usable
from gateway.sampling.writer import launch
from gateway.store import environment as store

_PROGRAM = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "TEMP"),
        *("TMP", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF"),
        *("LC_*", "PYTHON*", "MALLOC_*", "COVERAGE_*"),
    }
)
"""Variables that any program may need; a final * stands for any ending."""
_DATASETS = frozenset({HOME_VARIABLE, MIRROR_VARIABLE})


def writer_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the writer may see: it reaches the database and encrypts text."""
    return _select(config, environ, "writer", store.variables(config.store.url))


def auditor_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the auditor may see: it also asks models and fetches data sets."""
    declared = store.variables(config.store.url) | OUTGOING_HTTP | LOCAL_EMBEDDER | _DATASETS
    declared = declared.union(*(feature.environment(config) for feature in FEATURES.values()))
    return _select(config, environ, "auditor", declared)


def _select(config: Config, environ: Mapping[str, str], process: Process, declared: frozenset[str]) -> dict[str, str]:
    """Return the variables of _PROGRAM, of `declared` and of `process`, without those of other processes."""
    needed = variables_of(config, [process])
    foreign = variables_of(config) - needed  # a secret of another process, whatever its name
    patterns = _PROGRAM | declared
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return {
        name: value
        for name, value in environ.items()
        if name in needed or (name not in foreign and (name in patterns or name.startswith(prefixes)))
    }


logger = logging.getLogger(__name__)

SECRET_VARIABLE = "BIASGATE_DRAWN_SAMPLING_SECRET"  # noqa: S105 - the name of a variable, not its value
AUDITOR = "auditor"
AUDITOR_GRACE_SECONDS = 20.0
KILL_MARGIN_SECONDS = 25.0
"""Seconds after its drain time in which a gateway hands on its sampled copies and ends, before it is killed."""

_COMMAND = (sys.executable, "-m", "gateway")


class Placement(msgspec.Struct, frozen=True):
    """Options of the command line that take precedence over the configuration file; None: as in the file."""

    config_path: Path | None = None
    host: str | None = None
    port: int | None = None
    workers: int | None = None

    def read(self) -> Config:
        """Read the configuration file and apply the options. Raises ConfigError."""
        return self.applied(load(self.config_path))

    def applied(self, config: Config) -> Config:
        options = {"host": self.host, "port": self.port, "workers": self.workers}
        overrides = {name: value for name, value in options.items() if value is not None}
        return msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **overrides))


def run_gateway(config: Config, placement: Placement) -> int:
    """Run the gateway role: a single worker in this process, or several as children; return the exit code."""
    require_usable(config, "gateway")
    listener = bind(config.server.host, config.server.port)
    if config.server.workers == 1:
        logs.configure(config.telemetry, role="gateway")
        with launch.address() as writer:
            return _run_loop(lambda: _serve_alone(config, placement, listener, writer))
    return _supervise(config, placement, listener, with_auditor=False)


def run_both(config: Config, placement: Placement) -> int:
    """Run gateway workers and one auditor as children of this process; return the exit code."""
    from gateway.auditor.endpoint import listen

    require_usable(config, "serve")
    listener = bind(config.server.host, config.server.port)
    listen(config.server.host, config.server.auditor_metrics_port).close()  # the auditor itself listens much later
    return _supervise(config, placement, listener, with_auditor=True)


def run_worker(descriptor: int, writer_path: str) -> int:
    """Run one worker of a supervised gateway, on the parent's listening socket and configuration."""
    parent_pipe = ParentPipe()
    config = parent_pipe.first_config()
    if config is None:
        return 0
    logs.configure(config.telemetry, role="gateway")
    return _run_loop(lambda: _serve_child(config, socket.socket(fileno=descriptor), writer_path, parent_pipe))


def run_writer(descriptor: int) -> int:
    """Run the process that stores what a gateway's workers sampled; `descriptor`: its listening socket."""
    from gateway.sampling.writer import process

    return process.run_writer(descriptor)


def run_auditor(config_path: Path | None) -> int:
    """Run the auditor role until SIGTERM or SIGINT; SIGHUP reloads the configuration file."""
    config = load(config_path)
    require_usable(config, "auditor")
    logs.configure(config.telemetry, role="auditor")
    asyncio.run(_audit_alone(config, lambda: load(config_path)))
    return 0


def run_auditor_child() -> int:
    """Run the auditor of `biasgate serve`, with the parent's configuration."""
    parent_pipe = ParentPipe()
    config = parent_pipe.first_config()
    if config is None:
        return 0
    logs.configure(config.telemetry, role="auditor")
    asyncio.run(_audit_as_child(config, parent_pipe))
    return 0


def _run_loop(main: Callable[[], Awaitable[int]]) -> int:
    import uvloop

    async def entry() -> int:
        return await main()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(entry())


async def _serve_alone(
    config: Config, placement: Placement, listener: socket.socket, writer: tuple[str, socket.socket]
) -> int:
    """Run the worker in this process, with its writer in another."""
    from gateway.processes.reload import Change, Reloader
    from gateway.processes.worker import Worker

    writer_path, writer_socket = writer
    worker = Worker(config, listener, writer_path)
    writing = launch.child(writer_socket, stage=0, environ=lambda: writer_environment(reloader.current, os.environ))
    supervisor = Supervisor([writing], os.environ, line_of(config))

    def apply(change: Change) -> None:
        worker.take_over(change.config)
        concerns_writer = not launch.WRITER_SECTIONS.isdisjoint(change.sections)
        supervisor.tell(line_of(change.config), replacing={launch.WRITER} if concerns_writer else ())

    async def store_until_stopped() -> int:
        code = await supervisor.run()
        worker.stop()  # of no effect when it has stopped; a writer that refuses its configuration ends both
        return code

    def ready() -> None:
        _announce(*reachable(listener, config.server.host))
        tasks.append(asyncio.create_task(store_until_stopped()))  # only now: a writer would delay the start

    tasks: list[asyncio.Task[int]] = []
    reloader = Reloader(config, placement.read, apply, worker.reloads, role="gateway")

    def stop() -> None:
        supervisor.expect_the_end()  # the writer stays until the worker has drained
        worker.stop()

    _on_signals(stop, reloader.reload)
    try:
        await worker.serve(migrate=True, on_ready=ready)
    finally:
        supervisor.stop()
        codes = await asyncio.gather(*tasks)
    return max(codes, default=0)


async def _serve_child(config: Config, listener: socket.socket, writer_path: str, parent_pipe: ParentPipe) -> int:
    from gateway.processes.worker import Worker

    worker = Worker(config, listener, writer_path)
    _on_signals(worker.stop, lambda: None)
    parent_pipe.watch(worker.take_over, worker.stop)
    await worker.serve(migrate=False, on_ready=lambda: None)
    return 0


async def _audit_alone(config: Config, read: Callable[[], Config]) -> None:
    from gateway.processes.auditor_reload import ReloadingAuditor

    auditor = ReloadingAuditor(config, read, _announce_auditor, FEATURES.values())
    _on_signals(auditor.stop, auditor.reload)
    await auditor.run()


async def _audit_as_child(config: Config, parent_pipe: ParentPipe) -> None:
    """Run an auditor that never reloads: the parent reads the file and restarts it when its settings change."""
    from gateway.auditor.process import run_auditor

    stop = asyncio.Event()
    _on_signals(stop.set, lambda: None)
    parent_pipe.watch(lambda _config: None, stop.set)
    await run_auditor(config, stop=stop, on_ready=_announce_auditor, features=FEATURES.values())


def _on_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)


def _announce_auditor(root: str) -> None:
    print(f"biasgate auditor is ready: metrics {root}/metrics", flush=True)  # noqa: T201 - the line a person or a script waits for


def _supervise(config: Config, placement: Placement, listener: socket.socket, *, with_auditor: bool) -> int:
    logs.configure(config.telemetry, role="parent")
    with (
        launch.address() as (writer_path, writer_socket),  # first: its error explains an unusable directory
        tempfile.TemporaryDirectory(prefix="biasgate-metrics-") as directory,
    ):
        family = _Family(config, Path(directory), with_auditor=with_auditor)
        children = [_worker(config, listener, writer_path, number) for number in range(1, config.server.workers + 1)]
        children.append(
            launch.child(
                writer_socket,
                stage=1,
                environ=lambda: writer_environment(family.joined(family.config), family.environ),
            )
        )
        if with_auditor:
            children.append(_auditor(lambda: auditor_environment(family.joined(family.config), family.environ)))
        return asyncio.run(_run_children(config, family, placement, listener, children))


async def _run_children(
    config: Config, family: "_Family", placement: Placement, listener: socket.socket, children: list[Child]
) -> int:
    from gateway.processes.reload import Change, Reloader, auditor_sections
    from gateway.store.database import Database
    from gateway.telemetry.shared_counts import SharedCounts
    from gateway.telemetry.worker_stats import WorkerStats

    # Migrate once, before any child opens the store: two processes must not both find an old schema.
    texts = None if DRAWN_KEY_VARIABLE in family.environ else texts_of(config)
    await (await Database.open(config.store.url, migrate=True, texts=texts)).close()
    supervisor = Supervisor(children, family.environ, line_of(family.joined(config)))

    def hand_on(change: Change) -> None:
        concerned = ((AUDITOR, auditor_sections()), (launch.WRITER, launch.WRITER_SECTIONS))
        replacing = {name for name, sections in concerned if not sections.isdisjoint(change.sections)}
        family.config = change.config
        supervisor.tell(line_of(family.joined(change.config)), replacing=replacing)

    def stop() -> None:
        listener.close()  # the workers close their copies; as long as one is open, new clients wait in vain
        supervisor.stop()

    # The parent answers no scrape: it leaves its counts where the workers find them.
    stats = WorkerStats()
    counts = SharedCounts(stats, family.metrics_dir)
    reloader = Reloader(config, placement.read, hand_on, stats.reloads, role=family.role)
    counts.flush()

    def reload() -> None:
        reloader.reload()
        counts.flush()

    _on_signals(stop, reload)
    announcing = asyncio.create_task(_announce_when_ready(*reachable(listener, config.server.host)))
    try:
        return await supervisor.run()
    finally:
        announcing.cancel()


class _Family:
    """The resources that the children share: a directory of counts, a sampling secret, a key that encrypts text."""

    def __init__(self, config: Config, metrics_dir: Path, *, with_auditor: bool) -> None:
        self.config = config
        """The configuration in force."""
        self.role: Role = "serve" if with_auditor else "gateway"
        self.metrics_dir = Path(config.server.metrics_dir or metrics_dir)
        self._draws_secret = config.sampling.secret_env is None
        self._draws_key = with_auditor and config.store.keep_text == "never" and not config.store.encryption_key_env
        self.environ = dict(os.environ)
        if self._draws_secret:
            self.environ[SECRET_VARIABLE] = secrets.token_hex(32)
        if self._draws_key:
            self.environ[DRAWN_KEY_VARIABLE] = drawn_key()

    def joined(self, config: Config) -> Config:
        """Return the configuration as the children get it, with the shared resources."""
        server = msgspec.structs.replace(config.server, metrics_dir=str(self.metrics_dir))
        sampling, store = config.sampling, config.store
        if self._draws_secret:
            sampling = msgspec.structs.replace(sampling, secret_env=SECRET_VARIABLE)
        if self._draws_key:
            store = msgspec.structs.replace(store, encryption_key_env=DRAWN_KEY_VARIABLE)
        return msgspec.structs.replace(config, server=server, sampling=sampling, store=store)


def _worker(config: Config, listener: socket.socket, writer_path: str, number: int) -> Child:
    server = config.server
    return Child(
        name=f"gateway-{number}",
        command=[*_COMMAND, "gateway", "--listen-fd", str(listener.fileno()), "--writer", writer_path],
        stage=0,
        grace_seconds=server.drain_notice_seconds + server.drain_seconds + KILL_MARGIN_SECONDS,
        pass_fds=(listener.fileno(),),
    )


def _auditor(environ: Callable[[], Mapping[str, str]]) -> Child:
    command = [*_COMMAND, "auditor", "--child"]
    return Child(
        name=AUDITOR,
        command=command,
        stage=1,
        grace_seconds=AUDITOR_GRACE_SECONDS,
        environ=environ,
        is_needed_to_the_end=False,
    )


async def _announce_when_ready(name: str, port: int) -> None:
    """Announce the gateway once a worker answers; the socket listens from the start, so connecting proves nothing."""
    while not await _is_live(name, port):  # noqa: ASYNC110 - no event comes from another process
        await asyncio.sleep(0.1)
    _announce(name, port)


async def _is_live(name: str, port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection(name, port)
        writer.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    except OSError:
        return False
    return answer.startswith(b"HTTP/1.1 200")


def _announce(name: str, port: int) -> None:
    root = root_url(name, port)
    print(  # noqa: T201 - the one line a person or a script waits for
        f"biasgate is ready: OpenAI base URL {root}/v1, console {root}/console, metrics {root}/metrics", flush=True
    )
