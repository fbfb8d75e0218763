// One walk over a ModelSpec for all that load, count or check it: a new kind of layer is found by it as it is.

import type { LinearSpec, NormSpec, TableSpec, VectorSpec } from './spec.ts';

type Leaf = LinearSpec | NormSpec | VectorSpec | TableSpec;

/** What becomes of each kind of leaf. */
interface LeafResults {
  readonly linear: unknown;
  readonly norm: unknown;
  readonly vector: unknown;
  readonly table: unknown;
}

type LeafMappers<Results extends LeafResults> = {
  readonly [Kind in keyof LeafResults]: (
    leaf: Extract<Leaf, { readonly leaf: Kind }>,
    path: readonly string[],
  ) => Results[Kind];
};

/** The same tree, with other leaves. */
export type MapLeaves<Node, Results extends LeafResults> = Node extends { readonly leaf: infer Kind }
  ? Results[Kind & keyof LeafResults]
  : Node extends readonly (infer Item)[]
    ? readonly MapLeaves<Item, Results>[]
    : Node extends object
      ? { readonly [Key in keyof Node]: MapLeaves<Node[Key], Results> }
      : Node;

export function mapLeaves<Node, Results extends LeafResults>(
  node: Node,
  mappers: LeafMappers<Results>,
): MapLeaves<Node, Results> {
  return mapNode(node, [], (leaf, path) => mappers[leaf.leaf](leaf as never, path)) as MapLeaves<
    Node,
    Results
  >;
}

/** All leaves of one kind, in the order of the tree. */
export function leavesOf<Kind extends Leaf['leaf']>(
  node: unknown,
  kind: Kind,
): Extract<Leaf, { readonly leaf: Kind }>[] {
  const found: Leaf[] = [];
  mapNode(node, [], (leaf) => {
    if (leaf.leaf === kind) found.push(leaf);
  });
  return found as Extract<Leaf, { readonly leaf: Kind }>[];
}

/** `path` is the names and indexes that lead to a leaf. */
function mapNode(
  node: unknown,
  path: readonly string[],
  map: (leaf: Leaf, path: readonly string[]) => unknown,
): unknown {
  if (typeof node !== 'object' || node === null) return node;
  if (Array.isArray(node)) return node.map((item, index) => mapNode(item, [...path, `${index}`], map));
  if ('leaf' in node) return map(node as Leaf, path);
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, mapNode(value, [...path, key], map)]),
  );
}
