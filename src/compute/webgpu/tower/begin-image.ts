// A picture on its way through the tower on the GPU, in pieces that run alone.

import type { ImageInput } from '../../../model/vision/vision-spec.ts';
import type { ImageRun } from '../../backend.ts';
import { ProgramRun } from '../../tower/program-run.ts';
import { GpuView, type TowerResources } from './gpu-view.ts';

/** Runs what neither a step nor another piece may run beside. */
type RunAlone = (run: () => Promise<void>) => Promise<void>;

export function beginImage(resources: TowerResources, image: ImageInput, alone: RunAlone): ImageRun {
  const { steps, preprocessing, join } = resources.tower;
  return new ProgramRun(image, { steps, join: join.value }, preprocessing, (program, view) => {
    const run = new GpuView(resources, program, view);
    return {
      run: (operation, firstRow, count) => alone(() => run.run(operation, firstRow, count)),
      read: (output, into) => alone(() => run.read(output, into)),
      close: () => run.close(),
    };
  });
}
