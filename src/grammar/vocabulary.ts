// A model's tokens as a grammar sees them: the bytes of each as a tree, written down in the order in which it is walked.
// Plain data: made in one thread, used in another process.

export interface VocabularyTables {
  /** One more than the highest id that may be drawn. */
  readonly size: number;
  /** The bytes of token i are `bytes[starts[i] … starts[i + 1] - 1]`; control tokens have none. */
  readonly starts: Uint32Array;
  readonly bytes: Uint8Array;
  readonly controls: readonly number[];
  /** Tokens that end an answer. */
  readonly ends: readonly number[];
  /** The one space that decoding takes away before an answer's first word. */
  readonly stripsLeadingSpace: boolean;
  /** Nodes of the tree, each behind its parent; a node's children follow it up to `nodeEnd`. */
  readonly nodeByte: Uint8Array;
  readonly nodeDepth: Uint16Array;
  readonly nodeEnd: Int32Array;
  /** The token that ends at a node, or -1. */
  readonly nodeToken: Int32Array;
  /** By token, the next one with the same bytes, or -1. */
  readonly twin: Int32Array;
  readonly longestToken: number;
}

/** What must be known of a tokenizer. */
export interface TokenSource {
  readonly vocabSize: number;
  readonly eosIds: ReadonlySet<number>;
  readonly stripsLeadingSpace: boolean;
  tokenBytes(id: number): Uint8Array;
  isSpecial(id: number): boolean;
}

export function vocabularyTables(tokens: TokenSource): VocabularyTables {
  const { vocabSize: size, eosIds, stripsLeadingSpace } = tokens;
  const spelled: { readonly id: number; readonly bytes: Uint8Array }[] = [];
  const controls: number[] = [];
  const starts = new Uint32Array(size + 1);
  const chunks: Uint8Array[] = [];
  for (let id = 0; id < size; id++) {
    const isControl = tokens.isSpecial(id) || eosIds.has(id);
    const bytes = isControl ? new Uint8Array(0) : tokens.tokenBytes(id);
    if (isControl) controls.push(id);
    else if (bytes.length > 0) spelled.push({ id, bytes });
    starts[id + 1] = (starts[id] as number) + bytes.length;
    chunks.push(bytes);
  }
  spelled.sort((a, b) => Buffer.compare(a.bytes, b.bytes) || a.id - b.id);
  return {
    size,
    starts,
    bytes: new Uint8Array(Buffer.concat(chunks)),
    controls,
    ends: [...eosIds],
    stripsLeadingSpace,
    ...treeOf(spelled, size),
    longestToken: spelled.reduce((longest, { bytes }) => Math.max(longest, bytes.length), 0),
  };
}

type Tree = Pick<VocabularyTables, 'nodeByte' | 'nodeDepth' | 'nodeEnd' | 'nodeToken' | 'twin'>;

/** Of tokens in the order of their bytes. */
function treeOf(sorted: readonly { readonly id: number; readonly bytes: Uint8Array }[], size: number): Tree {
  const nodeByte: number[] = [];
  const nodeDepth: number[] = [];
  const nodeEnd: number[] = [];
  const nodeToken: number[] = [];
  const twin = new Int32Array(size).fill(-1);
  /** Nodes from the root to the last token. */
  const path: number[] = [];
  const leave = (depth: number) => {
    while (path.length > depth) nodeEnd[path.pop() as number] = nodeByte.length;
  };
  let before: Uint8Array = new Uint8Array(0);
  let beforeId = -1;
  for (const { id, bytes } of sorted) {
    const common = commonLength(before, bytes);
    if (beforeId >= 0 && common === bytes.length && common === before.length) {
      twin[beforeId] = id;
    } else {
      leave(common);
      for (let depth = common; depth < bytes.length; depth++) {
        path.push(nodeByte.length);
        nodeByte.push(bytes[depth] as number);
        nodeDepth.push(depth);
        nodeEnd.push(0);
        nodeToken.push(-1);
      }
      nodeToken[path.at(-1) as number] = id;
    }
    before = bytes;
    beforeId = id;
  }
  leave(0);
  return {
    nodeByte: Uint8Array.from(nodeByte),
    nodeDepth: Uint16Array.from(nodeDepth),
    nodeEnd: Int32Array.from(nodeEnd),
    nodeToken: Int32Array.from(nodeToken),
    twin,
  };
}

function commonLength(a: Uint8Array, b: Uint8Array): number {
  const limit = Math.min(a.length, b.length);
  let at = 0;
  while (at < limit && a[at] === b[at]) at++;
  return at;
}
