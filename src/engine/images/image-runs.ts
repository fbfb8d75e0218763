// Images on their way through the vision tower, by key: pieces of them, what came of each, and how fast that is.

import type { ImageFeatures, ImageRun } from '../../compute/backend.ts';
import { BackendFailedError, ImageTooLargeError } from '../../compute/image-failures.ts';
import type { ImageInput } from '../../model/vision/vision-spec.ts';
import { messageOf } from '../../runtime/error-message.ts';
import { featuresProblem, type ImageError } from './features-problem.ts';
import type { VisionLimits } from './prompt-images.ts';
import { WorkRate } from './work-rate.ts';

export type BeginImage = (image: ImageInput) => ImageRun;

export class ImageRuns {
  readonly #begin: BeginImage;
  readonly #vision: VisionLimits;
  readonly #nowMs: () => number;
  readonly #runs = new Map<string, ImageRun>();
  readonly #rate = new WorkRate();
  /** The key of what is being computed at this moment: its memory must stay. */
  #current: string | undefined;

  constructor(begin: BeginImage, vision: VisionLimits, nowMs: () => number) {
    this.#begin = begin;
    this.#vision = vision;
    this.#nowMs = nowMs;
  }

  /** Whether a further piece fits into a time. */
  fits(ms: number): boolean {
    return this.#rate.hasRoom(ms);
  }

  /** One piece or several: what has come of the image, if it is done. Throws where the backend itself has failed. */
  async advance(key: string, image: ImageInput, ms: number): Promise<ImageFeatures | ImageError | undefined> {
    this.#current = key;
    try {
      const features = await this.#advance(key, image, ms);
      return features && (featuresProblem(features, this.#vision) ?? features);
    } catch (error) {
      if (error instanceof BackendFailedError) throw error;
      if (error instanceof ImageTooLargeError) return { code: 'invalid', message: error.message };
      // There may be memory for this one alone: it is tried again, and others that were begun begin anew.
      if (this.#closeOthers(key)) return undefined;
      return { code: 'engine-failed', message: `the vision tower failed: ${messageOf(error)}` };
    } finally {
      this.#current = undefined;
    }
  }

  async #advance(key: string, image: ImageInput, ms: number): Promise<ImageFeatures | undefined> {
    const run = this.#runs.get(key) ?? this.#begin(image);
    this.#runs.set(key, run);
    const [before, startedMs] = [run.left, this.#nowMs()];
    const asked = this.#rate.workWithin(ms);
    await run.advance(asked);
    this.#rate.observe(asked, before - run.left, this.#nowMs() - startedMs);
    return run.features;
  }

  /** Whether there were any. */
  #closeOthers(key: string): boolean {
    const others = [...this.#runs.keys()].filter((other) => other !== key);
    for (const other of others) this.close(other);
    return others.length > 0;
  }

  /** Ends the run of an image, if there is one, unless it is being computed. */
  close(key: string): void {
    if (this.#current === key) return;
    this.#runs.get(key)?.close();
    this.#runs.delete(key);
  }
}
