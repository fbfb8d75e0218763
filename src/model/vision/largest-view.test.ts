import { expect, it } from 'vitest';
import { planViews } from '../../images/view-plan.ts';
import { largestView } from './largest-view.ts';
import type { ViewRule } from './preprocessing.ts';

const rules: readonly ViewRule[] = [
  { kind: 'fixed', width: 448, height: 336 },
  { kind: 'area', factor: 28, leastArea: 3136, mostArea: 1_003_520, frames: 1 },
  { kind: 'area', factor: 32, leastArea: 65_536, mostArea: 2_000_000, frames: 2 },
  { kind: 'edge', longest: 1540, factor: 28 },
  { kind: 'fill', factor: 48, most: 280 },
  { kind: 'edge-tiles', longest: 2048, tile: 512, splits: true },
  { kind: 'grid-tiles', least: 1, most: 12, width: 448, height: 448 },
];

it.each(rules)('is reached by a large square picture, and by none exceeded: $kind', (views) => {
  const most = largestView({ views, filter: 'bicubic', mean: [0, 0, 0], deviation: [1, 1, 1] });
  const pixelsOf = (width: number, height: number) =>
    Math.max(...planViews(views, { width, height }).views.map((view) => view.width * view.height));
  for (const [width, height] of [
    [8000, 8000],
    [9000, 3000],
    [1200, 1500],
    [60, 40],
  ] as const) {
    expect(pixelsOf(width, height)).toBeLessThanOrEqual(most);
  }
  expect(pixelsOf(8000, 8000)).toBeGreaterThan(0.9 * most);
});
