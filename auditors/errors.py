"""The errors that biasgate raises on purpose. The message of each is a line: what is wrong, which value, what to do.

BiasgateError                  the command line prints its line and exits 2
├── GatewayError               gateway.errors: a configuration, the store, a request of the control plane, a command
│   ├── ConfigError, StoreError, ExportError, RequestError, NotFoundError, BusyError, ConflictError
│   └── those of features      an export that lost its lease, an identity file, labels, ...
├── BenchmarkError             benchmarks.errors: a suite, its data, a run or its files
│   └── DatasetError, ProfileError, ArchiveError, LogError
├── CompletionError            auditors.types: a served model or a judge that gave no answer; `kind` says how
├── EmbedderError              auditors.clients: an embedder that cannot be loaded or trusted
├── ReferenceSetError          auditors.judge_reference: a file that is not a reference set of this judge
└── biasgate.GatewayError      of the Python client: an answer of a gateway that is not a success

Errors outside this tree never leave the module or the call that their docstring names: a value that a reader cannot
take is a ValueError, a signal between two parts of a room is a class of that room.
"""


class BiasgateError(Exception):
    """Base of every error whose message is for the user."""
