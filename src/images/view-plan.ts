// Which views of a picture a tower reads, by its size alone: so tokens are counted before anything is decoded.

import type { TileSize, ViewRule } from '../model/vision/preprocessing.ts';
import { PictureError } from './picture.ts';
import type { Size } from './resample.ts';

/** A picture resized, and laid on a larger canvas where there is one. */
interface Canvas {
  /** The canvas that is resized; absent: the picture. */
  readonly from?: number;
  readonly size: Size;
  readonly padded?: Padding;
}

export interface Padding extends Size {
  readonly left: number;
  readonly top: number;
  /** Black where absent. */
  readonly colour?: readonly [number, number, number];
}

export interface ViewPlace extends Size {
  readonly canvas: number;
  readonly left: number;
  readonly top: number;
}

/** Tiles of a picture in rows and columns; views are these, row by row, with the whole before or after where there is one. */
export interface ViewPlan {
  readonly canvases: readonly Canvas[];
  readonly views: readonly ViewPlace[];
  readonly rows: number;
  readonly columns: number;
  /** Where among the views the whole picture is; absent: there are tiles alone. */
  readonly whole?: 'first' | 'last';
}

type Rule<Kind> = Extract<ViewRule, { readonly kind: Kind }>;

type Planners = { readonly [Kind in ViewRule['kind']]: (rule: Rule<Kind>, picture: Size) => ViewPlan };

const planners: Planners = {
  fixed: ({ width, height }) => oneView({ width, height }),
  square: planSquare,
  centre: planCentre,
  area: (rule, picture) => oneView(areaSize(rule, picture)),
  edge: (rule, picture) => oneView(edgeSize(rule, picture)),
  fill: (rule, picture) => oneView(fillSize(rule, picture)),
  'edge-tiles': planEdgeTiles,
  'grid-tiles': planGridTiles,
  'area-or-tiles': planAreaOrTiles,
  'centred-canvas': planCentredCanvas,
  'corner-canvas': planCornerCanvas,
};

export function planViews(rule: ViewRule, picture: Size): ViewPlan {
  const plan = (planners[rule.kind] as (rule: ViewRule, picture: Size) => ViewPlan)(rule, picture);
  for (const { size, padded = size } of plan.canvases) {
    const areas = [size, padded].map(({ width, height }) => width * height);
    if (Math.max(...areas) > LARGEST_CANVAS) throw tooLong(picture);
  }
  return plan;
}

// A picture that is very long and very thin would be enlarged to more than this.
const LARGEST_CANVAS = 2 ** 27;

function tooLong({ width, height }: Size): PictureError {
  return new PictureError(`the image is ${width} × ${height} pixels: that is too long and too thin`);
}

function oneView(size: Size): ViewPlan {
  return { canvases: [{ size }], views: [wholeOf(size, 0)], rows: 1, columns: 1 };
}

function wholeOf(size: Size, canvas: number): ViewPlace {
  return { canvas, left: 0, top: 0, ...size };
}

/** Row by row. */
function tilesOf(canvas: number, rows: number, columns: number, { width, height }: TileSize): ViewPlace[] {
  return Array.from({ length: rows * columns }, (_, index) => {
    const row = Math.floor(index / columns);
    return { canvas, left: (index - row * columns) * width, top: row * height, width, height };
  });
}

/** As Python rounds: half to even. */
function roundHalfEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  if (rest === 0.5) return down % 2 === 0 ? down : down + 1;
  return rest < 0.5 ? down : down + 1;
}

const up = (value: number, factor: number): number => Math.ceil(value / factor) * factor;
const down = (value: number, factor: number): number => Math.floor(value / factor) * factor;
const nearest = (value: number, factor: number): number => roundHalfEven(value / factor) * factor;

const LARGEST_ASPECT = 200;

function planSquare({ colour, width, height }: Rule<'square'>, picture: Size): ViewPlan {
  const side = Math.max(picture.width, picture.height);
  const left = Math.floor((side - picture.width) / 2);
  const top = Math.floor((side - picture.height) / 2);
  const laid = { size: picture, padded: { width: side, height: side, left, top, colour } };
  const size = { width, height };
  return { canvases: [laid, { from: 0, size }], views: [wholeOf(size, 1)], rows: 1, columns: 1 };
}

function planCentre({ shortest, width, height }: Rule<'centre'>, picture: Size): ViewPlan {
  const isWide = picture.width >= picture.height;
  const [short, long] = isWide ? [picture.height, picture.width] : [picture.width, picture.height];
  const other = Math.trunc((shortest * long) / short);
  const size = isWide ? { width: other, height: shortest } : { width: shortest, height: other };
  const left = Math.floor((size.width - width) / 2);
  const top = Math.floor((size.height - height) / 2);
  return { canvases: [{ size }], views: [{ canvas: 0, left, top, width, height }], rows: 1, columns: 1 };
}

type AreaRule = Pick<Rule<'area'>, 'factor' | 'leastArea' | 'mostArea' | 'frames'>;

function areaSize({ factor, leastArea, mostArea, frames }: AreaRule, picture: Size): Size {
  let { width, height } = picture;
  if (frames > 1 && Math.min(width, height) < factor) {
    const scale = Math.max(factor / height, factor / width);
    width = Math.trunc(width * scale);
    height = Math.trunc(height * scale);
  }
  if (Math.max(width, height) / Math.min(width, height) > LARGEST_ASPECT) {
    throw tooLong(picture);
  }
  const round = { width: nearest(width, factor), height: nearest(height, factor) };
  const area = frames * round.width * round.height;
  if (area > mostArea) {
    const shrink = Math.sqrt((frames * width * height) / mostArea);
    return {
      width: Math.max(factor, down(width / shrink, factor)),
      height: Math.max(factor, down(height / shrink, factor)),
    };
  }
  if (area >= leastArea) return round;
  const grow = Math.sqrt(leastArea / (frames * width * height));
  return { width: up(width * grow, factor), height: up(height * grow, factor) };
}

function edgeSize({ longest, factor }: Rule<'edge'>, { width, height }: Size): Size {
  const ratio = Math.max(width / longest, height / longest);
  const fitted = (side: number) => up(ratio > 1 ? Math.floor(side / ratio) : side, factor);
  // A side that is shrunk to nothing is one factor long.
  return { width: Math.max(factor, fitted(width)), height: Math.max(factor, fitted(height)) };
}

function fillSize({ factor, most }: Rule<'fill'>, { width, height }: Size): Size {
  const scale = Math.sqrt((most * factor * factor) / (width * height));
  const size = { width: down(width * scale, factor), height: down(height * scale, factor) };
  if (size.width === 0 && size.height === 0) {
    throw new PictureError('the image cannot be brought to a size that the model reads');
  }
  const longest = most * factor;
  if (size.height === 0)
    return { height: factor, width: Math.min(Math.floor(width / height) * factor, longest) };
  if (size.width === 0)
    return { width: factor, height: Math.min(Math.floor(height / width) * factor, longest) };
  return size;
}

// Sides beyond this are not computed on: the rule's own code stops there, too.
const LONGEST_SIDE = 4096;

/** The longer side made `longest`, the other even. */
function longestSize({ width, height }: Size, longest: number): Size {
  const ratio = width / height;
  const even = (side: number) => Math.max(1, side + (side % 2));
  if (width >= height) return { width: longest, height: even(Math.trunc(longest / ratio)) };
  return { width: even(Math.trunc(longest * ratio)), height: longest };
}

function upToTiles({ width, height }: Size, tile: number): Size {
  const ratio = width / height;
  if (width >= height) {
    const wide = up(width, tile);
    return { width: wide, height: up(Math.trunc(wide / ratio), tile) };
  }
  const high = up(height, tile);
  return { width: up(Math.trunc(high * ratio), tile), height: high };
}

function planEdgeTiles({ longest, tile, splits }: Rule<'edge-tiles'>, picture: Size): ViewPlan {
  const first = longestSize(picture, Math.min(longest, LONGEST_SIDE));
  const square = { width: tile, height: tile };
  if (!splits) {
    const canvases = [{ size: first }, { from: 0, size: square }];
    return { canvases, views: [wholeOf(square, 1)], rows: 0, columns: 0, whole: 'last' };
  }
  const size = upToTiles(first, tile);
  const [rows, columns] = [size.height / tile, size.width / tile];
  const canvases = [{ size: first }, { from: 0, size }];
  if (rows * columns === 1)
    return { canvases, views: [wholeOf(size, 1)], rows: 0, columns: 0, whole: 'last' };
  return {
    canvases: [...canvases, { from: 1, size: square }],
    views: [...tilesOf(1, rows, columns, square), wholeOf(square, 2)],
    rows,
    columns,
    whole: 'last',
  };
}

interface Grid {
  readonly rows: number;
  readonly columns: number;
}

/** By the number of tiles, then by columns. */
function grids(least: number, most: number): Grid[] {
  const all = Array.from({ length: most * most }, (_, index) => ({
    columns: Math.floor(index / most) + 1,
    rows: (index % most) + 1,
  }));
  return all
    .filter(({ rows, columns }) => rows * columns >= least && rows * columns <= most)
    .sort((a, b) => a.rows * a.columns - b.rows * b.columns);
}

/** The nearest aspect ratio; of several grids the later where the picture has more than half of its pixels. */
function nearestGrid(all: readonly Grid[], picture: Size, tile: TileSize): Grid {
  const ratio = picture.width / picture.height;
  let best: Grid = { rows: 1, columns: 1 };
  let distance = Number.POSITIVE_INFINITY;
  for (const grid of all) {
    const own = Math.abs(ratio - grid.columns / grid.rows);
    const half = 0.5 * tile.width * tile.height * grid.rows * grid.columns;
    const isLarger = own === distance && picture.width * picture.height > half;
    if (own < distance || isLarger) best = grid;
    distance = Math.min(distance, own);
  }
  return best;
}

function planGridTiles({ least, most, width, height }: Rule<'grid-tiles'>, picture: Size): ViewPlan {
  const tile = { width, height };
  const { rows, columns } = nearestGrid(grids(least, most), picture, tile);
  const canvas = { size: { width: columns * width, height: rows * height } };
  const views = tilesOf(0, rows, columns, tile);
  if (views.length === 1) return { canvases: [canvas], views, rows, columns };
  return {
    canvases: [canvas, { size: tile }],
    views: [...views, wholeOf(tile, 1)],
    rows,
    columns,
    whole: 'last',
  };
}

function planAreaOrTiles(rule: Rule<'area-or-tiles'>, picture: Size): ViewPlan {
  const { factor, patch, mostArea, tolerance, splits, thumbnail } = rule;
  const single = areaSize({ ...rule, frames: 1, factor }, picture);
  const wide = Math.max(patch, nearest(picture.width, factor));
  const high = Math.max(patch, nearest(picture.height, factor));
  if (!splits || wide * high <= mostArea * tolerance) return oneView(single);
  const tile = { width: rule.tile, height: rule.tile };
  const { rows, columns } = nearestGrid(grids(rule.leastTiles, rule.mostTiles), picture, tile);
  const canvas = { size: { width: columns * tile.width, height: rows * tile.height } };
  const views = tilesOf(0, rows, columns, tile);
  if (!thumbnail || views.length === 1) return { canvases: [canvas], views, rows, columns };
  return {
    canvases: [canvas, { size: single }],
    views: [...views, wholeOf(single, 1)],
    rows,
    columns,
    whole: 'last',
  };
}

function planCentredCanvas({ canvases, width, height }: Rule<'centred-canvas'>, picture: Size): ViewPlan {
  const tile = { width, height };
  const best = leastLoss(canvases, picture);
  const size = within(best, picture, Math.ceil);
  const left = Math.floor((best.width - size.width) / 2);
  const top = Math.floor((best.height - size.height) / 2);
  const [rows, columns] = [best.height / height, best.width / width];
  return {
    canvases: [{ size: tile }, { size, padded: { ...best, left, top } }],
    views: [wholeOf(tile, 0), ...tilesOf(1, rows, columns, tile)],
    rows,
    columns,
    whole: 'first',
  };
}

/** Most pixels of the picture kept, then least of the canvas left over. */
function leastLoss(canvases: readonly TileSize[], picture: Size): TileSize {
  let best = canvases[0] as TileSize;
  let kept = 0;
  let wasted = Number.POSITIVE_INFINITY;
  for (const canvas of canvases) {
    const scale = Math.min(canvas.width / picture.width, canvas.height / picture.height);
    const scaled = Math.trunc(picture.width * scale) * Math.trunc(picture.height * scale);
    const own = Math.min(scaled, picture.width * picture.height);
    const waste = canvas.width * canvas.height - own;
    if (own < kept || (own === kept && waste >= wasted)) continue;
    [best, kept, wasted] = [canvas, own, waste];
  }
  return best;
}

/** The largest size of the picture's aspect ratio within a canvas. */
function within(canvas: Size, picture: Size, round: (side: number) => number): Size {
  const wide = canvas.width / picture.width;
  const high = canvas.height / picture.height;
  if (wide < high)
    return { width: canvas.width, height: Math.min(round(picture.height * wide), canvas.height) };
  return { width: Math.min(round(picture.width * high), canvas.width), height: canvas.height };
}

function planCornerCanvas({ most, width, height }: Rule<'corner-canvas'>, picture: Size): ViewPlan {
  const tile = { width, height };
  const { rows, columns } = bestFit(most, tile, picture);
  const canvas = { width: columns * width, height: rows * height };
  // Never enlarged beyond one tile.
  const room = {
    width: Math.min(Math.max(picture.width, width), canvas.width),
    height: Math.min(Math.max(picture.height, height), canvas.height),
  };
  const fitted = within(room, picture, Math.floor);
  const size = { width: Math.max(1, fitted.width), height: Math.max(1, fitted.height) };
  const laid = { size, padded: { ...canvas, left: 0, top: 0 } };
  const views = tilesOf(0, rows, columns, tile);
  if (views.length === 1) return { canvases: [laid], views, rows, columns };
  return {
    canvases: [laid, { size: tile }],
    views: [...views, wholeOf(tile, 1)],
    rows,
    columns,
    whole: 'last',
  };
}

/** The canvas that the picture is enlarged least to fill, or else shrunk least; of several the smallest. */
function bestFit(most: number, tile: TileSize, picture: Size): Grid {
  const all = grids(1, most).map((grid) => ({
    ...grid,
    scale: Math.min((grid.columns * tile.width) / picture.width, (grid.rows * tile.height) / picture.height),
  }));
  const enlarging = all.filter(({ scale }) => scale >= 1).map(({ scale }) => scale);
  const scale = enlarging.length > 0 ? Math.min(...enlarging) : Math.max(...all.map((one) => one.scale));
  return all.find((one) => one.scale === scale) as Grid;
}
