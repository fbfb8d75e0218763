// What becomes of a picture before a tower reads it, as data: its size, or those of its tiles, the filter, and how bytes become
// numbers.

export type Filter = 'bilinear' | 'bicubic' | 'lanczos';

/** Pillow's weights of 22 bits, or torchvision's of 16, which models with no other implementation were trained on. */
export type WeightPrecision = 'pillow' | 'torchvision';

export interface PreprocessingSpec {
  readonly views: ViewRule;
  /** Where a prompt has several pictures; absent: the same. */
  readonly amongSeveral?: ViewRule;
  readonly filter: Filter;
  readonly precision?: WeightPrecision;
  readonly mean: readonly [number, number, number];
  readonly deviation: readonly [number, number, number];
  /** Every step is rounded to bfloat16. */
  readonly bfloat16?: true;
}

export interface TileSize {
  readonly width: number;
  readonly height: number;
}

/** Which views of a picture the tower reads. A factor is the pixels of what becomes one token, in both directions. */
export type ViewRule =
  /** One view of this size; the aspect ratio is not kept. */
  | ({ readonly kind: 'fixed' } & TileSize)
  /** One view, after the picture is laid in the middle of a square of a colour. */
  | ({ readonly kind: 'square'; readonly colour: readonly [number, number, number] } & TileSize)
  /** One view: the shorter side made this long, the middle cut out. */
  | ({ readonly kind: 'centre'; readonly shortest: number } & TileSize)
  /**
   * One view: sides become multiples of a factor, with an area within limits. It is counted once for each of the frames that a
   * still picture is taken for.
   */
  | {
      readonly kind: 'area';
      readonly factor: number;
      readonly leastArea: number;
      readonly mostArea: number;
      readonly frames: number;
    }
  /** One view: sides of no more than an edge, then up to multiples of a factor. */
  | { readonly kind: 'edge'; readonly longest: number; readonly factor: number }
  /** One view of as many factors as possible, up to a count; small pictures are enlarged. */
  | { readonly kind: 'fill'; readonly factor: number; readonly most: number }
  /** The longer side made this long, sides up to multiples of a tile, cut into tiles; then the whole in one tile. */
  | { readonly kind: 'edge-tiles'; readonly longest: number; readonly tile: number; readonly splits: boolean }
  /** Tiles in the grid whose aspect ratio is nearest; then the whole in one tile, where there is more than one. */
  | ({ readonly kind: 'grid-tiles'; readonly least: number; readonly most: number } & TileSize)
  /** One view as by `area`; where a picture is much larger, tiles by `grid-tiles` and then that view. */
  | {
      readonly kind: 'area-or-tiles';
      readonly factor: number;
      readonly patch: number;
      readonly leastArea: number;
      readonly mostArea: number;
      readonly tolerance: number;
      readonly tile: number;
      readonly leastTiles: number;
      readonly mostTiles: number;
      readonly splits: boolean;
      readonly thumbnail: boolean;
    }
  /** The whole in one tile; then tiles of the canvas that loses least, in which the picture is centred. */
  | ({ readonly kind: 'centred-canvas'; readonly canvases: readonly TileSize[] } & TileSize)
  /** Tiles of the canvas that fits best, in whose corner the picture lies; then the whole, where there is more than one. */
  | ({ readonly kind: 'corner-canvas'; readonly most: number } & TileSize);
