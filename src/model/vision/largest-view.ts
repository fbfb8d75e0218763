// The most pixels that a view of any picture can have.

import type { PreprocessingSpec, ViewRule } from './preprocessing.ts';

export function largestView({ views, amongSeveral = views }: PreprocessingSpec): number {
  return Math.max(pixelsOf(views), pixelsOf(amongSeveral));
}

function pixelsOf(rule: ViewRule): number {
  switch (rule.kind) {
    case 'area':
      return rule.mostArea / rule.frames;
    case 'edge':
      return (Math.ceil(rule.longest / rule.factor) * rule.factor) ** 2;
    case 'fill':
      return rule.most * rule.factor ** 2;
    case 'edge-tiles':
      return rule.tile ** 2;
    case 'area-or-tiles':
      return Math.max(rule.mostArea, rule.tile ** 2);
    default:
      return rule.width * rule.height;
  }
}
