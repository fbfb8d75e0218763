// The thread behind `encode-workers.ts`: opens one model's tokenizer, says so, and answers one job after another.

import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../failure/message-of.ts';
import { openModelFiles } from '../weights/open-model.ts';
import type { FromJobThread } from './job-thread.ts';
import { openText } from './open-text.ts';
import type { DecodeOptions, EncodeOptions, Tokenizer } from './tokenizer.ts';

export type EncodeWork =
  | { readonly kind: 'encode'; readonly text: string; readonly options: EncodeOptions }
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

function answer(work: EncodeWork): FromEncodeWorker {
  try {
    return { kind: 'result', result: resultOf(work) };
  } catch (error) {
    return { kind: 'problem', message: messageOf(error) };
  }
}

function resultOf(work: EncodeWork): EncodeResult {
  if (work.kind === 'decode') return { kind: 'text', text: tokenizer.decode(work.ids, work.options) };
  return { kind: 'ids', ids: new Int32Array(tokenizer.encode(work.text, work.options)) };
}

function send(message: FromEncodeWorker): void {
  const buffers =
    message.kind === 'result' && message.result.kind === 'ids' ? [message.result.ids.buffer] : [];
  parentPort?.postMessage(message, buffers);
}

const tokenizer = openTokenizer(workerData as string);
parentPort?.on('message', (work: EncodeWork) => send(answer(work)));
send({ kind: 'ready' });
