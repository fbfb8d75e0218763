// The thread behind `encode-workers.ts`: opens one model's tokenizer and encodes what it is sent, in order.

import { parentPort, workerData } from 'node:worker_threads';
import { openModelFiles } from '../weights/open-model.ts';
import { openText } from './open-text.ts';
import type { EncodeOptions, Tokenizer } from './tokenizer.ts';

export interface EncodeJob {
  readonly ticket: number;
  readonly text: string;
  readonly options: EncodeOptions;
}

export type EncodeAnswer =
  | { readonly ticket: number; readonly ids: Int32Array<ArrayBuffer> }
  | { readonly ticket: number; readonly problem: string };

function openTokenizer(path: string): Tokenizer {
  const files = openModelFiles(path);
  try {
    return openText(files).tokenizer;
  } finally {
    files.weights.close();
  }
}

const tokenizer = openTokenizer(workerData as string);

parentPort?.on('message', ({ ticket, text, options }: EncodeJob) => {
  try {
    const ids = new Int32Array(tokenizer.encode(text, options));
    parentPort?.postMessage({ ticket, ids } satisfies EncodeAnswer, [ids.buffer]);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    parentPort?.postMessage({ ticket, problem } satisfies EncodeAnswer);
  }
});
