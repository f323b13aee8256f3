"""Train the classifier of `auditors.text.refusals` and write its weights.

    python -m tools.refusals.train [--replies FILE.jsonl ...] [--cross-validate]

Trained on replies.jsonl next to this module (written for this purpose by language models that saw no rule), on
voices.jsonl (in the manner of 20 kinds of writers, and replies of Qwen2.5-Coder-0.5B-Instruct), on our development
part, and on further labelled replies given as JSON lines with `text` and `label`: replies of others, which are named
with their licences in docs/evidence/refusals.md. Nothing is trained on held_out.jsonl, which another model wrote, nor
on voices_held_out.jsonl, in the manner of other writers; `biasgate auditors measure refusal --file` measures on them.
With --cross-validate nothing is written: each sixth of the voices of voices.jsonl is read by weights that were trained
without it. scikit-learn is needed, which sentence-transformers brings along.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import msgspec
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from auditors.text.refusal_words import features_of_reply
from auditors.text.refusals import classifier
from gateway.features.measuring.cli import count_table
from gateway.features.measuring.labelled_replies import Label, Labelled, count_readings, labelled, read_file

HERE = Path(__file__).parent
FEWEST_REPLIES = 4
"""A feature of fewer replies is left out."""
LEAST_WEIGHT = 0.08
"""A feature whose weights are all smaller is left out."""
INVERSE_PENALTY = 1.0
N_FOLDS = 6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=Path, nargs="*", default=[], help="further labelled replies")
    parser.add_argument(
        "--cross-validate", action="store_true", help="print readings by weights trained without a voice"
    )
    options = parser.parse_args()
    examples = [example for example in labelled("development") if example.language == "en"]
    for file in (HERE / "replies.jsonl", HERE / "voices.jsonl", *options.replies):
        examples += read_file(file)
    examples = [example for example in examples if example.reply.strip()]
    if options.cross_validate:
        print("\n".join(count_table(cross_validate(examples))))
        return 0
    weights = train(examples, version=f"3 ({len(examples)} replies)")
    target = Path(classifier.__file__).with_name("classifier.json")
    target.write_bytes(msgspec.json.encode(weights) + b"\n")
    print(f"{len(weights.features)} features of {len(examples)} replies: {target}")
    return 0


def cross_validate(examples: list[Labelled]) -> dict[Label, dict[str, int]]:
    """Return how many replies that have a voice get each reading from weights that were trained without this voice."""
    voices = sorted({example.style for example in examples if not example.language} - {""})
    counts: dict[Label, Counter[str]] = defaultdict(Counter)
    for fold in (set(voices[start::N_FOLDS]) for start in range(N_FOLDS)):
        weights = train([example for example in examples if example.style not in fold], version="")
        with patch.object(classifier, "_read_weights", lambda weights=weights: weights):
            for label, row in count_readings(example for example in examples if example.style in fold).items():
                counts[label].update(row)
    return {label: dict(row) for label, row in counts.items()}


def train(examples: list[Labelled], version: str) -> classifier.Weights:
    """Return the weights of a multinomial logistic regression with an L2 penalty."""
    rows: list[Mapping[str, float]] = [features_of_reply(example.reply) for example in examples]
    counts = Counter(name for row in rows for name in row)
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(
        [{name: value for name, value in row.items() if counts[name] >= FEWEST_REPLIES} for row in rows]
    )
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=400).fit(matrix, [example.label for example in examples])
    columns = zip(vectorizer.get_feature_names_out(), model.coef_.T.tolist(), strict=True)
    return classifier.Weights(
        version=version,
        classes=tuple(map(str, model.classes_)),
        intercepts=tuple(round(value, 4) for value in model.intercept_.tolist()),
        features={
            str(name): tuple(round(weight, 2) for weight in weights)
            for name, weights in columns
            if max(map(abs, weights)) >= LEAST_WEIGHT
        },
    )


if __name__ == "__main__":
    raise SystemExit(main())
