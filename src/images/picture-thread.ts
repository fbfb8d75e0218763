// The thread of `picture-workers.ts`: measures, decodes and resizes pictures.

import { createHash } from 'node:crypto';
import { parentPort, type Transferable } from 'node:worker_threads';
import type { PreprocessingSpec } from '../model/vision/preprocessing.ts';
import type { ImageView } from '../model/vision/vision-spec.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { FromJobThread } from '../runtime/job-thread.ts';
import { decodePicture, measurePicture, type PictureLimits } from './decode.ts';
import { PictureError } from './picture.ts';
import { preprocess } from './preprocess.ts';
import type { Size } from './resample.ts';
import type { ViewPlan } from './view-plan.ts';

export type PictureWork =
  | { readonly kind: 'measure'; readonly file: Uint8Array; readonly limits: PictureLimits }
  | {
      readonly kind: 'prepare';
      readonly file: Uint8Array;
      readonly limits: PictureLimits;
      readonly preprocessing: PreprocessingSpec;
      readonly plan: ViewPlan;
    };

export type PictureResult =
  | { readonly kind: 'measured'; readonly hash: string; readonly size: Size }
  | { readonly kind: 'views'; readonly views: readonly ImageView[] }
  /** The file is no picture, or not one that is taken. */
  | { readonly kind: 'refused'; readonly message: string };

async function answer(work: PictureWork): Promise<PictureResult> {
  try {
    if (work.kind === 'measure') {
      const size = await measurePicture(work.file, work.limits);
      return { kind: 'measured', hash: createHash('sha256').update(work.file).digest('hex'), size };
    }
    const picture = await decodePicture(work.file, work.limits);
    return { kind: 'views', views: preprocess(picture, work.preprocessing, work.plan) };
  } catch (error) {
    if (error instanceof PictureError) return { kind: 'refused', message: error.message };
    throw error;
  }
}

function send(message: FromJobThread<PictureResult>): void {
  parentPort?.postMessage(message, message.kind === 'result' ? buffersOf(message.result) : []);
}

/** Several views may lie in one buffer. */
function buffersOf(result: PictureResult): Transferable[] {
  if (result.kind !== 'views') return [];
  const owned = result.views.filter(({ rgb }) => rgb.byteLength === rgb.buffer.byteLength);
  return [...new Set(owned.map(({ rgb }) => rgb.buffer as ArrayBuffer))];
}

parentPort?.on('message', async (work: PictureWork) => {
  try {
    send({ kind: 'result', result: await answer(work) });
  } catch (error) {
    send({ kind: 'problem', message: messageOf(error) });
  }
});
send({ kind: 'ready' });
