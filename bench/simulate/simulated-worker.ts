// A worker of a simulated fleet: the engine's own scheduler and caches, with a clock that advances by what steps cost. Nothing
// is computed: the tokens of an answer are given.

import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { Scheduler } from '#src/engine/scheduler/scheduler.ts';
import { type Priority, Sequence } from '#src/engine/scheduler/sequence.ts';
import type { BlockDemand } from '#src/engine/scheduler/stats.ts';
import type { StepPlan } from '#src/engine/scheduler/step-plan.ts';
import type { LoadedModelStatus, Speeds } from '#src/fleet/routing/heartbeat.ts';
import type { EventQueue } from './event-queue.ts';
import { type SimulatedFolder, tierOf } from './simulated-folder.ts';

export interface WorkerShape {
  readonly speeds: Speeds;
  readonly blocks: number;
  readonly maxRunning: number;
  /** Shared with other workers. */
  readonly folder?: SimulatedFolder | undefined;
}

interface SimulatedRequest {
  readonly id: number;
  readonly gateway: number;
  /** The prompt, then the answer; may be longer. */
  readonly tokens: Int32Array;
  /** Includes the tokens it had already where it continues after a failure. */
  readonly promptTokens: number;
  readonly answerTokens: number;
  readonly priority: Priority;
  readonly enqueuedMs: number;
}

interface WorkerListener {
  onFirstToken(id: number, nowMs: number): void;
  onToken?(id: number, token: number): void;
  onStep?(plan: StepPlan, stepMs: number): void;
  onEnd(id: number, nowMs: number): void;
  onAdmitted(id: number, cachedTokens: number): void;
}

interface CacheChange {
  readonly entered: Int32Array;
  readonly left: Int32Array;
}

/** Weight of the last answer in the running mean. */
const ANSWER_WEIGHT = 0.05;
const FIRST_ANSWER_TOKENS = 128;

export class SimulatedWorker {
  readonly #shape: WorkerShape;
  readonly #events: EventQueue;
  readonly #listener: WorkerListener;
  readonly #open = new Map<Sequence, SimulatedRequest>();
  readonly #started = new Set<Sequence>();
  /** Their blocks have come up during a step. */
  readonly #loaded: Sequence[] = [];
  #scheduler: Scheduler;
  #isStepping = false;
  /** A step that was running when the worker died does not end. */
  #life = 0;
  #answerTokens = FIRST_ANSWER_TOKENS;
  #answerMessages = 0;
  #preemptions = 0;

  constructor(shape: WorkerShape, events: EventQueue, listener: WorkerListener) {
    this.#shape = shape;
    this.#events = events;
    this.#listener = listener;
    this.#scheduler = this.#newScheduler();
  }

  get answerMessages(): number {
    return this.#answerMessages;
  }

  get preemptions(): number {
    return this.#preemptions;
  }

  submit(request: SimulatedRequest): void {
    const { id, tokens, promptTokens, answerTokens, priority, enqueuedMs } = request;
    const sequence = new Sequence({
      id: `${id}`,
      tokens: tokens.subarray(0, promptTokens),
      maxTokens: promptTokens + answerTokens,
      priority,
      enqueuedMs,
    });
    const added = this.#scheduler.add(sequence);
    if (!added.accepted) throw new Error(added.reason);
    this.#open.set(sequence, request);
    if (!this.#isStepping) this.#step(this.#events.nowMs);
  }

  /** Returns how many tokens each unfinished request had. */
  kill(): Map<number, number> {
    const given = new Map(
      [...this.#open].map(([{ length, promptLength }, { id }]) => [id, length - promptLength]),
    );
    this.#open.clear();
    this.#started.clear();
    this.#loaded.length = 0;
    this.#scheduler = this.#newScheduler();
    this.#isStepping = false;
    this.#life += 1;
    return given;
  }

  status(modelKey: string, nowMs: number): LoadedModelStatus {
    const { folder } = this.#shape;
    const { queues, running, blocks } = this.#scheduler.stats(nowMs);
    const [high, normal, low] = queues;
    return {
      modelKey,
      queuedTokens: this.#queuedTokens(),
      waiting: [high?.waiting ?? 0, normal?.waiting ?? 0, low?.waiting ?? 0],
      oldestMs: [high?.oldestMs ?? 0, normal?.oldestMs ?? 0, low?.oldestMs ?? 0],
      running: running.length,
      maxRunning: this.#shape.maxRunning,
      freeBlocks: blocks.cached + blocks.free,
      totalBlocks: blocks.total,
      speeds: this.#shape.speeds,
      answerTokens: this.#answerTokens,
      ...(folder && { tiers: { disk: { folder: 'shared', blockMs: folder.blockMs }, isAssumed: false } }),
    };
  }

  get blocks(): BlockDemand {
    return this.#scheduler.demand();
  }

  takeCacheChange(): CacheChange | undefined {
    const news = this.#scheduler.tables.prefixes.takeEvents();
    if (news?.kind !== 'change' || news.entered.length + news.left.length === 0) return undefined;
    return news;
  }

  cachedKeys(): Int32Array {
    return keysIn(this.#scheduler);
  }

  #queuedTokens(): [number, number, number] {
    const queued: [number, number, number] = [0, 0, 0];
    for (const { remaining, priority } of this.#scheduler.running) {
      if (remaining > 1) queued[priority] += remaining;
    }
    for (const sequence of this.#scheduler.waiting()) {
      const found = this.#scheduler.tables.match(sequence).length * BLOCK_TOKENS;
      queued[sequence.priority] += sequence.length - found;
    }
    return queued;
  }

  #step(nowMs: number): void {
    this.#isStepping = this.#open.size > 0;
    if (!this.#isStepping) return;
    this.#takeLoaded();
    const plan = this.#scheduler.plan(nowMs);
    this.#preemptions += plan.preempted.length;
    for (const sequence of plan.loading) this.#load(sequence, nowMs);
    for (const sequence of [...plan.admitted, ...plan.loaded]) this.#admitted(sequence);
    if (plan.items.length === 0) {
      if (this.#scheduler.loads === 0) throw new Error(`${this.#open.size} sequences, and nobody computes`);
      this.#scheduler.commit(plan, [], 0);
      this.#isStepping = false;
      return;
    }
    const stepMs = stepDuration(plan, this.#shape.speeds);
    const life = this.#life;
    this.#events.at(nowMs + stepMs, (endMs) => {
      if (life === this.#life) this.#end(plan, stepMs, endMs);
    });
  }

  #load(sequence: Sequence, nowMs: number): void {
    const { loading, computed } = sequence;
    const { folder } = this.#shape;
    if (loading === undefined || folder === undefined) return;
    const life = this.#life;
    this.#events.at(nowMs + (loading.end - computed / BLOCK_TOKENS) * folder.blockMs, (endMs) => {
      if (life !== this.#life || sequence.loading === undefined) return;
      this.#loaded.push(sequence);
      if (!this.#isStepping) this.#step(endMs);
    });
  }

  /** Between steps. */
  #takeLoaded(): void {
    for (const sequence of this.#loaded.splice(0)) {
      if (sequence.loading === undefined) continue;
      this.#scheduler.loaded(sequence, sequence.loading.end);
      this.#scheduler.endLoading(sequence);
    }
  }

  #admitted(sequence: Sequence): void {
    if (this.#started.has(sequence)) return;
    this.#started.add(sequence);
    this.#listener.onAdmitted(this.#requestOf(sequence).id, sequence.cachedTokens);
  }

  #end(plan: StepPlan, stepMs: number, nowMs: number): void {
    const sampled = plan.items.filter(({ samples }) => samples).map(({ sequence }) => sequence);
    const next = sampled.map((sequence) => [this.#requestOf(sequence).tokens[sequence.length] as number]);
    this.#scheduler.commit(plan, next, stepMs);
    this.#answerMessages += new Set(sampled.map((sequence) => this.#requestOf(sequence).gateway)).size;
    for (const [i, sequence] of sampled.entries()) {
      this.#listener.onToken?.(this.#requestOf(sequence).id, (next[i] as number[])[0] as number);
      this.#given(sequence, nowMs);
    }
    this.#listener.onStep?.(plan, stepMs);
    this.#step(nowMs);
  }

  #given(sequence: Sequence, nowMs: number): void {
    const { id, answerTokens } = this.#requestOf(sequence);
    if (sequence.length === sequence.promptLength + 1) this.#listener.onFirstToken(id, nowMs);
    if (sequence.length < sequence.maxTokens) return;
    this.#scheduler.finish(sequence);
    this.#open.delete(sequence);
    this.#started.delete(sequence);
    this.#answerTokens += ANSWER_WEIGHT * (answerTokens - this.#answerTokens);
    this.#listener.onEnd(id, nowMs);
  }

  #newScheduler(): Scheduler {
    const { blocks, maxRunning, speeds, folder } = this.#shape;
    const tier = folder && tierOf(folder, () => this.#events.nowMs);
    const scheduler = new Scheduler({
      blockCount: blocks,
      maxBatchSize: maxRunning,
      budget: { kind: 'fixed', maxStepTokens: speeds.stepTokens },
      lowerTiers: tier,
    });
    if (tier !== undefined) {
      const nothing = () => {};
      scheduler.tables.listener = {
        ...{ evicting: nothing, evictingState: nothing, dropping: nothing },
        released: tier.released,
      };
    }
    keysIn(scheduler);
    return scheduler;
  }

  #requestOf(sequence: Sequence): SimulatedRequest {
    return this.#open.get(sequence) as SimulatedRequest;
  }
}

function keysIn({ tables }: Scheduler): Int32Array {
  const news = tables.prefixes.startEvents();
  return news.kind === 'all' ? news.keys : new Int32Array(0);
}

/** A row is a sequence that decodes one token; all other tokens cost what prompt tokens do. */
function stepDuration({ items, load }: StepPlan, { stepBaseMs, stepRowMs, promptTokenMs }: Speeds): number {
  const rows = items.filter(({ sequence, start, count }) => count === 1 && start >= sequence.promptLength);
  return stepBaseMs + stepRowMs * rows.length + promptTokenMs * (load.tokens - rows.length);
}
