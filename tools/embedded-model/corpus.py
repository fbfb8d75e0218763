"""The training corpus: documents from the small world, tokenised and packed.

A token is stored in 16 bits; the top bit says that the assistant spoke it.
"""

import multiprocessing
import random

import numpy

from chat import BLANK, END, pieces
from tokenizer import load
from world import arithmetic, calling, conversation, draw, extraction, facts, followup, greeting, lists, other, rewriting, story

SPOKEN = 0x8000
SHARES = {  # of documents
    arithmetic.sample: 28, facts.sample: 11, greeting.sample: 5, other.sample: 10, rewriting.copied: 9, rewriting.sample: 14, lists.sample: 8,
    extraction.sample: 12, calling.sample: 13, calling.sample_result: 5, story.sample: 5, followup.sample: 10, conversation.sample: 5,
}
TOOL_FREE = {arithmetic.sample, facts.sample, greeting.sample, rewriting.copied, lists.sample, story.sample}  # needs no tool even where there are some
TALES = 0.015  # share of documents that are bare stories, so that plain completion works as well


def document(rng):
    """One document as (text, learn) pieces."""
    if rng.random() < TALES:
        # A bare story stops with the same token as an answer: one stop token for every use.
        return [(story.tell(rng, *story.scene(rng)) + END, True)]
    sample = rng.choices(list(SHARES), weights=SHARES.values())[0]
    exchange = draw(sample, rng)
    if sample in TOOL_FREE and rng.random() < 0.06:
        exchange.tools = [made[0] for made in calling.toolbox(rng)]
    conversation.with_system(rng, exchange)
    return list(pieces(exchange.messages, exchange.tools))


def shard(job):
    """Tokens of about `size` documents, each ended by the blank token."""
    seed, size = job
    rng = random.Random(f"corpus {seed}")
    tokenizer = load()
    blank = tokenizer.token_to_id(BLANK)
    out = []
    for _ in range(size // 500):
        texts = [document(rng) for _ in range(500)]
        flat = [piece for text in texts for piece in text]
        encoded = iter(tokenizer.encode_batch_fast([text for text, _ in flat], add_special_tokens=False))
        for text in texts:
            for _, learn in text:
                ids = numpy.array(next(encoded).ids, dtype=numpy.uint16)
                out.append(ids | SPOKEN if learn else ids)
            out.append(numpy.array([blank], dtype=numpy.uint16))
    return numpy.concatenate(out)


def build(documents, seed, workers, size=5000):
    """All tokens in one array. Every shard has its own seed, so the number of workers changes nothing."""
    size = min(size, documents)
    jobs = [(f"{seed}.{i}", size) for i in range(max(1, documents // size))]
    if workers <= 1:
        return numpy.concatenate([shard(job) for job in jobs])
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return numpy.concatenate(pool.map(shard, jobs, chunksize=1))


def pack(tokens, blank, length):
    """Rows of `length + 1` tokens, each starting at the start of a document.

    What is cut off at the end of a row is repeated whole in the next one, unless it is longer than a row.
    """
    ends = numpy.flatnonzero(tokens == blank) + 1
    starts, position = [], 0
    while position + length + 1 <= len(tokens):
        starts.append(position)
        limit = position + length + 1
        last = ends[numpy.searchsorted(ends, limit, side="right") - 1] if ends[0] <= limit else 0
        position = last if last > position else limit
    return numpy.array(starts, dtype=numpy.int64)


def texts(documents, seed):
    """Plain text of some documents, for training the tokenizer."""
    rng = random.Random(f"texts {seed}")
    for _ in range(documents):
        yield "".join(text for text, _ in document(rng))
