// What a client's `detail` changes: `low` takes the smallest that a family's rule allows, `high` and `auto` are the family's own.

import type { PreprocessingSpec, ViewRule } from '../model/vision/preprocessing.ts';

export const details = ['low', 'high', 'auto'] as const;

export type Detail = (typeof details)[number];

/** The side of a square that is as large as a picture of low detail. */
const LOW_SIDE = 512;
/** Of Gemma 4: the fewest tokens that its processor offers. */
const LOW_FACTORS = 70;

/** `several`: there are other pictures in the prompt. */
export function viewRule(
  { views, amongSeveral = views }: PreprocessingSpec,
  several: boolean,
  detail: Detail = 'auto',
): ViewRule {
  const rule = several ? amongSeveral : views;
  return detail === 'low' ? lowest(rule) : rule;
}

function lowest(rule: ViewRule): ViewRule {
  switch (rule.kind) {
    case 'area': {
      const low = LOW_SIDE * LOW_SIDE * rule.frames;
      return { ...rule, mostArea: Math.max(rule.leastArea, Math.min(rule.mostArea, low)) };
    }
    case 'edge':
      return { ...rule, longest: Math.min(rule.longest, LOW_SIDE) };
    case 'fill':
      return { ...rule, most: Math.min(rule.most, LOW_FACTORS) };
    case 'edge-tiles':
    case 'area-or-tiles':
      return { ...rule, splits: false };
    case 'grid-tiles':
      return { ...rule, least: 1, most: 1 };
    case 'corner-canvas':
      return { ...rule, most: 1 };
    case 'centred-canvas': {
      const { width, height } = rule;
      return { ...rule, canvases: [{ width, height }] };
    }
    // One view of one size: there is nothing smaller.
    case 'fixed':
    case 'square':
    case 'centre':
      return rule;
  }
}
