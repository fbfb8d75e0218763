// Resizes bytes as Pillow does, to the bit: models were trained on its results, and a filter that differs in one level moves
// their answers. Weights are whole numbers, so that no machine rounds otherwise.

import type { Filter, WeightPrecision } from '../model/vision/preprocessing.ts';
import type { Picture } from './picture.ts';

export interface Size {
  readonly width: number;
  readonly height: number;
}

interface FilterShape {
  /** Beyond it, to both sides, the curve is 0. */
  readonly radius: number;
  readonly curve: (x: number) => number;
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

/** Of the cubic filter. */
const A = -0.5;

const filters: Readonly<Record<Filter, FilterShape>> = {
  bilinear: { radius: 1, curve: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: {
    radius: 2,
    curve(signed) {
      const x = Math.abs(signed);
      if (x < 1) return ((A + 2) * x - (A + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * A : 0;
    },
  },
  lanczos: { radius: 3, curve: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

/** One axis first, rounded to bytes, then the other. An axis whose size stays is not filtered. */
export function resize(
  picture: Picture,
  { width, height }: Size,
  filter: Filter,
  precision: WeightPrecision = 'pillow',
): Picture {
  const { width: oldWidth, height: oldHeight } = picture;
  let { rgb } = picture;
  if (width !== oldWidth) {
    const taps = tapsOf(oldWidth, width, filters[filter], precision);
    rgb = resizeAxis(rgb, taps, {
      lines: oldHeight,
      lineStep: oldWidth * 3,
      outLineStep: width * 3,
      step: 3,
    });
  }
  if (height !== oldHeight) {
    const taps = tapsOf(oldHeight, height, filters[filter], precision);
    rgb = resizeAxis(rgb, taps, { lines: width, lineStep: 3, outLineStep: 3, step: width * 3 });
  }
  return { width, height, rgb };
}

/** Which pixels of a line make each pixel of the new one, and how much of each, in units of `2 ** -bits`. */
interface Taps {
  readonly bits: number;
  readonly firsts: Int32Array;
  readonly weights: readonly Int32Array[];
}

function tapsOf(oldSize: number, size: number, shape: FilterShape, precision: WeightPrecision): Taps {
  const scale = oldSize / size;
  // Shrinking widens the filter, so that every old pixel counts.
  const stretch = Math.max(scale, 1);
  const support = shape.radius * stretch;
  const firsts = new Int32Array(size);
  const shares = Array.from({ length: size }, (_, at) => {
    const centre = (at + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(oldSize, Math.trunc(centre + support + 0.5));
    firsts[at] = first;
    const curve = Array.from({ length: end - first }, (_, tap) =>
      shape.curve((tap + first - centre + 0.5) / stretch),
    );
    const sum = curve.reduce((total, weight) => total + weight, 0);
    return curve.map((weight) => (sum === 0 ? weight : weight / sum));
  });
  const bits = precision === 'pillow' ? 22 : torchvisionBits(shares);
  return {
    bits,
    firsts,
    weights: shares.map((line) => Int32Array.from(line, (share) => rounded(share, bits))),
  };
}

/** Half away from zero. */
function rounded(share: number, bits: number): number {
  return Math.trunc(share * 2 ** bits + (share < 0 ? -0.5 : 0.5));
}

/** As many as leave the largest weight in 16 bits. */
function torchvisionBits(shares: readonly (readonly number[])[]): number {
  const largest = shares.reduce((most, line) => Math.max(most, ...line), 0);
  let bits = 0;
  while (bits < 22 && Math.trunc(0.5 + largest * 2 ** (bits + 1)) < 2 ** 15) bits++;
  return bits;
}

interface Axis {
  readonly lines: number;
  /** From one line to the next, in bytes. */
  readonly lineStep: number;
  readonly outLineStep: number;
  /** From one pixel of a line to the next. */
  readonly step: number;
}

function resizeAxis(rgb: Uint8Array, { bits, firsts, weights }: Taps, axis: Axis): Uint8Array {
  const { lines, lineStep, outLineStep, step } = axis;
  const resized = new Uint8Array(lines * firsts.length * 3);
  const half = 2 ** (bits - 1);
  for (let line = 0; line < lines; line++) {
    for (let at = 0; at < firsts.length; at++) {
      const own = weights[at] as Int32Array;
      const from = line * lineStep + (firsts[at] as number) * step;
      const to = line * outLineStep + at * step;
      for (let channel = 0; channel < 3; channel++) {
        let sum = half;
        for (let tap = 0; tap < own.length; tap++) {
          sum += (own[tap] as number) * (rgb[from + tap * step + channel] as number);
        }
        resized[to + channel] = Math.min(255, Math.max(0, sum >> bits));
      }
    }
  }
  return resized;
}
