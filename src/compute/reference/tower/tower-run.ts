// A picture on its way through the tower: a view at a time.

import type { PreprocessingSpec } from '../../../model/vision/preprocessing.ts';
import type { ImageInput, TowerSpec } from '../../../model/vision/vision-spec.ts';
import type { ImageFeatures, ImageRun } from '../../backend.ts';
import type { Loaded } from '../weights.ts';
import { joinedFeatures, type Progress, runView } from './run-tower.ts';

export class TowerRun implements ImageRun {
  readonly #tower: Loaded<TowerSpec>;
  readonly #preprocessing: PreprocessingSpec;
  readonly #image: ImageInput;
  readonly #done: Progress[] = [];
  features: ImageFeatures | undefined;

  constructor(tower: Loaded<TowerSpec>, preprocessing: PreprocessingSpec, image: ImageInput) {
    this.#tower = tower;
    this.#preprocessing = preprocessing;
    this.#image = image;
  }

  /** Of pixels, not of multiply-adds: nobody plans by the oracle's speed. */
  get left(): number {
    if (this.features !== undefined) return 0;
    const views = this.#image.views.slice(this.#done.length);
    return views.reduce((sum, { width, height }) => sum + width * height, 0);
  }

  async advance(work: number): Promise<void> {
    const { views, tiles } = this.#image;
    const aim = this.left - work;
    do {
      // As between steps: signals and messages must get through.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const view = views[this.#done.length];
      if (view !== undefined) this.#done.push(runView(this.#tower, this.#preprocessing, view));
      if (this.#done.length === views.length) {
        this.features ??= joinedFeatures(this.#tower, this.#done, tiles);
      }
    } while (this.left > Math.max(0, aim));
  }

  close(): void {
    this.#done.length = 0;
  }
}
