// A vocabulary as a grammar uses it: the bytes of all tokens as a tree in depth-first order. Plain data, passed
// between threads and processes.

export interface VocabularyTables {
  /** One more than the highest id that may be sampled. */
  readonly size: number;
  /** The bytes of token i are `bytes[starts[i] … starts[i + 1] - 1]`; control tokens have none. */
  readonly starts: Uint32Array;
  readonly bytes: Uint8Array;
  readonly controls: readonly number[];
  readonly ends: readonly number[];
  /** Decoding removes the one space before an answer's first word. */
  readonly stripsLeadingSpace: boolean;
  /** Nodes of the tree; a node's children follow it up to `nodeEnd`. */
  readonly nodeByte: Uint8Array;
  readonly nodeDepth: Uint16Array;
  readonly nodeEnd: Int32Array;
  /** The token that ends at a node, or -1. */
  readonly nodeToken: Int32Array;
  /** By token, the next one with the same bytes, or -1. */
  readonly twin: Int32Array;
  readonly longestToken: number;
}

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

function treeOf(sorted: readonly { readonly id: number; readonly bytes: Uint8Array }[], size: number): Tree {
  const nodeByte: number[] = [];
  const nodeDepth: number[] = [];
  const nodeEnd: number[] = [];
  const nodeToken: number[] = [];
  const twin = new Int32Array(size).fill(-1);
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

/**
 * Greedy longest match, without the tokenizer: often, not always, what the model would write. Ends before the first
 * byte that no token begins with.
 */
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
    // Children follow their node; a leaf has none.
    if (nodeEnd[node] === node + 1) break;
    node += 1;
  }
  return { token, length };
}

/**
 * The rests of tokens after some nodes, laid out as the vocabulary's tree: equal rests of thousands of tokens are
 * walked once. The tokens of node i are `tokens[tokenStarts[i] … tokenStarts[i + 1] - 1]`.
 */
export interface RestTree {
  readonly byte: Uint8Array;
  readonly depth: Uint16Array;
  readonly end: Int32Array;
  readonly tokenStarts: Int32Array;
  readonly tokens: Int32Array;
}

interface Branch {
  readonly children: Map<number, Branch>;
  readonly tokens: number[];
}

export function restTree(vocabulary: VocabularyTables, nodes: readonly number[]): RestTree {
  const root = newBranch();
  for (const node of nodes) addBelow(vocabulary, node, root);
  return flat(root);
}

function newBranch(): Branch {
  return { children: new Map(), tokens: [] };
}

function addBelow(
  { nodeByte, nodeDepth, nodeEnd, nodeToken, twin }: VocabularyTables,
  top: number,
  root: Branch,
): void {
  const base = (nodeDepth[top] as number) + 1;
  const path: Branch[] = [root];
  for (let node = top + 1; node < (nodeEnd[top] as number); node++) {
    const depth = (nodeDepth[node] as number) - base;
    const byte = nodeByte[node] as number;
    const above = path[depth] as Branch;
    let branch = above.children.get(byte);
    if (branch === undefined) {
      branch = newBranch();
      above.children.set(byte, branch);
    }
    path[depth + 1] = branch;
    for (let token = nodeToken[node] as number; token >= 0; token = twin[token] as number)
      branch.tokens.push(token);
  }
}

function flat(root: Branch): RestTree {
  const byte: number[] = [];
  const depth: number[] = [];
  const end: number[] = [];
  const tokenStarts = [0];
  const tokens: number[] = [];
  const visit = (branch: Branch, at: number) => {
    for (const [own, child] of branch.children) {
      const node = byte.push(own) - 1;
      depth.push(at);
      end.push(0);
      tokens.push(...child.tokens);
      tokenStarts.push(tokens.length);
      visit(child, at + 1);
      end[node] = byte.length;
    }
  };
  visit(root, 0);
  return {
    byte: Uint8Array.from(byte),
    depth: Uint16Array.from(depth),
    end: Int32Array.from(end),
    tokenStarts: Int32Array.from(tokenStarts),
    tokens: Int32Array.from(tokens),
  };
}
