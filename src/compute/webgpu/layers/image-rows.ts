// Rows of images: their features come from the processor with each step that has any, and are put where the model reads them.

import type { VisionSpec } from '../../../model/vision/vision-spec.ts';
import type { Batch } from '../../backend.ts';
import type { Declared } from '../declared.ts';
import { imageRowsKernel } from '../kernels/image-rows.ts';
import type { LayerBuilder } from '../linears.ts';
import type { Scratch } from '../scratch.ts';

export class ImageRows {
  readonly #builder: LayerBuilder;
  /** What a tower gives for a row, side by side. */
  readonly #width: number;
  /** What takes the place of embeddings, then what is added after each of the first layers. */
  readonly #features: Declared<GPUBuffer>;

  constructor(builder: LayerBuilder, { tower }: VisionSpec) {
    const deepstack = tower.steps.filter(({ kind }) => kind === 'deepstack').length;
    this.#builder = builder;
    this.#width = (1 + deepstack) * builder.spec.hiddenSize;
    this.#features = builder.scratch('image rows', this.#width);
  }

  /** Once embeddings are in the residual stream. */
  embed(): void {
    this.#put(0, false);
  }

  /** After a layer. */
  addDeepstack(layer: number): void {
    this.#put(layer + 1, true);
  }

  write({ queue }: GPUDevice, { rows }: Scratch, { images }: Batch): void {
    let at = 0;
    for (const values of images === undefined ? [] : [images.embeddings, ...images.deepstack]) {
      if (at + values.length > rows * this.#width) {
        throw new Error('batch: images have more outputs than the tower gives');
      }
      queue.writeBuffer(this.#features.value, 4 * at, values as Float32Array<ArrayBuffer>);
      at += values.length;
    }
  }

  #put(output: number, adds: boolean): void {
    const { scratchPlan, residual, spec } = this.#builder;
    this.#builder.add(
      'image rows',
      () => imageRowsKernel({ size: spec.hiddenSize, output, adds }),
      [scratchPlan.step, this.#features, residual],
      ({ images, deepstack }) => [output <= deepstack ? images : 0, 1],
      'when needed',
    );
  }
}
