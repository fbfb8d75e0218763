// Keeps streams that have begun in the database, so that clients can resume them after a lost connection, and at the next
// process after a stop or a crash. Tokens follow a tenth of a second behind, those of all answers in one write; what a dead
// process has left is charged once, as far as it is known to have come.

import { createHash } from 'node:crypto';
import type { Seal } from '../../runtime/seal.ts';
import type {
  Counts,
  EndedRow,
  KeptRequestStore,
  KeptRow,
  KeptState,
  NewRow,
} from '../../store/kept-request-store.ts';
import { isGone } from '../../store/lease-owner.ts';
import type { KeptRequest, RequestArchive } from '../context.ts';
import { AnswerLog, type AnswerTokens, answersIn, longerOf, packTokens, unpackTokens } from './answer-log.ts';

/** What is new waits for others that come now, and tokens for so long. */
const BEGIN_MS = 5;
const TOKENS_MS = 100;
const AFTER_FAILURE_MS = 1000;
/** A first token waits no longer for a busy database. */
const PATIENCE_MS = 100;
const PRUNE_EVERY_MS = 30_000;
/** After so many bytes of tokens those that are over make room. */
const REWRITE_BYTES = 512 * 1024;
const ROWS_DROPPED = 64;
/** From the end of an answer that was cut short, and of one that was sent. */
const KEEP_MS: Readonly<Record<Exclude<KeptState, 'running'>, number>> = { cut: 900_000, whole: 120_000 };

export interface LostAnswer {
  readonly answerId: string;
  readonly keyId: string;
  readonly used: Counts;
}

interface StoreArchiveOptions {
  readonly store: KeptRequestStore;
  readonly seal: Seal;
  /** The name of this process among those of the database. */
  readonly owner: string;
  readonly maxBytes: number;
  /** Charges what clients had received of processes that are gone; each answer counts once, however often it is given. */
  readonly charge: (lost: readonly LostAnswer[]) => Promise<void>;
  readonly onProblem: (message: string, error?: unknown) => void;
}

interface Waiting {
  readonly row: NewRow;
  readonly resolve: (isKept: boolean) => void;
}

export class StoreArchive implements RequestArchive {
  readonly #options: StoreArchiveOptions;
  readonly #log = new AnswerLog();
  readonly #waiting: Waiting[] = [];
  readonly #ended = new Map<string, EndedRow>();
  #writing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #dueMs = Number.POSITIVE_INFINITY;
  #pruning: NodeJS.Timeout | undefined;
  #position = 0;
  #bytes = 0;
  #tokenBytes = 0;
  #failing = false;
  #full = false;

  constructor(options: StoreArchiveOptions) {
    this.#options = options;
  }

  /** Settles what processes that are gone have left. Must be called before requests are. */
  async open(): Promise<void> {
    const maintain = () =>
      this.#maintain().catch((error: unknown) =>
        this.#options.onProblem('kept streams cannot be tidied up', error),
      );
    await maintain();
    this.#pruning = setInterval(() => void maintain(), PRUNE_EVERY_MS).unref();
  }

  follow(answerId: string): (choice: number, token: number) => void {
    const note = this.#log.begin(answerId);
    return (choice, token) => {
      note(choice, token);
      this.#writeWithin(TOKENS_MS);
    };
  }

  async keep(request: KeptRequest): Promise<boolean> {
    const name = nameOf(request.keyId, request.id);
    const { keyId, answerId, counted, ended, tokens = [], ...rest } = request;
    if (ended !== undefined) {
      this.#end(name, ended, counted, longerOf(tokens, this.#log.end(answerId)));
      return true;
    }
    if (this.#failing) return this.#notKept(answerId);
    const content = JSON.stringify({ ...rest, keyId, answerId, counted });
    const body = this.#options.seal.close(Buffer.from(content), name);
    if (this.#bytes + body.length > this.#options.maxBytes && !(await this.#makeRoom(body.length))) {
      return this.#notKept(answerId);
    }
    this.#bytes += body.length;
    const isKept = await new Promise<boolean>((resolve) => {
      const row = { name, keyId, body, counted, tokens: this.#sealTokens(name, tokens) };
      this.#waiting.push({ row, resolve });
      this.#writeWithin(BEGIN_MS);
    });
    return isKept || this.#notKept(answerId);
  }

  async find(keyId: string, id: string): Promise<KeptRequest | undefined> {
    const name = nameOf(keyId, id);
    const { store } = this.#options;
    // Work that no client waits for asks for each request, and most are new: nothing needs to be written for that.
    const isNew = this.#ended.has(name) || this.#waiting.some(({ row }) => row.name === name);
    await this.#writing;
    if (!isNew && (await store.find(name)) === undefined) return undefined;
    await this.#flush();
    const row = await store.find(name);
    const kept = row && this.#opened(row);
    if (row === undefined || kept?.keyId !== keyId || kept.id !== id) return undefined;
    const logged = row.state === 'running' ? await this.#loggedBy(row.owner) : undefined;
    const tokens = longerOf(this.#tokensIn(row), logged?.get(kept.answerId) ?? []);
    return { ...kept, counted: row.counted ?? kept.counted, tokens };
  }

  async close(): Promise<void> {
    clearInterval(this.#pruning);
    await this.#flush();
    clearTimeout(this.#timer);
  }

  #end(name: string, state: 'whole' | 'cut', counted: Counts | undefined, tokens: AnswerTokens): void {
    const sealed = state === 'whole' ? undefined : this.#sealTokens(name, tokens);
    this.#ended.set(name, { name, state, counted, tokens: sealed });
    this.#writeWithin(TOKENS_MS);
  }

  #notKept(answerId: string): false {
    this.#log.end(answerId);
    return false;
  }

  #writeWithin(delayMs: number): void {
    const dueMs = performance.now() + (this.#failing ? AFTER_FAILURE_MS : delayMs);
    if (this.#timer !== undefined && this.#dueMs <= dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = dueMs;
    this.#timer = setTimeout(() => void this.#flush(), dueMs - performance.now());
    // Tokens alone keep no process alive; somebody waits for what has begun.
    if (this.#waiting.length === 0) this.#timer.unref();
  }

  /** Never fails: what cannot be written is tried again. */
  #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async #write(): Promise<void> {
    const waiting = this.#waiting.splice(0);
    const ended = [...this.#ended.values()];
    this.#ended.clear();
    if (waiting.length === 0 && ended.length === 0 && !this.#log.hasNews) return;
    const { kept, ...tokens } = this.#tokensToWrite();
    try {
      const begun = waiting.map(({ row }) => row);
      await this.#options.store.write(this.#options.owner, { begun, ended, ...tokens }, PATIENCE_MS);
      kept();
      for (const { resolve } of waiting) resolve(true);
      if (this.#failing) this.#options.onProblem('streams are kept again');
      this.#failing = false;
    } catch (error) {
      this.#failed(waiting, ended, error);
    }
  }

  #failed(waiting: readonly Waiting[], ended: readonly EndedRow[], error: unknown): void {
    this.#log.putBack();
    for (const one of ended) if (!this.#ended.has(one.name)) this.#ended.set(one.name, one);
    for (const { row, resolve } of waiting) {
      this.#bytes -= row.body.length;
      resolve(false);
    }
    if (!this.#failing) {
      this.#options.onProblem(
        'streams cannot be kept now: clients cannot come back to those that begin',
        error,
      );
    }
    this.#failing = true;
    this.#writeWithin(AFTER_FAILURE_MS);
  }

  #tokensToWrite(): {
    readonly tokens: { position: number; body: Uint8Array; replaces: number | undefined } | undefined;
    readonly kept: () => void;
  } {
    if (!this.#log.hasNews) return { tokens: undefined, kept: () => {} };
    const { owner, seal } = this.#options;
    const news = this.#log.takeNews();
    const isLong = this.#tokenBytes > REWRITE_BYTES;
    const record = isLong ? this.#log.all() : news.record;
    const position = ++this.#position;
    const body = seal.close(record, recordName(owner, position));
    const kept = () => {
      news.kept();
      this.#tokenBytes = isLong ? 0 : this.#tokenBytes + body.length;
    };
    return { tokens: { position, body, replaces: isLong ? position - 1 : undefined }, kept };
  }

  async #makeRoom(bytes: number): Promise<boolean> {
    const { store, maxBytes, onProblem } = this.#options;
    const hasRoom = () => this.#bytes + bytes <= maxBytes;
    // Each that is dropped leaves room for one of its size; what runs and what was cut short stays.
    try {
      await store.dropWhole(ROWS_DROPPED);
      this.#bytes = await store.bytes();
    } catch (error) {
      onProblem('kept streams cannot be tidied up', error);
    }
    if (!hasRoom() && !this.#full) {
      onProblem(
        `streams take ${this.#bytes} bytes of the ${maxBytes} that --archive-bytes allows: clients cannot come back to those that begin now`,
      );
    }
    this.#full = !hasRoom();
    return hasRoom();
  }

  async #maintain(): Promise<void> {
    const { store, owner } = this.#options;
    const nowMs = await store.nowMs();
    for (const [other, lastMs] of await store.owners()) {
      if (other === owner) continue;
      // Of other machines it is not known whether they live: silence decides.
      if (isGone(other) || Math.abs(nowMs - lastMs) > KEEP_MS.cut) await this.#settle(other);
    }
    this.#bytes = await store.prune(KEEP_MS);
  }

  async #settle(owner: string): Promise<void> {
    const { store, charge } = this.#options;
    const logged = await this.#loggedBy(owner);
    const ended: EndedRow[] = [];
    const lost: LostAnswer[] = [];
    for (const row of await store.runningOf(owner)) {
      const { name } = row;
      const kept = this.#opened(row);
      const tokens = longerOf(this.#tokensIn(row), logged.get(kept?.answerId ?? '') ?? []);
      const used = kept && usedBy(kept, tokens);
      if (kept !== undefined && used !== undefined)
        lost.push({ answerId: kept.answerId, keyId: kept.keyId, used });
      ended.push({
        name,
        state: 'cut',
        counted: used ?? row.counted,
        tokens: this.#sealTokens(name, tokens),
      });
    }
    // In this order: what is charged twice counts once, and what is settled is not charged again.
    if (lost.length > 0) await charge(lost);
    await store.settle(owner, ended);
  }

  async #loggedBy(owner: string): Promise<ReadonlyMap<string, AnswerTokens>> {
    const records: Uint8Array[] = [];
    for (const [position, body] of await this.#options.store.tokensOf(owner)) {
      const record = this.#options.seal.open(body, recordName(owner, position));
      if (record !== undefined) records.push(record);
    }
    return answersIn(records);
  }

  #opened({ name, body }: KeptRow): KeptRequest | undefined {
    const plain = this.#options.seal.open(body, name);
    return plain && (JSON.parse(Buffer.from(plain).toString()) as KeptRequest);
  }

  #tokensIn({ name, tokens }: KeptRow): AnswerTokens {
    const plain = tokens && this.#options.seal.open(tokens, tokensName(name));
    return plain === undefined ? [] : unpackTokens(plain);
  }

  #sealTokens(name: string, tokens: AnswerTokens): Uint8Array | undefined {
    if (tokens.length === 0) return undefined;
    return this.#options.seal.close(packTokens(tokens), tokensName(name));
  }
}

/** Undefined where its client has received nothing, or is charged elsewhere. A prompt counts once one of its answers has begun. */
function usedBy(
  { basis, counted, chargedWithAnswer }: KeptRequest,
  tokens: AnswerTokens,
): Counts | undefined {
  const completionTokens = tokens.reduce((sum, { length }) => sum + length, 0);
  if (completionTokens === 0 || basis === undefined || chargedWithAnswer) return undefined;
  const { promptTokens, choices } = basis;
  const begun = promptTokens.filter((_, prompt) =>
    tokens.slice(prompt * choices, (prompt + 1) * choices).some(({ length }) => length > 0),
  );
  return {
    promptTokens: Math.max(
      begun.reduce((sum, count) => sum + count, 0),
      counted?.promptTokens ?? 0,
    ),
    cachedTokens: counted?.cachedTokens ?? 0,
    completionTokens: Math.max(completionTokens, counted?.completionTokens ?? 0),
  };
}

/** A hash, so that neither ids nor keys can be read from the database. */
function nameOf(keyId: string, id: string): string {
  return createHash('sha256').update(`${keyId}\n${id}`).digest('base64url').slice(0, 32);
}

function tokensName(name: string): string {
  return `${name}.tokens`;
}

function recordName(owner: string, position: number): string {
  return `${owner}.${position}`;
}
