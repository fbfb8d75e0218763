// The vocabulary that grammars are measured with: that of a model, or as many tokens as a large one has.

import type { TokenSource } from '#src/grammar/vocabulary.ts';
import { embeddedModelPath } from '#src/pool/model-homes.ts';
import { openText } from '#src/text/open-text.ts';
import { openModelFiles } from '#src/weights/open-model.ts';

const VOCABULARY = 128_256;

export function largeVocabulary(path: string | undefined): TokenSource {
  return path === undefined ? grown(tokenizerOf(embeddedModelPath())) : tokenizerOf(path);
}

function tokenizerOf(path: string): TokenSource {
  const files = openModelFiles(path);
  files.weights.close();
  return openText(files).tokenizer;
}

/** As many tokens as a large model has: those of the embedded one, then pairs of them. */
function grown(small: TokenSource): TokenSource {
  const parts: Uint8Array[] = [];
  for (let id = 0; id < small.vocabSize; id++) if (!small.isSpecial(id)) parts.push(small.tokenBytes(id));
  const bytesOf = (id: number): Uint8Array => {
    if (id < parts.length) return parts[id] as Uint8Array;
    const pair = (id - parts.length) * 7919;
    return Buffer.concat([
      parts[pair % parts.length] as Uint8Array,
      parts[(pair >> 7) % parts.length] as Uint8Array,
    ]);
  };
  const end = VOCABULARY - 1;
  return {
    vocabSize: VOCABULARY,
    eosIds: new Set([end]),
    stripsLeadingSpace: false,
    tokenBytes: (id) => (id === end ? new Uint8Array(0) : bytesOf(id)),
    isSpecial: (id) => id === end,
  };
}
