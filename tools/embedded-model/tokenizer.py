"""Byte-level BPE with digits kept apart: the pre-tokenizer that GGUF files call `smollm`."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from chat import BLANK, END, START

FILE = Path(__file__).parent / "tokenizer.json"
SIZE = 4096
SPECIAL = [BLANK, START, END]  # never part of ordinary text
MARKS = ["<tool_call>", "</tool_call>"]  # ordinary text, but one token each


def load():
    return Tokenizer.from_file(str(FILE))


def train(texts, size=SIZE):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(MARKS), special_tokens=SPECIAL, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False, special=False) for mark in MARKS])
    return tokenizer


if __name__ == "__main__":
    from corpus import texts

    tokenizer = train(texts(40_000, seed=1))
    tokenizer.save(str(FILE))
    print(tokenizer.get_vocab_size(), "tokens ->", FILE.name)
