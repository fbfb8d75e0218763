// How a grid of learned positions is interpolated: which of its rows or columns make each one of a view, and with which weights.

import type { GridInterpolation } from '../../model/vision/vision-spec.ts';

export interface Tap {
  readonly at: number;
  readonly weight: number;
}

/** Which positions of the grid's side make each of `count` new ones. */
export function gridTaps(by: GridInterpolation, side: number, count: number): readonly (readonly Tap[])[] {
  const make = { corners: cornerTaps, antialias: antialiasTaps, cubic: cubicTaps }[by];
  return Array.from({ length: count }, (_, index) => make(index, side, count));
}

function cornerTaps(index: number, side: number, count: number): Tap[] {
  const place = count === 1 ? 0 : (index * (side - 1)) / (count - 1);
  const first = Math.floor(place);
  const share = place - first;
  return [
    { at: first, weight: 1 - share },
    { at: Math.min(first + 1, side - 1), weight: share },
  ];
}

function antialiasTaps(index: number, side: number, count: number): Tap[] {
  const scale = side / count;
  const support = Math.max(scale, 1);
  const centre = (index + 0.5) * scale;
  const first = Math.max(0, Math.trunc(centre - support + 0.5));
  const end = Math.min(side, Math.trunc(centre + support + 0.5));
  const taps = Array.from({ length: end - first }, (_, tap) => ({
    at: first + tap,
    weight: Math.max(0, 1 - Math.abs((first + tap - centre + 0.5) / support)),
  }));
  const sum = taps.reduce((total, { weight }) => total + weight, 0);
  return taps.map(({ at, weight }) => ({ at, weight: weight / sum }));
}

/** Of the cubic. */
const A = -0.75;

function cubicTaps(index: number, side: number, count: number): Tap[] {
  const place = ((index + 0.5) * side) / count - 0.5;
  const first = Math.floor(place) - 1;
  return Array.from({ length: 4 }, (_, tap) => ({
    at: Math.min(side - 1, Math.max(0, first + tap)),
    weight: cubic(Math.abs(place - first - tap)),
  }));
}

function cubic(x: number): number {
  if (x <= 1) return ((A + 2) * x - (A + 3)) * x * x + 1;
  return x < 2 ? A * (((x - 5) * x + 8) * x - 4) : 0;
}
