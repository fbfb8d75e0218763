// A worker of a simulated fleet: continuous batching with prompts in chunks beside decoding rows, blocks, a prefix cache,
// preemption. A step takes base + row × rows + token × prompt tokens. Steps in which nothing but decoding happens are taken in
// one stride, so that a thousand workers are simulated quickly. Knows no gateway: it tells a listener what happens.

import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { Heap } from '#src/engine/scheduler/heap.ts';
import type { ModelStanding, Speeds } from '#src/fleet/routing/heartbeat.ts';
import type { EventQueue } from './event-queue.ts';
import { SimulatedCache } from './simulated-cache.ts';
import { compareDue, compareUrgency, type SequenceStart, SimulatedSequence } from './simulated-sequence.ts';

export interface WorkerShape {
  readonly speeds: Speeds;
  readonly blocks: number;
  readonly maxRunning: number;
}

export interface WorkerListener {
  /** The first token since it came to this worker. */
  onFirstToken(id: number, nowMs: number): void;
  onEnd(id: number, nowMs: number): void;
  /** Once for each sequence, when it is first admitted. */
  onAdmitted(id: number, cachedTokens: number): void;
}

export interface WorkerCounters {
  steps: number;
  /** One a step for each gateway that has sequences in it. */
  answerMessages: number;
  preemptions: number;
  computedPromptTokens: number;
}

/** As the engine's scheduler: admission stops where more of the blocks is in use. */
const WATERMARK = 0.85;
/** Weight of the last answer in the mean that heartbeats tell. */
const ANSWER_WEIGHT = 0.05;
const FIRST_ANSWER_GUESS = 128;

export class SimulatedWorker {
  readonly counters: WorkerCounters = {
    steps: 0,
    answerMessages: 0,
    preemptions: 0,
    computedPromptTokens: 0,
  };
  readonly #shape: WorkerShape;
  readonly #events: EventQueue;
  readonly #listener: WorkerListener;
  #cache: SimulatedCache;
  readonly #sequences = new Map<number, SimulatedSequence>();
  readonly #waiting = new Heap<SimulatedSequence>(compareUrgency);
  #prefilling: SimulatedSequence[] = [];
  readonly #decoding = new Heap<SimulatedSequence>(compareDue);
  readonly #rowsOfGateways: number[];
  readonly #queuedTokens: [number, number, number] = [0, 0, 0];
  readonly #waitingCount: [number, number, number] = [0, 0, 0];
  #answerTokens = FIRST_ANSWER_GUESS;
  #step = 0;
  /** The stride under way. */
  #stride:
    | { startMs: number; stepMs: number; steps: number; chunk: Map<SimulatedSequence, number> }
    | undefined;
  /** Changes whenever what was planned for the stride's end counts no more. */
  #plan = 0;

  constructor(shape: WorkerShape, gateways: number, events: EventQueue, listener: WorkerListener) {
    this.#shape = shape;
    this.#events = events;
    this.#listener = listener;
    this.#cache = new SimulatedCache(shape.blocks);
    this.#rowsOfGateways = Array.from({ length: gateways }, () => 0);
  }

  get cache(): SimulatedCache {
    return this.#cache;
  }

  submit(start: SequenceStart): void {
    const sequence = new SimulatedSequence(start);
    this.#sequences.set(start.id, sequence);
    this.#enqueue(sequence);
    const stride = this.#stride;
    if (stride === undefined) {
      this.#begin(this.#events.nowMs);
    } else if (stride.steps > 1) {
      // Admission comes with the next step, so the stride ends with the one under way.
      const done = Math.floor((this.#events.nowMs - stride.startMs) / stride.stepMs);
      this.#endAfter(Math.min(stride.steps, done + 1));
    }
  }

  /** Dies: what each unfinished sequence had given by then. Nothing is left in memory. */
  kill(): Map<number, number> {
    const stride = this.#stride;
    const done = stride === undefined ? 0 : Math.floor((this.#events.nowMs - stride.startMs) / stride.stepMs);
    const unfinished = new Map<number, number>();
    for (const [id, sequence] of this.#sequences) {
      const rows = this.#decoding.has(sequence) ? sequence.givenBy(this.#step + done) : 0;
      unfinished.set(id, Math.min(sequence.start.answerTokens - 1, sequence.before + rows));
      this.#waiting.remove(sequence);
      this.#decoding.remove(sequence);
    }
    this.#sequences.clear();
    this.#prefilling = [];
    this.#queuedTokens.fill(0);
    this.#waitingCount.fill(0);
    this.#rowsOfGateways.fill(0);
    this.#stride = undefined;
    this.#plan += 1;
    this.#cache = new SimulatedCache(this.#shape.blocks);
    return unfinished;
  }

  standing(modelKey: string, nowMs: number): ModelStanding {
    const oldestMs: [number, number, number] = [0, 0, 0];
    for (const { start } of this.#waiting) {
      oldestMs[start.priority] = Math.max(oldestMs[start.priority], nowMs - start.enqueuedMs);
    }
    return {
      modelKey,
      queuedTokens: [...this.#queuedTokens],
      waiting: [...this.#waitingCount],
      oldestMs,
      running: this.#running,
      maxRunning: this.#shape.maxRunning,
      freeBlocks: this.#cache.free,
      totalBlocks: this.#cache.total,
      speeds: this.#shape.speeds,
      answerTokens: this.#answerTokens,
    };
  }

  get #running(): number {
    return this.#prefilling.length + this.#decoding.size;
  }

  #enqueue(sequence: SimulatedSequence): void {
    const { blocks, priority } = sequence.start;
    const matched = this.#cache.match(blocks, sequence.reusable);
    sequence.expectedWork = sequence.length - matched * BLOCK_TOKENS;
    this.#queuedTokens[priority] += sequence.expectedWork;
    this.#waitingCount[priority] += 1;
    this.#waiting.push(sequence);
  }

  /** Plans the next stride, or rests. */
  #begin(nowMs: number): void {
    this.#admit();
    if (this.#running === 0) {
      this.#stride = undefined;
      return;
    }
    const rows = this.#decoding.size;
    const chunk = this.#shareOut(Math.max(1, this.#shape.speeds.stepTokens - rows));
    const tokens = [...chunk.values()].reduce((sum, count) => sum + count, 0);
    const { stepBaseMs, stepRowMs, promptTokenMs } = this.#shape.speeds;
    const stepMs = stepBaseMs + stepRowMs * rows + promptTokenMs * tokens;
    const due = this.#decoding.peek();
    const steps = chunk.size > 0 || due === undefined ? 1 : Math.max(1, due.dueStep - this.#step);
    this.#stride = { startMs: nowMs, stepMs, steps, chunk };
    this.#endAfter(steps);
  }

  #endAfter(steps: number): void {
    const stride = this.#stride;
    if (stride === undefined) return;
    stride.steps = steps;
    this.#plan += 1;
    const plan = this.#plan;
    this.#events.at(stride.startMs + steps * stride.stepMs, (nowMs) => {
      if (plan === this.#plan) this.#end(stride.steps, stride.chunk, nowMs);
    });
  }

  #end(steps: number, chunk: ReadonlyMap<SimulatedSequence, number>, nowMs: number): void {
    this.#step += steps;
    this.counters.steps += steps;
    this.counters.answerMessages += steps * this.#rowsOfGateways.filter((rows) => rows > 0).length;
    for (let due = this.#decoding.peek(); due !== undefined && due.dueStep <= this.#step; ) {
      this.#settle(due, nowMs);
      due = this.#decoding.peek();
    }
    for (const [sequence, count] of chunk) this.#computed(sequence, count, nowMs);
    this.#begin(nowMs);
  }

  /** As many as places and blocks allow, the most urgent first. */
  #admit(): void {
    for (let next = this.#waiting.peek(); next !== undefined; next = this.#waiting.peek()) {
      if (this.#running >= this.#shape.maxRunning) return;
      const { blocks, priority, id } = next.start;
      const matched = this.#cache.match(blocks, next.reusable);
      const fresh = Math.ceil(next.length / BLOCK_TOKENS) - matched;
      const added = fresh + this.#cache.unheld(blocks, matched);
      const used = this.#cache.total - this.#cache.free + added;
      if (used > this.#cache.total || (this.#running > 0 && used > WATERMARK * this.#cache.total)) return;
      this.#waiting.remove(next);
      this.#waitingCount[priority] -= 1;
      this.#cache.hold(blocks, matched);
      for (let i = 0; i < fresh; i++) this.#cache.take();
      next.full = matched;
      next.written = fresh;
      next.computed = matched * BLOCK_TOKENS;
      this.#queuedTokens[priority] += next.left - next.expectedWork;
      if (next.cachedTokens === undefined) {
        next.cachedTokens = next.computed;
        this.#listener.onAdmitted(id, next.computed);
      }
      this.#prefilling.push(next);
      this.#prefilling.sort(compareUrgency);
    }
  }

  /** The most urgent prompt gets what it can use, then the next. */
  #shareOut(budget: number): Map<SimulatedSequence, number> {
    const chunk = new Map<SimulatedSequence, number>();
    let left = budget;
    for (const sequence of this.#prefilling) {
      if (left === 0) break;
      const count = Math.min(left, sequence.left);
      chunk.set(sequence, count);
      left -= count;
    }
    return chunk;
  }

  #computed(sequence: SimulatedSequence, count: number, nowMs: number): void {
    // It may have been preempted for another's block at the end of this very step.
    if (!this.#prefilling.includes(sequence)) return;
    this.counters.computedPromptTokens += count;
    this.#queuedTokens[sequence.start.priority] -= count;
    sequence.computed += count;
    this.#publishFull(sequence, sequence.computed);
    if (sequence.left > 0) return;
    this.#prefilling.splice(this.#prefilling.indexOf(sequence), 1);
    this.#rowsOfGateways[sequence.start.gateway] = (this.#rowsOfGateways[sequence.start.gateway] ?? 0) + 1;
    sequence.given = 1;
    sequence.atStep = this.#step;
    if (sequence.before === 0) this.#listener.onFirstToken(sequence.start.id, nowMs);
    this.#decoding.push(sequence);
    this.#settle(sequence, nowMs);
  }

  #publishFull(sequence: SimulatedSequence, computed: number): void {
    const full = Math.min(Math.floor(computed / BLOCK_TOKENS), sequence.start.blocks.length);
    for (; sequence.full < full; sequence.full++) {
      this.#cache.publish(sequence.start.blocks[sequence.full] as number);
      sequence.written -= 1;
    }
  }

  /** Ends a decoding sequence that has given everything; else gives it the block it needs and says when to look again. */
  #settle(sequence: SimulatedSequence, nowMs: number): void {
    const given = sequence.givenBy(this.#step);
    const toGive = sequence.start.answerTokens - sequence.before - given;
    const computed = sequence.length + given - 1;
    this.#publishFull(sequence, computed);
    if (toGive <= 0) {
      this.#finish(sequence, nowMs);
      return;
    }
    const filled = computed % BLOCK_TOKENS;
    if (filled === 0 && !this.#takeBlockFor(sequence)) return;
    sequence.dueStep = this.#step + Math.min(toGive, BLOCK_TOKENS - filled);
    this.#decoding.update(sequence);
  }

  #finish(sequence: SimulatedSequence, nowMs: number): void {
    this.#stop(sequence);
    this.#sequences.delete(sequence.start.id);
    this.#answerTokens += ANSWER_WEIGHT * (sequence.start.answerTokens - this.#answerTokens);
    this.#listener.onEnd(sequence.start.id, nowMs);
  }

  /** Preempts the least urgent until there is a block; false where that was the sequence itself. */
  #takeBlockFor(sequence: SimulatedSequence): boolean {
    while (!this.#cache.take()) {
      const last = [...this.#prefilling, ...this.#decoding].sort(compareUrgency).at(-1) as SimulatedSequence;
      this.#preempt(last);
      if (last === sequence) return false;
    }
    sequence.written += 1;
    return true;
  }

  #preempt(sequence: SimulatedSequence): void {
    this.counters.preemptions += 1;
    if (this.#decoding.has(sequence)) {
      sequence.before += sequence.givenBy(this.#step);
    } else {
      this.#queuedTokens[sequence.start.priority] -= sequence.left;
    }
    this.#stop(sequence);
    this.#enqueue(sequence);
  }

  /** Takes it out of those that run, and its blocks back. */
  #stop(sequence: SimulatedSequence): void {
    const at = this.#prefilling.indexOf(sequence);
    if (at >= 0) this.#prefilling.splice(at, 1);
    if (this.#decoding.remove(sequence)) {
      this.#rowsOfGateways[sequence.start.gateway] = (this.#rowsOfGateways[sequence.start.gateway] ?? 0) - 1;
    }
    this.#cache.release(sequence.start.blocks, sequence.full, sequence.written);
    sequence.full = 0;
    sequence.written = 0;
    sequence.computed = 0;
  }
}
