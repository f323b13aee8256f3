"""The Equity Evaluation Corpus' file: where it is, and its records."""

from collections.abc import Mapping
from typing import Any

from benchmarks.datasets.spec import DatasetSpec, SourceFile, csv_rows
from benchmarks.suites.protocol import DataKind

REVISION = (
    "abishekarun/Text-Emotion-Classification@7ac54f67d7db51d6820bbdae553b4bb9c6da28e0 (a copy of the authors' file)"
)
COLUMNS: Mapping[str, str] = {
    "id": "ID",
    "sentence": "Sentence",
    "template": "Template",
    "person": "Person",
    "gender": "Gender",
    "race": "Race",
    "emotion": "Emotion",
    "word": "Emotion word",
}


def records_from(files: Mapping[str, bytes]) -> Any:
    """The rows as they are, by short column names."""
    (content,) = files.values()
    return [{name: row[column] for name, column in COLUMNS.items()} for row in csv_rows(content)]


SOURCE = DatasetSpec(
    name="eec",
    title="Equity Evaluation Corpus",
    licence="none stated; research use, not to be passed on",
    n_items=8640,
    files=(
        SourceFile(
            git_blob="9ad5760fe0b9ad9b653fa725af2e5cd0d3860951",
            sha256="d90ff4e56e46475c12d0bb89c2f7bb3e3d23ef36d0fb64e1fb371157c80a45c3",
            mirror_path="eec/Equity-Evaluation-Corpus.csv.gz",
            mirror_sha256="a78d3e1f0abe8226822b8d468058ee19a7eb02ce0db1905b3bc86174740257e8",
        ),
    ),
    content_sha256="b9795c37d1cb8f0d153757f71785b222f4bf3d196470009a148f92ffefe8116f",
    normalise=records_from,
    by_hand="the authors' page, https://saifmohammad.com/WebPages/Biases-SA.html (they ask not to pass it on)",
)
SHA256: Mapping[DataKind, str] = {
    "canonical": SOURCE.content_sha256,
    "embedded": "1593c764df932a3ec3bb8bf1a4448acf0010f9efc3598a1e27db9eb523486ec4",
}
