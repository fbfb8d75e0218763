// An estimate of what a large picture takes of a GPU's memory while it is on its way through the vision tower. Models are loaded and KV
// blocks are counted as if there were always one; larger ones take what is free.

import { largestView } from '../../model/vision/largest-view.ts';
import type { TowerStep, VisionSpec } from '../../model/vision/vision-spec.ts';
import { flatSteps } from '../tower/program.ts';

/** Four million pixels: few models are shown more of a photograph. */
const MOST_PIXELS = 4 << 20;
/** Rows of the stream, as they are read, written and kept for a deepstack; */
const STREAM_ROWS = 3;
/** queries, keys and values. */
const HEAD_ROWS = 3;

export function viewBytes({ tower, preprocessing }: VisionSpec): number {
  const steps = flatSteps(tower.steps as readonly TowerStep[]);
  const patches = steps.find((step) => step.kind === 'patches');
  if (patches === undefined) return 0;
  const size = patches.linears[0]?.weight.rows ?? 0;
  const bodies = steps.flatMap((step) =>
    step.kind === 'layer' ? step.branches.map(({ body }) => body) : [],
  );
  const width = Math.max(
    0,
    ...bodies.map((body) => (body.kind === 'grid-attention' ? body.headCount * body.headSize : 0)),
  );
  const pixels = Math.min(MOST_PIXELS, largestView(preprocessing));
  const tokens = Math.ceil(pixels / patches.size ** 2);
  return 4 * tokens * (STREAM_ROWS * size + HEAD_ROWS * width) + 3 * pixels;
}
