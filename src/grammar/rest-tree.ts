// What is left of tokens behind some of the tree's nodes, as a small tree of its own: equal rests of thousands of tokens
// are walked once.

import type { VocabularyTables } from './vocabulary.ts';

/** Laid out as the tree of the vocabulary; the tokens of a node are `tokens[tokenStarts[i] … tokenStarts[i + 1] - 1]`. */
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
