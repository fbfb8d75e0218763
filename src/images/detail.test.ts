import { describe, expect, it } from 'vitest';
import type { PreprocessingSpec, ViewRule } from '../model/vision/preprocessing.ts';
import { viewRule } from './detail.ts';
import { planViews } from './view-plan.ts';

const photo = { width: 2048, height: 1536 };

const rules: readonly ViewRule[] = [
  { kind: 'area', factor: 28, leastArea: 3136, mostArea: 12_845_056, frames: 1 },
  { kind: 'edge', longest: 1540, factor: 28 },
  { kind: 'fill', factor: 48, most: 280 },
  { kind: 'edge-tiles', longest: 2048, tile: 512, splits: true },
  { kind: 'grid-tiles', least: 1, most: 12, width: 448, height: 448 },
  {
    kind: 'area-or-tiles',
    factor: 32,
    patch: 16,
    leastArea: 65_536,
    mostArea: 262_144,
    tolerance: 2,
    tile: 512,
    leastTiles: 2,
    mostTiles: 10,
    splits: true,
    thumbnail: true,
  },
  { kind: 'centred-canvas', canvases: [{ width: 768, height: 768 }], width: 384, height: 384 },
  { kind: 'corner-canvas', most: 16, width: 336, height: 336 },
];

const specOf = (views: ViewRule): PreprocessingSpec => ({
  views,
  filter: 'bicubic',
  mean: [0, 0, 0],
  deviation: [1, 1, 1],
});

const areaOf = (rule: ViewRule) =>
  planViews(rule, photo).views.reduce((sum, { width, height }) => sum + width * height, 0);

describe('viewRule', () => {
  it.each(rules.map((rule) => [rule.kind, rule] as const))('low detail reads less by %s', (_, rule) => {
    const low = viewRule(specOf(rule), false, 'low');
    expect(areaOf(low)).toBeLessThan(areaOf(rule));
  });

  it('high and auto are the family’s own', () => {
    for (const rule of rules) {
      for (const detail of ['high', 'auto'] as const) {
        expect(viewRule(specOf(rule), false, detail)).toBe(rule);
      }
    }
  });

  it('low detail changes nothing where there is one size alone', () => {
    const rule = { kind: 'fixed', width: 336, height: 336 } as const;
    expect(viewRule(specOf(rule), true, 'low')).toBe(rule);
  });
});
