// Reads a batch's input into lines that can be run. After an interruption it starts over.

import { setImmediate as turn } from 'node:timers/promises';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { BatchLines, NewLine } from '../../store/batch-lines.ts';
import type { BatchProblem, BatchRecord } from '../../store/batch-record.ts';
import type { BatchStore } from '../../store/batch-store.ts';
import type { FileStore } from '../../store/file-store.ts';
import type { ServerSettings } from '../settings.ts';
import { fileLines } from './file-lines.ts';
import { LineCheck } from './line-check.ts';
import { forgetLines } from './write-out.ts';

const MOST_PROBLEMS = 100;
const LINES_AT_ONCE = 128;
const BYTES_AT_ONCE = 1024 * 1024;

interface ReadInDeps {
  readonly files: FileStore;
  readonly store: BatchStore;
  readonly lines: BatchLines;
  readonly pool: ModelPool;
  readonly settings: Pick<ServerSettings, 'bodyLimitBytes' | 'maxBatchLines'>;
  /** The server that reads it; nothing is changed where another server has taken the batch. */
  readonly owner: string;
}

/** `goOn`: whether this server still holds the batch. */
export async function readIn(
  deps: ReadInDeps,
  batch: BatchRecord,
  goOn: () => Promise<boolean>,
): Promise<void> {
  const { store, lines, owner } = deps;
  while (await lines.forgetRead(batch.id, LINES_AT_ONCE, owner)) await turn();
  const read = await readLines(deps, batch, goOn);
  if (read === undefined) return;
  if (read.problems.length === 0) {
    await store.begin(batch.id, read.total, owner, await store.nowMs());
    return;
  }
  if (await store.fail(batch.id, read.problems, await store.nowMs())) await forgetLines(lines, batch.id);
}

interface ReadLines {
  readonly total: number;
  readonly problems: readonly BatchProblem[];
}

async function readLines(
  { files, lines, pool, settings, owner }: ReadInDeps,
  { id, keyId, inputFileId, endpoint }: BatchRecord,
  goOn: () => Promise<boolean>,
): Promise<ReadLines | undefined> {
  const file = await files.find(keyId, inputFileId);
  if (file === undefined) return { total: 0, problems: [gone] };
  const check = new LineCheck(endpoint, pool);
  const problems: BatchProblem[] = [];
  let slice: NewLine[] = [];
  let sliceBytes = 0;
  let total = 0;
  let bytes = 0;
  const counted = async function* () {
    for await (const chunk of files.chunks(inputFileId)) {
      bytes += chunk.length;
      yield chunk;
    }
  };
  for await (const given of fileLines(counted(), settings.bodyLimitBytes)) {
    if ('text' in given && given.text.trim() === '') continue;
    if (++total > settings.maxBatchLines) {
      const message = `more than ${settings.maxBatchLines} requests, the most that a batch may have`;
      problems.push({ code: 'too_many_tasks', message, line: given.number });
    }
    if (total > settings.maxBatchLines || problems.length >= MOST_PROBLEMS) break;
    const checked = check.check(given);
    if (!checked.ok) problems.push(checked.problem);
    else if (problems.length === 0) {
      slice.push(checked.line);
      sliceBytes += checked.line.body.length;
    }
    if (total % LINES_AT_ONCE !== 0 && sliceBytes < BYTES_AT_ONCE) continue;
    if (!(await goOn()) || !(await lines.add(id, slice, owner))) return undefined;
    slice = [];
    sliceBytes = 0;
    await turn();
  }
  if (problems.length > 0) return { total, problems };
  if (bytes < file.bytes) return { total, problems: [gone] };
  if (total === 0) return { total, problems: [{ code: 'empty_file', message: 'the file has no requests' }] };
  if (!(await lines.add(id, slice, owner))) return undefined;
  return { total, problems };
}

const gone: BatchProblem = {
  code: 'file_not_found',
  message: 'the input file was deleted before it was read',
  param: 'input_file_id',
};
