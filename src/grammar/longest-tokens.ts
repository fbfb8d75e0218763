// A text in tokens without its tokenizer: the longest token that fits, again and again. Often, not always, what the model
// would write.

import type { VocabularyTables } from './vocabulary.ts';

/** Ends before the first byte that no token begins with. */
export function longestTokens(text: Uint8Array, vocabulary: VocabularyTables): number[] {
  const tokens: number[] = [];
  for (let at = 0; at < text.length; ) {
    const { token, length } = longest(text, at, vocabulary);
    if (length === 0) break;
    tokens.push(token);
    at += length;
  }
  return tokens;
}

function longest(
  text: Uint8Array,
  at: number,
  { nodeByte, nodeDepth, nodeEnd, nodeToken }: VocabularyTables,
): { readonly token: number; readonly length: number } {
  let token = -1;
  let length = 0;
  for (let node = 0; node < nodeByte.length; ) {
    const depth = nodeDepth[node] as number;
    if (nodeByte[node] !== text[at + depth]) {
      node = nodeEnd[node] as number;
      continue;
    }
    if ((nodeToken[node] as number) >= 0) {
      token = nodeToken[node] as number;
      length = depth + 1;
    }
    // Its children follow it; behind a leaf nothing longer fits.
    if (nodeEnd[node] === node + 1) break;
    node += 1;
  }
  return { token, length };
}
