// Takes batches through their states: reads their input, runs their lines a few at a time, writes their answers. All progress
// is in the store, so that the next server, on this or another machine, continues where this one ended.

import type { FastifyBaseLogger } from 'fastify';
import type { BatchRecord } from '../../store/batch-record.ts';
import { isGone } from '../../store/lease-owner.ts';
import type { BatchDeps, ServerContext } from '../context.ts';
import { filesOf } from '../files/routes.ts';
import { backgroundCaller, type Caller } from '../request/auth.ts';
import { LineRunner } from './line-runner.ts';
import type { LineServer } from './line-server.ts';
import { readIn } from './read-in.ts';
import { forgetLines, writeOut } from './write-out.ts';

/** Also how soon a batch that another machine took or changed is noticed. */
const POLL_MS = 1000;
const PRUNE_EVERY_MS = 3_600_000;
/** After this time others take over what a dead server held. */
const LEASE_MS = 30_000;
const RENEW_EVERY_MS = LEASE_MS / 3;
/** Also how soon reading stops after a batch is cancelled. */
const CLAIM_EVERY_MS = 1000;

export class BatchRunner {
  readonly #context: ServerContext;
  readonly #batches: BatchDeps;
  readonly #log: FastifyBaseLogger;
  readonly #lines: LineRunner;
  readonly #jobs = new Map<string, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #advancing: Promise<void> | undefined;
  #again = false;
  #started = false;
  #stopped = false;
  #prunedMs = Number.NEGATIVE_INFINITY;

  constructor(context: ServerContext, batches: BatchDeps, server: LineServer) {
    this.#context = context;
    this.#batches = batches;
    this.#log = context.logger;
    this.#lines = new LineRunner({
      queue: batches.lines,
      owner: batches.owner,
      leaseMs: LEASE_MS,
      server,
      log: this.#log,
      onEnd: () => this.wake(),
    });
  }

  /** Continues what servers of this machine had begun before they ended. */
  async start(): Promise<void> {
    // Where that fails, the leases run out by themselves.
    await this.#takeOver().catch((error: unknown) => this.#log.error({ err: error }, 'batches'));
    if (this.#stopped) return;
    this.#started = true;
    this.#timer = setInterval(() => this.wake(), POLL_MS).unref();
    this.wake();
  }

  wake(): void {
    if (!this.#started || this.#stopped) return;
    this.#again = true;
    this.#advancing ??= this.#advanceAll().finally(() => {
      this.#advancing = undefined;
    });
  }

  /** Begins nothing new; lines that run continue, and this server keeps their leases. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#timer = setInterval(() => void this.#renew(), POLL_MS).unref();
  }

  /** Resolves when nothing runs. Does not end requests: the caller must. */
  async close(): Promise<void> {
    this.stop();
    await this.#advancing;
    await Promise.all([...this.#jobs.values(), this.#lines.settled()]);
    clearInterval(this.#timer);
  }

  async #renew(): Promise<void> {
    await this.#lines
      .renew(RENEW_EVERY_MS)
      .catch((error: unknown) => this.#log.error({ err: error }, 'batches'));
  }

  async #takeOver(): Promise<void> {
    const { lines } = this.#batches;
    const gone = (await lines.owners()).filter(isGone);
    for (const owner of gone) await lines.giveBackAll(owner);
  }

  async #advanceAll(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      try {
        await this.#advance();
      } catch (error) {
        this.#log.error({ err: error }, 'batches');
        return;
      }
    }
  }

  async #advance(): Promise<void> {
    const open = await this.#batches.store.open();
    const running: RunningBatch[] = [];
    const nowMs = open.length === 0 ? 0 : await this.#batches.store.nowMs();
    for (const batch of open) {
      if (batch.state !== 'in_progress') this.#startJob(batch);
      else {
        const caller = await this.#callerFor(batch, nowMs);
        if (caller !== undefined) running.push({ batch, caller });
      }
    }
    const ids = new Set(running.map(({ batch }) => batch.id));
    this.#lines.abortUnless((batchId) => ids.has(batchId));
    await this.#lines.renew(RENEW_EVERY_MS);
    await this.#fill(running);
    await this.#prune();
  }

  /** In whose name the lines of a batch run; undefined where none should run any more. */
  async #callerFor(
    { id, keyId, expiresMs, total, completed, failed }: BatchRecord,
    nowMs: number,
  ): Promise<Caller | undefined> {
    const { keys, settings } = this.#context;
    const { store } = this.#batches;
    const caller = await backgroundCaller(keyId, keys, settings.allowAnonymous);
    if (completed + failed >= total) await store.finalize(id, 'completed', nowMs);
    else if (nowMs >= expiresMs) await store.finalize(id, 'expired', nowMs);
    else if (caller === 'unsure') return undefined;
    else if (caller === undefined) await store.finalize(id, 'failed', nowMs, [revoked]);
    else return caller;
    this.#again = true;
    return undefined;
  }

  /** Requests of clients that wait go before all but one line. */
  async #fill(running: readonly RunningBatch[]): Promise<void> {
    const { admission, settings } = this.#context;
    let waiting = [...running];
    while (waiting.length > 0 && !this.#stopped) {
      const all = settings.batchConcurrency;
      const own = this.#batches.share?.(all) ?? all;
      const most = admission.awaited > 0 ? Math.min(1, own) : own;
      const free = most - this.#lines.count;
      if (free <= 0) return;
      const next = this.#least(waiting);
      const share = Math.ceil(free / waiting.length);
      const begun = await this.#lines.begin(next.batch, next.caller, share);
      if (begun < share) waiting = waiting.filter((one) => one !== next);
    }
  }

  /** The oldest batch of the key with the fewest running lines, so that neither a batch nor a key waits for another to end. */
  #least(batches: readonly RunningBatch[]): RunningBatch {
    const byBatch = this.#lines.countByBatch();
    const byKey = new Map<string, number>();
    for (const { batch } of batches) {
      byKey.set(batch.keyId, (byKey.get(batch.keyId) ?? 0) + (byBatch.get(batch.id) ?? 0));
    }
    const rank = ({ batch }: RunningBatch) =>
      [byKey.get(batch.keyId) ?? 0, byBatch.get(batch.id) ?? 0] as const;
    const [first] = batches.toSorted((a, b) => rank(a)[0] - rank(b)[0] || rank(a)[1] - rank(b)[1]);
    return first as RunningBatch;
  }

  #startJob(batch: BatchRecord): void {
    if (this.#jobs.has(batch.id)) return;
    let worked = false;
    const job = this.#runJob(batch)
      .then((did) => {
        worked = did;
      })
      .catch((error: unknown) => this.#log.error({ err: error, batch: batch.id }, 'batches'))
      .finally(() => {
        this.#jobs.delete(batch.id);
        // A batch that another server holds, or whose job failed, is polled again later.
        if (worked) this.wake();
      });
    this.#jobs.set(batch.id, job);
  }

  async #runJob(batch: BatchRecord): Promise<boolean> {
    const { pool, settings } = this.#context;
    const { store, lines, owner } = this.#batches;
    let claimedMs = Number.NEGATIVE_INFINITY;
    const goOn = async () => {
      if (this.#stopped) return false;
      if (performance.now() - claimedMs < CLAIM_EVERY_MS) return true;
      claimedMs = performance.now();
      const nowMs = await store.nowMs();
      return store.claim(batch.id, batch.state, { owner, nowMs, untilMs: nowMs + LEASE_MS });
    };
    if (!(await goOn())) return false;
    const parts = { files: filesOf(this.#context), store, lines };
    if (batch.state === 'validating') await readIn({ ...parts, pool, settings, owner }, batch, goOn);
    else await writeOut({ ...parts, keepFilesMs: settings.keepFilesMs }, batch, goOn);
    return true;
  }

  async #prune(): Promise<void> {
    if (performance.now() - this.#prunedMs < PRUNE_EVERY_MS) return;
    this.#prunedMs = performance.now();
    const { store, lines } = this.#batches;
    const { keepFilesMs } = this.#context.settings;
    for (const id of await lines.leftovers()) await forgetLines(lines, id);
    if (Number.isFinite(keepFilesMs)) await store.prune((await store.nowMs()) - keepFilesMs);
  }
}

interface RunningBatch {
  readonly batch: BatchRecord;
  readonly caller: Caller;
}

const revoked = {
  code: 'key_revoked',
  message: 'the key was revoked, or requests without a key are not served any more',
};
