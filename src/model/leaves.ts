// Leaves of a ModelSpec, and one walk over them for all that load, count or check it: a new kind of layer is found by it as it is.

/** Rows of a tensor; fused projections are several slices of one tensor. The tensor's outer dimensions count as rows. */
export interface RowSlice {
  readonly tensor: string;
  readonly firstRow: number;
  readonly rows: number;
  /** The slice is made of runs of `rows` rows, one every `every` rows of the tensor; absent: all in one run. */
  readonly runs?: { readonly rows: number; readonly every: number };
  /**
   * The tensor stores matrices of N rows with their inputs as rows: readers turn them, quantized ones as floats.
   * Matrices follow each other, or there is one every N of the tensor's rows.
   */
  readonly transposed?: { readonly rows: number; readonly every?: number };
  /**
   * Set where the rows of each head are stored for rotary pairs (2i, 2i+1). Readers hand them on in the
   * order of pairs (i, i + half), the only one that backends know.
   */
  readonly interleaved?: InterleavedHeads;
}

export interface InterleavedHeads {
  readonly heads: number;
  /** Values of a head that are rotated, the first ones; the others stay where they are. */
  readonly rotated: number;
}

export interface MatrixSpec {
  readonly weight: RowSlice;
  readonly columns: number;
}

/** A linear map: `rows` outputs from `columns` inputs. */
export interface LinearSpec extends MatrixSpec {
  readonly leaf: 'linear';
  /** The rows are those of N maps in a row, each of which has an input of its own; absent: one. */
  readonly members?: number;
  readonly bias?: RowSlice;
  /** Adapters may not add to it: publishers agree on no place for it. */
  readonly adaptable?: false;
  /** Least and most of each input and output, in vision towers that hold them so. */
  readonly bounds?: LinearBounds;
  /** What adapters add for rows that use them; at most one of each. */
  readonly additions?: readonly AdditionSpec[];
}

export interface LinearBounds {
  readonly inputs: readonly [number, number];
  readonly outputs: readonly [number, number];
}

/** `scale * up(down(x))`; with a magnitude (DoRA) outputs are scaled to it, row by row of the sum of both matrices. */
export interface AdditionSpec {
  /** Index into `ModelSpec.adapters`. */
  readonly adapter: number;
  readonly rank: number;
  readonly scale: number;
  /** `rank` rows of as many columns as the map has. */
  readonly down: RowSlice;
  /** As many rows as the map has, of `rank` columns. */
  readonly up: RowSlice;
  /** One value for each row of the map: see output-factors.ts. */
  readonly magnitude?: RowSlice;
}

export interface TableSpec extends RowSlice {
  readonly leaf: 'table';
  readonly columns: number;
}

export interface VectorSpec {
  readonly leaf: 'vector';
  readonly tensor: string;
  readonly size: number;
  /** The file stores logarithms: a value is `-exp(stored)`. */
  readonly negativeExponential?: true;
}

/** Of the mean square, or of the variance around the mean: `value * weight + bias`. */
export interface NormSpec {
  readonly leaf: 'norm';
  readonly kind: 'rms' | 'layer';
  readonly size: number;
  /** Absent: not scaled. Several tensors follow each other. */
  readonly weight?: string | readonly string[];
  readonly bias?: string;
  /** Added to every weight on reading: 1 where a file stores them around zero. */
  readonly offset?: number;
  /** On every weight, after the offset, on reading. */
  readonly factor?: number;
  /** As of rows that they are the weights of. */
  readonly interleaved?: InterleavedHeads;
}

export function tableSpec(tensor: string, rows: number, columns: number): TableSpec {
  return { leaf: 'table', tensor, firstRow: 0, rows, columns };
}

export function vectorSpec(tensor: string, size: number): VectorSpec {
  return { leaf: 'vector', tensor, size };
}

/** Negative numbers: as they are, or by the logarithm of their size. */
export function rateSpec(tensor: string, size: number, isLogarithm: boolean): VectorSpec {
  return { ...vectorSpec(tensor, size), ...(isLogarithm ? { negativeExponential: true } : {}) };
}

type Leaf = LinearSpec | NormSpec | VectorSpec | TableSpec;

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
