// Draws the last steps: a row for each lane, time from left to right. A request is a bar with a knob where it came; in it
// prompt chunks are tall and decoding is a band. Below, each step stands as high as its batch.

import { cssColour, pixelsOf, type Rgb } from '../shell/theme.ts';
import type { LaneLog, Occupancy } from './lane-log.ts';
import { LANE_COLOURS, type Palette } from './palette.ts';

const FEWEST_ROWS = 4;
const ROW_REM = 1.25;
const MOST_HEIGHT_REM = 21;
const STEPS_REM = 3;
const LABEL_REM = 1.9;

export class TimelineCanvas {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #log: LaneLog;
  palette: Palette;
  windowMs = 15_000;
  #width = 0;
  #stepsPixels = 0;
  #labelPixels = 0;
  #row = 1;
  #rows = FEWEST_ROWS;
  #nowMs = 0;
  marked: number | undefined;

  constructor(canvas: HTMLCanvasElement, log: LaneLog, palette: Palette) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d') as CanvasRenderingContext2D;
    this.#log = log;
    this.palette = palette;
  }

  get rows(): number {
    return this.#rows;
  }

  draw(width: number, nowMs: number): void {
    this.#nowMs = nowMs;
    this.#stepsPixels = pixelsOf(STEPS_REM);
    this.#labelPixels = pixelsOf(LABEL_REM);
    const fromMs = nowMs - this.windowMs;
    const occupancies = this.#log.occupancies.filter(({ toMs }) => toMs === undefined || toMs > fromMs);
    const spans = this.#log.spans.filter(({ toMs }) => toMs > fromMs);
    const lanes = [...occupancies, ...spans].reduce((most, { lane }) => Math.max(most, lane + 1), 0);
    // Rows are never removed, so that nothing jumps when a sequence ends.
    this.#rows = Math.max(FEWEST_ROWS, lanes, width === this.#width ? this.#rows : 0);
    const room = pixelsOf(MOST_HEIGHT_REM) - this.#stepsPixels;
    this.#row = Math.min(pixelsOf(ROW_REM), Math.max(3, room / this.#rows));
    this.#size(width);
    const context = this.#context;
    context.clearRect(0, 0, width, this.#height());
    this.#drawCables();
    for (const occupancy of occupancies) this.#drawOccupancy(occupancy);
    const row = this.#row;
    for (const { lane, kind, fromMs: from, toMs } of spans) {
      const x = Math.max(this.#labelPixels, this.#x(from));
      const length = Math.max(1, this.#x(toMs) - x);
      const height = kind === 'prompt' ? row - 3 : Math.max(2, row * 0.42);
      context.fillStyle = kind === 'prompt' ? this.palette.prompt : cssColour(this.#laneColour(lane));
      context.fillRect(x, (lane + 0.5) * row - height / 2, length, height);
    }
    for (const occupancy of occupancies) this.#drawKnobs(occupancy);
    this.#drawSteps(fromMs);
  }

  laneAt(y: number): number | undefined {
    const lane = Math.floor(y / this.#row);
    return lane >= 0 && lane < this.#rows ? lane : undefined;
  }

  occupancyAt(x: number, y: number): Occupancy | undefined {
    const atMs = this.#nowMs - ((this.#width - x) / (this.#width - this.#labelPixels)) * this.windowMs;
    const lane = this.laneAt(y);
    return this.#log.occupancies.findLast(
      (occupancy) =>
        occupancy.lane === lane &&
        occupancy.fromMs <= atMs &&
        (occupancy.toMs === undefined || occupancy.toMs >= atMs),
    );
  }

  #height(): number {
    return Math.ceil(this.#rows * this.#row) + this.#stepsPixels;
  }

  #size(width: number): void {
    const scale = devicePixelRatio || 1;
    const [across, down] = [Math.floor(width * scale), Math.floor(this.#height() * scale)];
    this.#width = width;
    if (this.#canvas.width !== across || this.#canvas.height !== down) {
      this.#canvas.width = across;
      this.#canvas.height = down;
      this.#canvas.style.height = `${this.#height()}px`;
    }
    this.#context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  #x(atMs: number): number {
    return this.#width - ((this.#nowMs - atMs) / this.windowMs) * (this.#width - this.#labelPixels);
  }

  #laneColour(lane: number): Rgb {
    return this.palette.lanes[lane % LANE_COLOURS] as Rgb;
  }

  #drawCables(): void {
    const context = this.#context;
    const row = this.#row;
    context.strokeStyle = this.palette.line;
    context.fillStyle = this.palette.ink;
    context.font = `${pixelsOf(0.72)}px system-ui, sans-serif`;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    const every = Math.ceil(pixelsOf(0.8) / row);
    for (let lane = 0; lane < this.#rows; lane++) {
      const y = Math.round((lane + 0.5) * row) + 0.5;
      context.lineWidth = lane === this.marked ? 2 : 1;
      context.beginPath();
      context.moveTo(this.#labelPixels, y);
      context.lineTo(this.#width, y);
      context.stroke();
      if (lane % every === 0) context.fillText(String(lane), this.#labelPixels - 6, y);
    }
  }

  #drawOccupancy({ lane, fromMs, toMs }: Occupancy): void {
    const row = this.#row;
    const left = Math.max(this.#labelPixels, this.#x(fromMs));
    const right = toMs === undefined ? this.#width : this.#x(toMs);
    this.#context.fillStyle = cssColour(this.#laneColour(lane), lane === this.marked ? 0.45 : 0.22);
    this.#context.beginPath();
    this.#context.roundRect(
      left,
      lane * row + 1,
      Math.max(1, right - left),
      Math.max(2, row - 2),
      Math.min(6, row / 3),
    );
    this.#context.fill();
  }

  #drawKnobs({ lane, fromMs, toMs }: Occupancy): void {
    const row = this.#row;
    if (row < 8) return;
    const y = (lane + 0.5) * row;
    const context = this.#context;
    context.strokeStyle = context.fillStyle = cssColour(this.#laneColour(lane));
    context.lineWidth = 1.5;
    const on = this.#x(fromMs);
    // Filled: it came. A ring: it left.
    for (const [x, filled] of [
      [on, true] as const,
      ...(toMs === undefined ? [] : [[this.#x(toMs), false] as const]),
    ]) {
      if (x < this.#labelPixels) continue;
      context.beginPath();
      context.arc(x, y, Math.min(4, row / 3), 0, 2 * Math.PI);
      if (filled) context.fill();
      else context.stroke();
    }
  }

  #drawSteps(fromMs: number): void {
    const context = this.#context;
    const bottom = this.#height();
    const steps = this.#log.steps.filter(({ atMs, ms }) => atMs + ms > fromMs);
    const most = Math.max(1, ...steps.map(({ promptTokens, decodeTokens }) => promptTokens + decodeTokens));
    const high = this.#stepsPixels - 12;
    const decodeColour = cssColour(this.palette.lanes[0] as Rgb);
    for (const { atMs, ms, promptTokens, decodeTokens } of steps) {
      const x = Math.max(this.#labelPixels, this.#x(atMs));
      const wide = Math.max(1, this.#x(atMs + ms) - x - 0.5);
      // Square roots: one decoding row stays visible next to a prompt of thousands.
      const decode = high * Math.sqrt(decodeTokens / most);
      const all = high * Math.sqrt((promptTokens + decodeTokens) / most);
      context.fillStyle = this.palette.prompt;
      context.fillRect(x, bottom - all, wide, all - decode);
      context.fillStyle = decodeColour;
      context.fillRect(x, bottom - decode, wide, decode);
    }
    context.strokeStyle = this.palette.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(this.#labelPixels, bottom - high - 4.5);
    context.lineTo(this.#width, bottom - high - 4.5);
    context.stroke();
  }
}
