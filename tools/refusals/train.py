"""Train the classifier of `auditors.text.refusals` and write its weights.

    python -m tools.refusals.train [--replies FILE.jsonl ...]

Trained on replies.jsonl next to this module (written for this purpose by language models that saw no rule), on our
development part, and on further labelled replies given as JSON lines with `text` and `label`. Nothing is trained on
held_out.jsonl, which another model wrote; `biasgate auditors measure refusal --file` measures on it. scikit-learn is
needed, which sentence-transformers brings along.
"""

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from auditors.text.refusal_words import features_of_reply
from auditors.text.refusals import classifier
from gateway.features.measuring.labelled_replies import Labelled, labelled, read_file

HERE = Path(__file__).parent
FEWEST_REPLIES = 4
"""A feature of fewer replies is left out."""
LEAST_WEIGHT = 0.04
"""A feature whose weights are all smaller is left out."""
INVERSE_PENALTY = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=Path, nargs="*", default=[], help="further labelled replies")
    options = parser.parse_args()
    examples = [example for example in labelled("development") if example.language == "en"]
    for file in (HERE / "replies.jsonl", *options.replies):
        examples += read_file(file)
    examples = [example for example in examples if example.reply.strip()]
    weights = train(examples, version=f"1 ({len(examples)} replies)")
    target = Path(classifier.__file__).with_name("classifier.json")
    target.write_bytes(msgspec.json.encode(weights) + b"\n")
    print(f"{len(weights.features)} features of {len(examples)} replies: {target}")
    return 0


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
