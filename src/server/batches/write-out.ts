// Writes a batch's answers to its files, in the order of the input: successes to one, errors to the other. After
// an interruption it starts over; clients see the files only when the batch has ended.

import { Buffer } from 'node:buffer';
import { setImmediate as turn } from 'node:timers/promises';
import type { BatchLines, SettledLine } from '../../store/batch-lines.ts';
import type { BatchEnding, BatchRecord } from '../../store/batch-record.ts';
import type { BatchStore } from '../../store/batch-store.ts';
import type { FileStore } from '../../store/file-store.ts';
import type { FileWriter } from '../../store/file-writer.ts';
import { expiryOf, OUTPUT_PURPOSE } from '../files/file-object.ts';

/** How many lines are read at once: answers may be large, and are all in memory; lines without an answer are short. */
const FEWEST_LINES = 8;
const MOST_LINES = 512;
const TURN_BYTES = 64 * 1024;
const FORGOTTEN_AT_ONCE = 128;

interface WriteOutDeps {
  readonly files: FileStore;
  readonly store: BatchStore;
  readonly lines: BatchLines;
  readonly keepFilesMs: number;
}

export async function writeOut(
  { files, store, lines, keepFilesMs }: WriteOutDeps,
  batch: BatchRecord,
  goOn: () => Promise<boolean>,
): Promise<void> {
  const { id, keyId, ending = 'cancelled' } = batch;
  const writers = new Map<'output' | 'error', FileWriter>();
  const write = async (to: 'output' | 'error', text: string) => {
    const file = { purpose: OUTPUT_PURPOSE, name: `${id}_${to}.jsonl`, expiresMs: undefined };
    // Output is stored even where it exceeds the key's limit.
    const room = { maxKeyBytes: Number.POSITIVE_INFINITY };
    const writer = writers.get(to) ?? (await files.begin(keyId, { ...file, ...room }, await files.nowMs()));
    writers.set(to, writer);
    await writer.write(Buffer.from(`${text}\n`));
  };
  let ended = false;
  try {
    for (let [after, count] = [0, FEWEST_LINES]; ; ) {
      const some = await lines.settled(id, after, count);
      if (some.length === 0) break;
      let bytes = 0;
      for (const line of some) {
        const text = textOf(id, line, ending);
        bytes += text.length;
        await write(line.succeeded ? 'output' : 'error', text);
      }
      count = Math.min(MOST_LINES, Math.max(FEWEST_LINES, Math.floor((count * TURN_BYTES) / bytes)));
      after = some.at(-1)?.line ?? after;
      if (!(await goOn())) return;
      await turn();
    }
    for (const writer of writers.values()) await writer.flush();
    const nowMs = await store.nowMs();
    const written = {
      outputFileId: writers.get('output')?.id,
      errorFileId: writers.get('error')?.id,
      expiresMs: expiryOf(nowMs, batch.outputSeconds, keepFilesMs),
    };
    ended = await store.finish(id, ending, written, nowMs);
  } finally {
    if (!ended) for (const writer of writers.values()) await writer.discard().catch(() => {});
  }
  if (ended) await forgetLines(lines, id);
}

function textOf(batchId: string, { line, customId, answer }: SettledLine, ending: BatchEnding): string {
  return answer ?? unansweredLine(lineId(batchId, line), customId, ending);
}

/** Deletes the lines of a batch in small steps, since statements run on the thread that serves requests. */
export async function forgetLines(lines: BatchLines, batchId: string): Promise<void> {
  while (await lines.forget(batchId, FORGOTTEN_AT_ONCE)) await turn();
}

interface AnsweredLine {
  readonly id: string;
  readonly customId: string;
  readonly status: number;
  readonly requestId: string;
  readonly body: string;
}

/** Does not change when the line is run again. */
export function lineId(batchId: string, line: number): string {
  return `batch_req_${batchId.replace(/^batch_/, '')}_${line}`;
}

export function answeredLine({ id, customId, status, requestId, body }: AnsweredLine): string {
  const head = JSON.stringify({ id, custom_id: customId });
  const response = JSON.stringify({ status_code: status, request_id: requestId });
  return `${head.slice(0, -1)},"response":${response.slice(0, -1)},"body":${body}},"error":null}`;
}

export function failedLine(id: string, customId: string, code: string, message: string): string {
  return JSON.stringify({ id, custom_id: customId, response: null, error: { code, message } });
}

const reasons: Readonly<Record<BatchEnding, string>> = {
  completed: 'the request was not run',
  failed: 'the request was not run before the batch failed',
  expired: 'the request was not run before the time of the batch was over',
  cancelled: 'the request was not run before the batch was cancelled',
};

function unansweredLine(id: string, customId: string, ending: BatchEnding): string {
  return failedLine(id, customId, `batch_${ending}`, reasons[ending]);
}
