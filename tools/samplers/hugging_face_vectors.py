"""Which tokens Hugging Face's logits processors forbid, for src/sampling/hugging-face.vectors.json.

    pip install transformers torch
    python3 tools/samplers/hugging_face_vectors.py > src/sampling/hugging-face.vectors.json
"""

import json
from importlib.metadata import version

import torch
from transformers import NoBadWordsLogitsProcessor, PrefixConstrainedLogitsProcessor

VOCABULARY = 24


def forbidden(processor, answer):
    scores = processor(torch.tensor([answer], dtype=torch.long), torch.zeros(1, VOCABULARY))
    return [token for token, score in enumerate(scores[0].tolist()) if score == float("-inf")]


words = [[7], [3, 4], [3, 4, 5], [9, 9, 2], [4, 6]]
answers = [[1], [3], [3, 4], [4], [9, 9], [9, 9, 9], [5, 3, 4], [3, 4, 5], [9, 2, 9]]
bad = NoBadWordsLogitsProcessor(words, eos_token_id=0)
allowed = [2, 3, 5, 11, 23]
only = PrefixConstrainedLogitsProcessor(lambda batch, ids: allowed, 1)
print(
    json.dumps(
        {
            "source": f"transformers {version('transformers')}; tools/samplers/hugging_face_vectors.py",
            "vocabSize": VOCABULARY,
            "badWords": words,
            "cases": [{"answer": answer, "forbidden": forbidden(bad, answer)} for answer in answers],
            "allowed": allowed,
            "notAllowed": forbidden(only, [1]),
        }
    )
)
