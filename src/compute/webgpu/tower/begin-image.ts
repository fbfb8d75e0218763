// A picture on its way through the tower on the GPU, in pieces that run alone.

import type { ImageInput } from '../../../model/vision/vision-spec.ts';
import { messageOf } from '../../../runtime/error-message.ts';
import type { ImageRun } from '../../backend.ts';
import { BackendFailedError, ImageTooLargeError } from '../../image-failures.ts';
import { ProgramRun } from '../../tower/program-run.ts';
import { GpuMemoryError } from '../memory.ts';
import { GpuView, type TowerResources } from './gpu-view.ts';

/** Runs what neither a step nor another piece may run beside. */
type RunAlone = (run: () => Promise<void>) => Promise<void>;

export function beginImage(resources: TowerResources, image: ImageInput, alone: RunAlone): ImageRun {
  const { steps, preprocessing, join } = resources.tower;
  return new ProgramRun(image, { steps, join: join.value }, preprocessing, (program, view) => {
    const run = new GpuView(resources, program, view);
    return {
      run: (operation, firstRow, count) => told(alone(() => run.run(operation, firstRow, count))),
      read: (output, into) => told(alone(() => run.read(output, into))),
      close: () => run.close(),
    };
  });
}

/** An image is to blame for what its memory lacks, and for nothing else: kernels refuse no picture. */
async function told(computing: Promise<void>): Promise<void> {
  try {
    await computing;
  } catch (error) {
    if (error instanceof ImageTooLargeError || error instanceof GpuMemoryError) throw error;
    throw new BackendFailedError(messageOf(error));
  }
}
