// Draws the block map: a cell for each block, as large as fits. After the first time it draws only cells that changed: there
// may be a hundred thousand.

import { cssColour } from '../shell/theme.ts';
import type { BlockMap, ChangedBlocks } from './block-map.ts';
import { blockColour, type Palette } from './palette.ts';

const LARGEST_CELL = 14;
const GAP_FROM_CELL = 4;
/** Above this share of changed cells, drawing everything is faster. */
const LARGE_CHANGE = 1 / 8;

export class BlockCanvas {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #blocks: BlockMap;
  #palette: Palette;
  #scale = 1;
  #cell = 1;
  #columns = 1;
  #marked: number | undefined;

  constructor(canvas: HTMLCanvasElement, blocks: BlockMap, palette: Palette) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d', { alpha: true }) as CanvasRenderingContext2D;
    this.#blocks = blocks;
    this.#palette = palette;
  }

  get columns(): number {
    return this.#columns;
  }

  recolour(palette: Palette): void {
    this.#palette = palette;
    this.drawAll();
  }

  /** In pixels of the page. */
  fit(width: number, mostHeight: number): void {
    this.#scale = devicePixelRatio || 1;
    const across = Math.max(1, Math.floor(width * this.#scale));
    const down = Math.floor(mostHeight * this.#scale);
    const count = Math.max(1, this.#blocks.length);
    let cell = Math.min(
      LARGEST_CELL * this.#scale,
      Math.max(1, Math.ceil(Math.sqrt((across * down) / count))),
    );
    cell = Math.floor(cell);
    while (cell > 1 && Math.ceil(count / Math.max(1, Math.floor(across / cell))) * cell > down) cell--;
    this.#cell = cell;
    this.#columns = Math.max(1, Math.floor(across / cell));
    this.#canvas.width = across;
    this.#canvas.height = Math.ceil(count / this.#columns) * cell;
    this.#canvas.style.height = `${this.#canvas.height / this.#scale}px`;
    this.drawAll();
  }

  draw(changed: readonly ChangedBlocks[]): void {
    const cells = changed.reduce((sum, [, count]) => sum + count, 0);
    if (cells > this.#blocks.length * LARGE_CHANGE) {
      this.drawAll();
      return;
    }
    let colour = -1;
    for (const [first, count] of changed) {
      for (let block = first; block < first + count; block++) {
        const state = this.#blocks.stateOf(block);
        if (state !== colour) this.#context.fillStyle = cssColour(blockColour(this.#palette, state));
        colour = state;
        this.#fillCell(block);
      }
    }
    if (this.#marked !== undefined) this.mark(this.#marked);
  }

  /** Writes pixels into memory: a hundred thousand rectangles would take too long. */
  drawAll(): void {
    const { width, height } = this.#canvas;
    const image = this.#context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const side = this.#side();
    const colours = new Map<number, number>();
    for (let block = 0; block < this.#blocks.length; block++) {
      const state = this.#blocks.stateOf(block);
      let colour = colours.get(state);
      if (colour === undefined) {
        const [red, green, blue] = blockColour(this.#palette, state);
        colour = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
        colours.set(state, colour);
      }
      const left = (block % this.#columns) * this.#cell;
      const top = Math.floor(block / this.#columns) * this.#cell;
      for (let y = top; y < top + side; y++) pixels.fill(colour, y * width + left, y * width + left + side);
    }
    this.#context.putImageData(image, 0, 0);
    if (this.#marked !== undefined) this.mark(this.#marked);
  }

  mark(block: number | undefined): void {
    const last = this.#marked;
    this.#marked = undefined;
    if (last !== undefined && last < this.#blocks.length) this.draw([[last, 1]]);
    if (block === undefined || block >= this.#blocks.length) return;
    this.#marked = block;
    const { left, top } = this.#place(block);
    this.#context.strokeStyle = this.#palette.ink;
    this.#context.lineWidth = Math.max(1, this.#scale);
    const inset = this.#context.lineWidth / 2;
    const side = Math.max(1, this.#side() - 2 * inset);
    this.#context.strokeRect(left + inset, top + inset, side, side);
  }

  blockAt(x: number, y: number): number | undefined {
    const column = Math.floor((x * this.#scale) / this.#cell);
    const row = Math.floor((y * this.#scale) / this.#cell);
    const block = row * this.#columns + column;
    const inside = column >= 0 && column < this.#columns && block >= 0 && block < this.#blocks.length;
    return inside ? block : undefined;
  }

  #side(): number {
    return this.#cell >= GAP_FROM_CELL ? this.#cell - 1 : this.#cell;
  }

  #place(block: number): { left: number; top: number } {
    return {
      left: (block % this.#columns) * this.#cell,
      top: Math.floor(block / this.#columns) * this.#cell,
    };
  }

  #fillCell(block: number): void {
    const { left, top } = this.#place(block);
    this.#context.fillRect(left, top, this.#side(), this.#side());
  }
}
