// A tower over views of one size, as operations on rows of floats: all that depends on where a cell stands is in them, so that
// backends know rows alone. An operation's rows may be computed in any pieces, after all rows of those before it.

/** Rows in a buffer. */
export interface BufferRows {
  readonly buffer: number;
  readonly rows: number;
  readonly size: number;
}

interface Shared {
  /** Of the flat steps. */
  readonly step: number;
  readonly to: BufferRows;
  /** Multiply-adds of one of `to.rows`, about. */
  readonly work: number;
}

interface Reading extends Shared {
  /** The same as `to` where rows are changed in place. */
  readonly from: BufferRows;
}

/** Rows of a table with weights, those of row i from `starts[i]` to `starts[i + 1] - 1`. */
export interface Taps {
  readonly starts: Int32Array;
  readonly rows: Int32Array;
  readonly weights: Float32Array;
}

/** `columns`: patches of a row of the view. */
export type PatchesOperation = Shared & { readonly kind: 'patches'; readonly columns: number };

export type TowerOperation =
  | PatchesOperation
  /** What the step does with each row alone. */
  | (Reading & { readonly kind: 'rows' })
  /** Adds to each row what its taps give of one of the step's tables: of rows before that of columns, where there are both. */
  | (Reading & { readonly kind: 'table'; readonly table: number; readonly taps: Taps })
  /** Makes each row of `members` others: of all their values in order, of those of each channel in order, or of their mean. */
  | (Reading & {
      readonly kind: 'gather';
      readonly by: 'cells' | 'channels' | 'mean';
      readonly members: number;
      /** Of each row; -1: the step's token. */
      readonly sources: Int32Array;
    })
  /** A layer's feed-forward. */
  | (Reading & { readonly kind: 'mlp'; readonly branch: number })
  /** Queries, keys and values of a layer's attention; `rotation` and `groups` are places in the program's lists. */
  | (Reading & {
      readonly kind: 'project';
      readonly branch: number;
      readonly rotation?: number | undefined;
      readonly groups: number;
    })
  /** What rows see, in the order of their groups. */
  | (Reading & { readonly kind: 'attend'; readonly branch: number; readonly groups: number });

/** For each row the cosines of all pairs of a rope, then their sines. */
export interface Rotation {
  readonly values: Float32Array;
}

/** Rows that see each other follow each other in `order`; the first of each group is at `starts`, and so is the end. */
export interface TokenGroups {
  readonly order: Int32Array;
  readonly starts: Int32Array;
}

/** What an operation leaves as features: its rows are cells in rows and columns. */
export interface OutputRows extends BufferRows {
  readonly columns: number;
}

export interface TowerProgram {
  readonly width: number;
  readonly height: number;
  /** What each byte of a view is, 256 values a channel. */
  readonly values: Float32Array;
  readonly operations: readonly TowerOperation[];
  readonly rotations: readonly Rotation[];
  readonly groups: readonly TokenGroups[];
  /** Features, then those of deepstack steps. */
  readonly outputs: readonly OutputRows[];
}

/** Steps as operations count them: those of a deepstack in its place. */
export function flatSteps<Step extends { readonly kind: string }>(steps: readonly Step[]): Step[] {
  return steps.flatMap((step) => ('steps' in step ? flatSteps(step.steps as readonly Step[]) : [step]));
}

export function programWork({ operations }: TowerProgram): number {
  return operations.reduce((sum, { to, work }) => sum + to.rows * work, 0);
}
