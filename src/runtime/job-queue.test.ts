import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { AccountTurns, JobQueue, JobTooLong } from './job-queue.ts';

const folder = mkdtempSync(join(tmpdir(), 'chairlift-jobs-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, 'thread.mjs');
writeFileSync(
  file,
  `import { parentPort } from 'node:worker_threads';
  parentPort.on('message', ({ sleepMs = 0, spinMs = 0 }) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, sleepMs);
    for (const end = performance.now() + spinMs; performance.now() < end; );
    parentPort.postMessage({ kind: 'result', result: 'done' });
  });
  parentPort.postMessage({ kind: 'ready' });`,
);

interface Work {
  readonly sleepMs?: number;
  readonly spinMs?: number;
}

describe('a job with a limit of time', () => {
  const queue = new JobQueue<Work, string>({ entry: pathToFileURL(file), limitMs: 200 });
  afterAll(() => queue.close());

  it('may wait for the processor for as long as it must', async () => {
    expect(await queue.run({ sleepMs: 600 }, {})).toBe('done');
  });

  it('is given up when it has used it up, and the next one gets a thread of its own', async () => {
    const endless = queue.run({ spinMs: 3_600_000 }, {});
    const next = queue.run({}, {});
    await expect(endless).rejects.toBeInstanceOf(JobTooLong);
    expect(await next).toBe('done');
  });

  it('is heard if it has answered while this thread was busy', async () => {
    const answer = queue.run({ sleepMs: 20 }, {});
    await new Promise((resolve) => setTimeout(resolve, 5));
    // From here timers come before messages.
    await new Promise((resolve) => setImmediate(resolve));
    for (const end = performance.now() + 500; performance.now() < end; );
    expect(await answer).toBe('done');
  });
});

function drain(turns: AccountTurns<string>): (string | undefined)[] {
  const order: (string | undefined)[] = [];
  while (!turns.empty) order.push(turns.take());
  return order;
}

describe('turns of accounts', () => {
  it('go around, whoever has how much, and keep the order within an account', () => {
    const turns = new AccountTurns<string>();
    for (const job of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) turns.add(job.slice(0, 1), job);
    expect(drain(turns)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('put an account that was just served behind those that wait', () => {
    const turns = new AccountTurns<string>();
    turns.add('a', 'a1');
    turns.add('b', 'b1');
    expect(turns.take()).toBe('a1');
    turns.add('a', 'a2');
    expect(drain(turns)).toEqual(['b1', 'a2']);
  });

  it('pass over a job that was removed, and an account that has none left', () => {
    const turns = new AccountTurns<string>();
    for (const job of ['a1', 'a2', 'b1', 'c1']) turns.add(job.slice(0, 1), job);
    turns.remove('a', 'a1');
    turns.remove('b', 'b1');
    turns.remove('c', 'never added');
    expect(drain(turns)).toEqual(['a2', 'c1']);
    expect(turns.take()).toBeUndefined();
  });
});
