// What a model sees with, as data: how pictures are prepared, the steps of the tower that reads them, and how what it gives
// stands in a prompt. Backends know steps alone.

import type { Activation } from '../layers/mlp.ts';
import type { LinearSpec, NormSpec, TableSpec, VectorSpec } from '../leaves.ts';
import type { ImagePromptSpec } from './image-prompt.ts';
import type { PreprocessingSpec, TileSize } from './preprocessing.ts';

export interface VisionSpec {
  readonly preprocessing: PreprocessingSpec;
  readonly tower: TowerSpec;
  readonly prompt: ImagePromptSpec;
}

/** A view of a picture, in the size that a tower reads. */
export interface ImageView {
  readonly width: number;
  readonly height: number;
  /** Three bytes a pixel, row by row; `view-values.ts` says which numbers they are to a tower. */
  readonly rgb: Uint8Array;
}

export interface FeatureGrid {
  readonly rows: number;
  readonly columns: number;
}

/** Rows and columns of tiles, and the size of the picture that lies in their middle. */
export interface TileGrid extends FeatureGrid {
  readonly picture: TileSize;
}

/** A picture that is ready for a tower. */
export interface ImageInput {
  readonly views: readonly ImageView[];
  readonly tiles: TileGrid;
}

/** Run for each view alone; then features of all views are joined. */
export interface TowerSpec {
  readonly steps: readonly TowerStep[];
  readonly join: JoinSpec;
}

/** Features of a picture's views, in one sequence of rows. */
export type JoinSpec =
  /** View after view. */
  | { readonly kind: 'sequence' }
  /**
   * The whole; then the tiles as one grid, without the rows or columns that only hold padding, made smaller where it has more
   * than `most` times a view's cells, each row ended by a vector. A whole alone is ended by the vector.
   */
  | { readonly kind: 'grid'; readonly newline: VectorSpec; readonly most: number };

/** Cells in rows and columns, each with as many values; there may be a class token beside them. */
export type TowerStep =
  | PatchStep
  | { readonly kind: 'linear'; readonly linear: LinearSpec }
  | { readonly kind: 'norm'; readonly norm: NormSpec; readonly epsilon: number }
  | { readonly kind: 'activation'; readonly activation: TowerActivation }
  /** `value * factor + shift`. */
  | { readonly kind: 'affine'; readonly factor: number; readonly shift: number }
  /** `(value - shifts) * scales`. */
  | { readonly kind: 'standardize'; readonly shifts: VectorSpec; readonly scales: VectorSpec }
  | { readonly kind: 'class-token'; readonly token: VectorSpec; readonly place: 'first' | 'last' }
  | { readonly kind: 'drop-class-token' }
  | PositionStep
  | TowerLayerStep
  /** A feed-forward of its own, after which nothing is added. */
  | { readonly kind: 'feed-forward'; readonly mlp: TowerMlpSpec }
  /** `size × size` cells become one with all their values: cell by cell, or channel by channel. */
  | { readonly kind: 'merge'; readonly size: number; readonly order: 'cells' | 'channels' }
  /** The same with their mean. */
  | { readonly kind: 'pool'; readonly size: number }
  /** What these steps give is a further output, added to the text model's stream after one of its first layers, in order. */
  | { readonly kind: 'deepstack'; readonly steps: readonly TowerStep[] };

/** Square patches of the view become cells. */
export interface PatchStep {
  readonly kind: 'patches';
  readonly size: number;
  /** How values of a patch follow each other: by channel, row and column, or by row, column and channel. */
  readonly order: 'channels-first' | 'channels-last';
  /** A still picture stands for this many frames of a film, between channels and rows. */
  readonly frames: number;
  /** Of each value, before: `value * factor + shift`. */
  readonly values?: { readonly factor: number; readonly shift: number };
  /** Each reads the same patch; what they give is added. */
  readonly linears: readonly LinearSpec[];
}

export type PositionStep =
  /** A row for each cell in order, and for the class token in its place. */
  | { readonly kind: 'position-table'; readonly table: TableSpec }
  /** A square grid of rows, interpolated to the view's. */
  | { readonly kind: 'position-grid'; readonly table: TableSpec; readonly by: GridInterpolation }
  /** A row for the column and one for the row of a cell. */
  | { readonly kind: 'position-axes'; readonly columns: TableSpec; readonly rows: TableSpec };

/** `corners`: bilinear, corners on corners; `antialias`: bilinear by centres, wider where it shrinks; `cubic`: by centres, a = -0.75. */
export type GridInterpolation = 'corners' | 'antialias' | 'cubic';

export interface TowerLayerStep {
  readonly kind: 'layer';
  readonly epsilon: number;
  readonly branches: readonly TowerBranchSpec[];
}

/** Adds to the stream what its body makes of it. */
export interface TowerBranchSpec {
  readonly input?: NormSpec;
  readonly body: GridAttentionSpec | TowerMlpSpec;
  readonly output?: NormSpec;
  /** Factors on what is added, one a channel. */
  readonly scales?: VectorSpec;
}

/** Cells see each other, and the class token. */
export interface GridAttentionSpec {
  readonly kind: 'grid-attention';
  readonly headCount: number;
  readonly headSize: number;
  readonly query: LinearSpec;
  readonly key: LinearSpec;
  readonly value: LinearSpec;
  readonly output: LinearSpec;
  /** Over heads, or over all of them together, by the norm's size. */
  readonly queryNorm?: NormSpec;
  readonly keyNorm?: NormSpec;
  readonly valueNorm?: NormSpec;
  readonly rope?: GridRopeSpec;
  /** Cells see those of their own square of N × N alone. */
  readonly window?: number;
  readonly scale: number;
}

/** A rotary embedding of rows and columns; class tokens are not rotated. */
export interface GridRopeSpec {
  /** Of the first row and column: 0 or 1. */
  readonly origin: number;
  readonly pairs: readonly GridRopePair[];
}

export interface GridRopePair {
  readonly axis: 'row' | 'column';
  readonly frequency: number;
  /** The two values of a head that are rotated. */
  readonly first: number;
  readonly second: number;
}

export type TowerActivation = Extract<Activation, string> | 'quick-gelu';

export interface TowerMlpSpec {
  readonly kind: 'tower-mlp';
  readonly activation: TowerActivation;
  /** Absent: `down(activation(up))` instead of `down(activation(gate) * up)`. */
  readonly gate?: LinearSpec;
  readonly up: LinearSpec;
  readonly down: LinearSpec;
}
