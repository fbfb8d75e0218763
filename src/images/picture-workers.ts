// Measures, decodes and resizes pictures off the event loop, which in TypeScript takes up to hundreds of milliseconds: a few
// threads, accounts in turn at each. What was prepared is kept by its content, so that a conversation that shows a picture at
// every turn has it prepared once.

import { createHash } from 'node:crypto';
import type { PreprocessingSpec } from '../model/vision/preprocessing.ts';
import type { ImageView } from '../model/vision/vision-spec.ts';
import { type JobCaller, JobQueue, JobTooLong } from '../runtime/job-queue.ts';
import { decodePicture, measurePicture, type PictureLimits } from './decode.ts';
import { PictureError } from './picture.ts';
import type { PictureResult, PictureWork } from './picture-thread.ts';
import { preprocess } from './preprocess.ts';
import type { Size } from './resample.ts';
import { ViewCache } from './view-cache.ts';
import type { ViewPlan } from './view-plan.ts';

export interface MeasuredPicture {
  readonly file: Uint8Array;
  readonly limits: PictureLimits;
  /** Of the file's bytes. */
  readonly hash: string;
  readonly size: Size;
}

export interface PictureReader {
  /** By the header; throws PictureError where the file is none that is taken. */
  measure(file: Uint8Array, limits: PictureLimits, caller?: JobCaller): Promise<MeasuredPicture>;
  /** Throws PictureError where the file cannot be decoded. */
  views(
    picture: MeasuredPicture,
    preprocessing: PreprocessingSpec,
    plan: ViewPlan,
    caller?: JobCaller,
  ): Promise<readonly ImageView[]>;
}

/** The same for the same pixels, prepared in the same way. */
export function pictureKey(hash: string, preprocessing: PreprocessingSpec, plan: ViewPlan): string {
  const how = createHash('sha256').update(JSON.stringify([preprocessing, plan]));
  return `${hash}-${how.digest('hex').slice(0, 32)}`;
}

/** In the calling thread, for commands. */
export const directPictures: PictureReader = {
  async measure(file, limits) {
    const size = await measurePicture(file, limits);
    return { file, limits, size, hash: createHash('sha256').update(file).digest('hex') };
  },
  views: async ({ file, limits }, preprocessing, plan) =>
    preprocess(await decodePicture(file, limits), preprocessing, plan),
};

/** Each may hold a picture of the most pixels, and what becomes of it. */
const THREADS = 2;
/** CPU time of a job; the largest picture takes a few seconds. */
const LIMIT_MS = 60_000;
const KEPT_BYTES = 256 * 2 ** 20;

const entry = new URL('../../dist/images/picture-thread.js', import.meta.url);

interface Lane {
  readonly queue: JobQueue<PictureWork, PictureResult>;
  jobs: number;
}

export class PictureWorkers implements PictureReader {
  readonly #lanes: readonly Lane[] = Array.from({ length: THREADS }, () => ({
    queue: new JobQueue<PictureWork, PictureResult>({ entry, limitMs: LIMIT_MS }),
    jobs: 0,
  }));
  readonly #kept = new ViewCache(KEPT_BYTES);

  async measure(file: Uint8Array, limits: PictureLimits, caller: JobCaller = {}): Promise<MeasuredPicture> {
    const result = await this.#run({ kind: 'measure', file, limits }, caller);
    if (result.kind !== 'measured') throw new Error('a picture was measured, and something else came of it');
    return { file, limits, hash: result.hash, size: result.size };
  }

  async views(
    { file, limits, hash }: MeasuredPicture,
    preprocessing: PreprocessingSpec,
    plan: ViewPlan,
    caller: JobCaller = {},
  ): Promise<readonly ImageView[]> {
    const kept = this.kept(hash, preprocessing, plan, caller);
    if (kept !== undefined) return kept;
    const result = await this.#run({ kind: 'prepare', file, limits, preprocessing, plan }, caller);
    if (result.kind !== 'views') throw new Error('a picture was prepared, and something else came of it');
    this.#kept.add(slotOf(hash, preprocessing, plan, caller), result.views);
    return result.views;
  }

  /** What became of a file of this hash before, if that is still there. */
  kept(
    hash: string,
    preprocessing: PreprocessingSpec,
    plan: ViewPlan,
    caller: JobCaller = {},
  ): readonly ImageView[] | undefined {
    return this.#kept.find(slotOf(hash, preprocessing, plan, caller));
  }

  async close(): Promise<void> {
    await Promise.all(this.#lanes.map(({ queue }) => queue.close()));
  }

  async #run(work: PictureWork, caller: JobCaller): Promise<PictureResult> {
    caller.signal?.throwIfAborted();
    const lane = this.#lanes.reduce((least, one) => (one.jobs < least.jobs ? one : least));
    lane.jobs++;
    try {
      const result = await lane.queue.run(work, caller);
      if (result.kind === 'refused') throw new PictureError(result.message);
      return result;
    } catch (error) {
      if (error instanceof JobTooLong) throw new PictureError(`the image cannot be read: ${error.message}`);
      throw error;
    } finally {
      lane.jobs--;
    }
  }
}

/** Nobody learns by its time whether another account has shown the same. */
function slotOf(
  hash: string,
  preprocessing: PreprocessingSpec,
  plan: ViewPlan,
  { account }: JobCaller,
): string {
  return `${account ?? ''} ${pictureKey(hash, preprocessing, plan)}`;
}
