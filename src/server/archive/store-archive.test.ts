// Streams kept in a database, for the process that comes after the one that began them.

import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Seal } from '../../runtime/seal.ts';
import { type Database, IN_MEMORY, StoreError } from '../../store/database.ts';
import { KeptRequestStore } from '../../store/kept-request-store.ts';
import { newLeaseOwner } from '../../store/lease-owner.ts';
import { openDatabase } from '../../store/open-database.ts';
import type { KeptRequest } from '../context.ts';
import { type LostAnswer, StoreArchive } from './store-archive.ts';

const basis = { prompts: 'p', promptTokens: [7], choices: 1, fingerprint: 'f' };
const request: KeptRequest = {
  id: 'one',
  keyId: 'mine',
  route: '/v1/completions',
  body: '{"prompt":"a secret of alice"}',
  answerId: 'cmpl-1',
  seed: { low: 1, high: 2 },
  arrivedMs: 1,
  model: 'm',
  settings: { samplingDefaults: {}, useModelSampling: true },
  basis,
};

async function openAt(path = IN_MEMORY): Promise<Database> {
  const database = await openDatabase(path);
  onTestFinished(() => database.close());
  return database;
}

/** `dead`: a process of this machine that is not there any more. */
function ownerOf(dead: boolean): string {
  const [host] = newLeaseOwner().split(':');
  return dead ? `${host}:4194305:${randomBytes(6).toString('hex')}:x` : newLeaseOwner();
}

function archiveAt(
  database: Database,
  { dead = false, maxBytes = 1e6, secret = 'a secret of the store' } = {},
) {
  const lost: LostAnswer[] = [];
  const problems: string[] = [];
  const archive = new StoreArchive({
    store: new KeptRequestStore(database),
    seal: new Seal(secret, randomBytes),
    owner: ownerOf(dead),
    maxBytes,
    charge: async (some) => void lost.push(...some),
    onProblem: (message) => problems.push(message),
  });
  onTestFinished(() => archive.close());
  return { archive, lost, problems };
}

/** Until what it has heard is written, as it is within moments. */
function written(database: Database, tokens: number) {
  return vi.waitFor(async () => {
    const next = archiveAt(database).archive;
    expect((await next.find('mine', 'one'))?.tokens?.flat()).toHaveLength(tokens);
  });
}

it('gives the next process the request and its tokens, though nobody closed the first', async () => {
  const database = await openAt();
  const before = archiveAt(database, { dead: true }).archive;
  const token = before.follow(request.answerId);
  expect(await before.keep(request)).toBe(true);
  for (let at = 0; at < 20; at++) token(at % 2, 100 + at);
  await written(database, 20);
  const { archive, lost } = archiveAt(database);
  await archive.open();
  const found = await archive.find('mine', 'one');
  const [even, odd] = [0, 1].map((choice) => Array.from({ length: 10 }, (_, at) => 100 + 2 * at + choice));
  expect(found).toMatchObject({ ...request, tokens: [even, odd] });
  expect(lost).toEqual([
    { answerId: 'cmpl-1', keyId: 'mine', used: { promptTokens: 7, cachedTokens: 0, completionTokens: 20 } },
  ]);
});

it('charges what a dead process has left once, however many come after it', async () => {
  const database = await openAt();
  const before = archiveAt(database, { dead: true }).archive;
  const token = before.follow(request.answerId);
  await before.keep(request);
  token(0, 1);
  await written(database, 1);
  const charged = [];
  for (let at = 0; at < 3; at++) {
    const { archive, lost } = archiveAt(database, { dead: true });
    await archive.open();
    charged.push(lost.length);
  }
  expect(charged).toEqual([1, 0, 0]);
  // What was charged is told to the connection that goes on with it, and so not held against its key again.
  const counted = { promptTokens: 7, cachedTokens: 0, completionTokens: 1 };
  expect(await archiveAt(database).archive.find('mine', 'one')).toMatchObject({ counted, tokens: [[1]] });
});

it('charges nothing of what no client has received, or was charged when it ended', async () => {
  const database = await openAt();
  const before = archiveAt(database, { dead: true }).archive;
  for (const [at, ended] of [undefined, 'whole', 'cut'].entries()) {
    const one = { ...request, id: `${at}`, answerId: `answer-${at}` };
    const token = before.follow(one.answerId);
    await before.keep(one);
    if (ended !== undefined) token(0, 5);
    if (ended !== undefined) await before.keep({ ...one, ended: ended as 'whole' | 'cut' });
  }
  await before.close();
  const { archive, lost } = archiveAt(database);
  await archive.open();
  expect(lost).toEqual([]);
  expect(await archive.find('mine', '2')).toMatchObject({ tokens: [[5]] });
  expect(await archive.find('mine', '1')).toMatchObject({ tokens: [] });
});

it('leaves what a living process answers to that one', async () => {
  const database = await openAt();
  const { archive } = archiveAt(database);
  const token = archive.follow(request.answerId);
  await archive.keep(request);
  token(0, 3);
  await written(database, 1);
  const other = archiveAt(database);
  await other.archive.open();
  expect(other.lost).toEqual([]);
  token(0, 4);
  await written(database, 2);
});

it('is found by its own key alone, and by who has the secret', async () => {
  const database = await openAt();
  const { archive } = archiveAt(database);
  await archive.keep(request);
  expect(await archive.find('mine', 'one')).toBeDefined();
  expect(await archive.find('other', 'one')).toBeUndefined();
  expect(await archive.find('mine', 'two')).toBeUndefined();
  expect(
    await archiveAt(database, { secret: 'another secret of 16' }).archive.find('mine', 'one'),
  ).toBeUndefined();
});

it('writes nothing of a prompt or an answer that could be read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-kept-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'a.db');
  const database = await openAt(path);
  const { archive } = archiveAt(database);
  const token = archive.follow(request.answerId);
  await archive.keep(request);
  for (let at = 0; at < 9; at++) token(0, 1234567);
  await archive.keep({ ...request, ended: 'cut' });
  await archive.close();
  await database.sync();
  const bytes = readFileSync(path).toString('latin1') + readFileSync(`${path}-wal`).toString('latin1');
  expect(bytes).toContain('kept_request');
  for (const text of ['secret of alice', '1234567', 'cmpl-1']) expect(bytes).not.toContain(text);
});

it('keeps the tokens of a long answer in little room', async () => {
  const database = await openAt();
  const { archive } = archiveAt(database, { dead: true });
  const token = archive.follow(request.answerId);
  await archive.keep(request);
  const writes = vi.spyOn(KeptRequestStore.prototype, 'write');
  onTestFinished(() => writes.mockRestore());
  // Each find writes what there is.
  for (let round = 0; round < 12; round++) {
    for (let at = 0; at < 10_000; at++) token(0, 100_000 + at);
    await archive.find('mine', 'one');
  }
  expect((await archive.find('mine', 'one'))?.tokens?.[0]).toHaveLength(120_000);
  const rows = await database.tables.selectFrom('kept_tokens').select('position').execute();
  expect(writes.mock.calls.length).toBeGreaterThanOrEqual(12);
  expect(rows.length).toBeLessThan(12);
});

it('makes room for new streams where there is none, by those that are over', async () => {
  const database = await openAt();
  // Three fit.
  const { archive, problems } = archiveAt(database, { maxBytes: 4500 });
  const large = { ...request, body: 'x'.repeat(1000) };
  expect(await archive.keep({ ...large, id: '1' })).toBe(true);
  await archive.keep({ ...large, id: '1', ended: 'whole' });
  await archive.find('mine', '1');
  for (const id of ['2', '3', '4', '5']) expect(await archive.keep({ ...large, id }), id).toBe(id !== '5');
  expect(await archive.find('mine', '1')).toBeUndefined();
  expect(problems).toEqual([expect.stringContaining('--archive-bytes')]);
});

it('answers streams that it cannot keep while the database fails, says so once, and keeps again', async () => {
  const database = await openAt();
  const { archive, problems } = archiveAt(database);
  const change = vi.spyOn(database, 'change');
  change.mockRejectedValue(new StoreError('refused', 'database or disk is full'));
  const token = archive.follow(request.answerId);
  const outcomes = await Promise.all(['one', 'b', 'c'].map((id) => archive.keep({ ...request, id })));
  expect(outcomes).toEqual([false, false, false]);
  expect(await archive.keep({ ...request, id: 'd' })).toBe(false);
  token(0, 1);
  expect(problems).toHaveLength(1);
  change.mockRestore();
  // The next token of another stream that was kept before, or any end, tries again.
  await archive.keep({ ...request, id: 'e', ended: 'cut' });
  await archive.find('mine', 'e');
  expect(await archive.keep({ ...request, id: 'f' })).toBe(true);
  expect(problems).toEqual([expect.stringContaining('cannot be kept'), expect.stringContaining('again')]);
});

it('forgets what nobody has asked for in a quarter of an hour, by a clock that may be set back', async () => {
  const database = await openAt();
  const { archive } = archiveAt(database);
  await archive.keep(request);
  await archive.keep({ ...request, ended: 'cut' });
  await archive.find('mine', 'one');
  const store = new KeptRequestStore(database);
  const realMs = Date.now();
  const clock = vi.spyOn(Date, 'now');
  onTestFinished(() => clock.mockRestore());
  const atMinute = async (minute: number) => {
    clock.mockReturnValue(realMs + minute * 60_000);
    await store.prune({ cut: 900_000, whole: 120_000 });
    return (await archive.find('mine', 'one')) !== undefined;
  };
  expect(await atMinute(14)).toBe(true);
  expect(await atMinute(-60)).toBe(true);
  expect(await atMinute(-46)).toBe(true);
  expect(await atMinute(-44)).toBe(false);
});
