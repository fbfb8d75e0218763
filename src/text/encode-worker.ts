// The thread of `encode-workers.ts`: opens one model's tokenizer and answers jobs in turn. A long text pauses after
// each part.

import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../runtime/error-message.ts';
import type { FromJobThread } from '../runtime/job-thread.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { openText } from './open-text.ts';
import type { Steps } from './steps.ts';
import type { DecodeOptions, EncodeOptions, Tokenizer } from './tokenizer.ts';

export type EncodeWork =
  | {
      readonly kind: 'encode';
      readonly job: number;
      readonly text: string;
      readonly options: EncodeOptions;
    }
  | { readonly kind: 'resume' | 'forget'; readonly job: number }
  | { readonly kind: 'decode'; readonly ids: Int32Array<ArrayBuffer>; readonly options: DecodeOptions };

export type EncodeResult =
  | { readonly kind: 'ids'; readonly ids: Int32Array<ArrayBuffer> }
  | { readonly kind: 'text'; readonly text: string };

type FromEncodeWorker = FromJobThread<EncodeResult>;

function openTokenizer(path: string): Tokenizer {
  const files = openModelFiles(path);
  try {
    return openText(files).tokenizer;
  } finally {
    files.weights.close();
  }
}

const PART_MS = 20;

const paused = new Map<number, Steps<Int32Array>>();

function answer(work: Exclude<EncodeWork, { kind: 'forget' }>): FromEncodeWorker {
  try {
    return answerOf(work);
  } catch (error) {
    return { kind: 'problem', message: messageOf(error) };
  }
}

function answerOf(work: Exclude<EncodeWork, { kind: 'forget' }>): FromEncodeWorker {
  if (work.kind === 'decode') {
    return { kind: 'result', result: { kind: 'text', text: tokenizer.decode(work.ids, work.options) } };
  }
  const steps =
    work.kind === 'encode' ? tokenizer.encodeInSteps(work.text, work.options) : paused.get(work.job);
  if (steps === undefined) throw new Error('a text was asked for that does not rest here');
  paused.delete(work.job);
  return encodePart(work.job, steps);
}

function encodePart(job: number, steps: Steps<Int32Array>): FromEncodeWorker {
  const endMs = performance.now() + PART_MS;
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return { kind: 'result', result: { kind: 'ids', ids: new Int32Array(value) } };
    if (performance.now() < endMs) continue;
    paused.set(job, steps);
    return { kind: 'paused' };
  }
}

function send(message: FromEncodeWorker): void {
  const buffers =
    message.kind === 'result' && message.result.kind === 'ids' ? [message.result.ids.buffer] : [];
  parentPort?.postMessage(message, buffers);
}

const tokenizer = openTokenizer(workerData as string);
parentPort?.on('message', (work: EncodeWork) => {
  if (work.kind === 'forget') paused.delete(work.job);
  else send(answer(work));
});
send({ kind: 'ready' });
