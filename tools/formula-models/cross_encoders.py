"""Golden scores of whole texts: what the sentence-transformers library makes of a cross-encoder and of a classifier.

    python cross_encoders.py CROSS_ENCODER CLASSIFIER ../../test/golden/cross-encoders.json

The folders are those that test/support/encoder-folder.ts writes.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from sentence_transformers import CrossEncoder
from transformers import pipeline

QUERY = "the quick fox"
DOCUMENTS = ["the lazy dog", "the quick fox", "the quick brown fox jumps over the lazy dog", "Fox!", "an 'unaffable' fox, and more words than that"]


def main(ranker, classifier, path):
    scores = CrossEncoder(ranker).predict([(QUERY, document) for document in DOCUMENTS])
    raw = CrossEncoder(ranker).predict([(QUERY, document) for document in DOCUMENTS], activation_fn=lambda logits: logits)
    classes = pipeline("text-classification", classifier, top_k=None)(DOCUMENTS)
    rounded = lambda values: [round(float(value), 7) for value in values]
    made = {
        "sentence-transformers": version("sentence-transformers"),
        "query": QUERY,
        "documents": DOCUMENTS,
        "scores": rounded(scores),
        "raw": rounded(raw),
        "classes": [{one["label"]: round(one["score"], 7) for one in labels} for labels in classes],
    }
    Path(path).write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
