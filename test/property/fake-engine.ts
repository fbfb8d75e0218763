// A small engine around the scheduler whose backend really keeps data. A K/V row is a hash chained over the
// row before it, read through the block table, so a wrong block, a lost copy or an overwritten row changes
// every later row; a sampled token depends on its row alone, so outputs must equal those of a lone run.

import { BLOCK_TOKENS } from '../../src/compute/backend.ts';
import type { BlockCopy } from '../../src/engine/cache/block-tables.ts';
import { checkIntegrity } from '../../src/engine/scheduler/integrity.ts';
import { Scheduler, type SchedulerOptions } from '../../src/engine/scheduler/scheduler.ts';
import type { StepItem, StepPlan } from '../../src/engine/scheduler/step-plan.ts';
import { type Priority, Sequence } from '../../src/engine/sequence.ts';

const STOP_TOKEN = 0;
const VOCABULARY = 200;

export interface Request {
  readonly prompt: readonly number[];
  readonly newTokens: number;
  readonly priority?: Priority;
  readonly salt?: string;
  readonly account?: string;
  readonly choices?: number;
  /** Goes on to the last of its new tokens whatever is sampled. */
  readonly ignoreStop?: boolean;
}

export interface Choice {
  readonly sequence: Sequence;
  readonly request: Request;
  readonly index: number;
  ended: 'no' | 'finished' | 'cancelled';
}

/** The duration of a fake step: fixed cost, per token, per attended token. */
export function fakeStepMs({ load }: StepPlan): number {
  return load.tokens === 0 ? 0 : 20 + 0.5 * load.tokens + 0.001 * load.attended;
}

export class FakeEngine {
  readonly scheduler: Scheduler;
  readonly choices = new Map<Sequence, Choice>();
  nowMs = 0;
  steps = 0;
  copies = 0;
  readonly #rows: Int32Array;
  readonly #ownRowsOf = new WeakMap<Sequence, number[]>();
  readonly #saltOf: (string | undefined)[] = [];
  #ids = 0;

  constructor(options: SchedulerOptions) {
    this.scheduler = new Scheduler(options);
    this.#rows = new Int32Array(options.blockCount * BLOCK_TOKENS).fill(-1);
  }

  submit(request: Request): Sequence {
    const sequence = new Sequence({
      id: `s${this.#ids++}`,
      tokens: Int32Array.from(request.prompt),
      maxTokens: request.prompt.length + request.newTokens,
      priority: request.priority ?? 1,
      enqueuedMs: this.nowMs,
      ...(request.salt === undefined ? {} : { salt: request.salt }),
      ...(request.account === undefined ? {} : { account: request.account }),
    });
    const result = this.scheduler.add(sequence);
    if (!result.accepted) throw new Error(result.reason);
    this.choices.set(sequence, { sequence, request, index: 0, ended: 'no' });
    return sequence;
  }

  cancel(sequence: Sequence): void {
    const choice = this.choices.get(sequence) as Choice;
    this.scheduler.finish(sequence);
    if (choice.ended === 'no') choice.ended = 'cancelled';
  }

  /** One whole cycle, with every check. `during` runs while the step computes. */
  step(during: () => void = () => {}): StepPlan {
    const plan = this.scheduler.plan();
    this.#copy(plan.copies);
    checkNoSharedWrites(plan);
    for (const item of plan.items) this.#compute(item);
    const sampling = plan.items.filter((item) => item.samples);
    const tokens = sampling.map(({ sequence }) => this.#sample(sequence, this.#choice(sequence).index));
    during();
    this.scheduler.commit(plan, tokens, fakeStepMs(plan));
    for (const { sequence } of sampling) this.#afterToken(sequence);
    this.nowMs += fakeStepMs(plan);
    this.steps += 1;
    checkIntegrity(this.scheduler);
    return plan;
  }

  /** Steps until nothing is left; throws where that does not come to pass. */
  drain(maxSteps = 20_000): void {
    for (let i = 0; this.scheduler.running.length + this.scheduler.waitingCount > 0; i++) {
      if (i === maxSteps) throw new Error(`not finished after ${maxSteps} steps`);
      if (this.step().items.length === 0) throw new Error('an empty step although sequences wait');
    }
  }

  /** Every finished choice must have the tokens it would have had alone. */
  checkOutputs(): void {
    for (const { sequence, request, index, ended } of this.choices.values()) {
      if (ended === 'no') throw new Error(`${sequence.id} did not end`);
      const alone = outputAlone(request, index);
      const got = [...sequence.tokens.subarray(request.prompt.length)];
      const expected = ended === 'finished' ? alone : alone.slice(0, got.length);
      if (got.join() !== expected.join()) {
        throw new Error(`${sequence.id} gave ${got.join()}, alone ${expected.join()}`);
      }
    }
  }

  #choice(sequence: Sequence): Choice {
    return this.choices.get(sequence) as Choice;
  }

  #copy(copies: readonly BlockCopy[]): void {
    for (const [from, to] of copies) {
      this.#rows.copyWithin(to * BLOCK_TOKENS, from * BLOCK_TOKENS, (from + 1) * BLOCK_TOKENS);
      this.#saltOf[to] = this.#saltOf[from];
      this.copies += 1;
    }
  }

  #compute({ sequence, start, count, samples }: StepItem): void {
    const fits = sequence.blocks.length * BLOCK_TOKENS >= start + count;
    if (sequence.state !== 'running' || count < 1 || start !== sequence.computed || !fits) {
      throw new Error(`${sequence.id}, ${sequence.state}: bad item ${start} + ${count}`);
    }
    if (samples !== (start + count === sequence.length)) throw new Error(`${sequence.id}: bad samples flag`);
    this.#checkHistory(sequence, start);
    for (let position = start; position < start + count; position++) {
      this.#rows[rowOf(sequence, position)] = this.#nextRow(sequence, position);
      this.#saltOf[sequence.blocks[Math.floor(position / BLOCK_TOKENS)] as number] = sequence.salt;
    }
  }

  #nextRow(sequence: Sequence, position: number): number {
    const before = position === 0 ? 1 : (this.#rows[rowOf(sequence, position - 1)] as number);
    return chain(before, sequence.storage[position] as number);
  }

  /** What the step would read is the sequence's own history, written for its own tenant. */
  #checkHistory(sequence: Sequence, end: number): void {
    const own = this.#ownRows(sequence, end);
    for (let position = 0; position < end; position++) {
      if (this.#rows[rowOf(sequence, position)] !== own[position]) {
        throw new Error(`${sequence.id} would read a foreign row at ${position} of ${end}`);
      }
    }
    for (let i = 0; i < Math.ceil(end / BLOCK_TOKENS); i++) {
      const salt = this.#saltOf[sequence.blocks[i] as number];
      if (salt !== sequence.salt)
        throw new Error(`${sequence.id} of '${sequence.salt}' reads a block of '${salt}'`);
    }
  }

  /** The rows that the sequence's tokens make, without any block. */
  #ownRows(sequence: Sequence, end: number): readonly number[] {
    let rows = this.#ownRowsOf.get(sequence);
    if (rows === undefined) {
      rows = [];
      this.#ownRowsOf.set(sequence, rows);
    }
    while (rows.length < end) rows.push(chain(rows.at(-1) ?? 1, sequence.storage[rows.length] as number));
    return rows;
  }

  #sample(sequence: Sequence, index: number): number {
    return sampleRow(this.#rows[rowOf(sequence, sequence.length - 1)] as number, index);
  }

  #afterToken(sequence: Sequence): void {
    const choice = this.#choice(sequence);
    if (choice.ended !== 'no' || sequence.state !== 'running') return;
    const { request, index } = choice;
    if (index === 0 && sequence.length === request.prompt.length + 1) this.#forkChoices(choice);
    const last = sequence.storage[sequence.length - 1] as number;
    if (sequence.length === sequence.maxTokens || stops(request, last)) {
      this.scheduler.finish(sequence);
      choice.ended = 'finished';
    }
  }

  #forkChoices({ sequence, request }: Choice): void {
    const row = this.#rows[rowOf(sequence, sequence.computed - 1)] as number;
    for (let index = 1; index < (request.choices ?? 1); index++) {
      const token = sampleRow(row, index);
      if (stops(request, token) || request.newTokens === 1) continue;
      const child = this.scheduler.fork(sequence, `${sequence.id}.${index}`, token);
      this.choices.set(child, { sequence: child, request, index, ended: 'no' });
    }
  }
}

export function outputAlone(request: Request, index: number): number[] {
  let row = request.prompt.reduce(chain, 1);
  const output: number[] = [];
  while (output.length < request.newTokens) {
    const token = sampleRow(row, index);
    output.push(token);
    if (stops(request, token)) break;
    row = chain(row, token);
  }
  return output;
}

function stops({ ignoreStop }: Request, token: number): boolean {
  return token === STOP_TOKEN && ignoreStop !== true;
}

function checkNoSharedWrites({ items }: StepPlan): void {
  const writers = new Map<number, string>();
  for (const { sequence, start, count } of items) {
    for (let i = Math.floor(start / BLOCK_TOKENS); i * BLOCK_TOKENS < start + count; i++) {
      const block = sequence.blocks[i] as number;
      const other = writers.get(block);
      if (other !== undefined)
        throw new Error(`${sequence.id} and ${other} write to block ${block} in one step`);
      writers.set(block, sequence.id);
    }
  }
}

function rowOf(sequence: Sequence, position: number): number {
  return (
    (sequence.blocks[Math.floor(position / BLOCK_TOKENS)] as number) * BLOCK_TOKENS +
    (position % BLOCK_TOKENS)
  );
}

function chain(row: number, token: number): number {
  const mixed = Math.imul(row ^ (token + 0x7f4a7c15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 13);
}

function sampleRow(row: number, index: number): number {
  return (chain(row, index) >>> 3) % VOCABULARY;
}
