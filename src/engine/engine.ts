// The loop: every step plans, computes, samples and commits for all running sequences at once. Requests and
// cancellations take effect between steps; with nothing to do it sleeps until the next request.

import { type Backend, BLOCK_TOKENS } from '../compute/backend.ts';
import type { SampledToken, SampleResult, SampleRow } from '../sampling/sample-row.ts';
import { Choice } from './choice.ts';
import { drainingError, failedEvents, promptError, samplingError } from './finish-events.ts';
import { planBatch } from './plan-batch.ts';
import type {
  EngineRequest,
  FinishEvent,
  FinishReason,
  RequestError,
  RequestEvent,
  ResumedChoice,
} from './request.ts';
import { Scheduler, type SchedulerOptions } from './scheduler/scheduler.ts';
import type { SchedulerStats } from './scheduler/stats.ts';
import type { StepPlan } from './scheduler/step-plan.ts';
import { Sequence } from './sequence.ts';
import { StepClock, type StepTimes } from './step-times.ts';

export interface EngineOptions extends SchedulerOptions {
  readonly vocabSize: number;
  /** Prompt and answer together never grow beyond it. */
  readonly contextLength: number;
  /** The model's own end tokens. */
  readonly endIds: readonly number[];
  /** Batching off: one request at a time. */
  readonly direct?: boolean;
}

export interface EngineStats extends SchedulerStats {
  readonly steps: number;
  /** Forward passes of the backend: one a step. */
  readonly forwardPasses: number;
  readonly requests: Readonly<Record<FinishReason | 'submitted' | 'direct', number>>;
  readonly generatedTokens: number;
  readonly times: { readonly total: StepTimes; readonly last: StepTimes };
  readonly lastStep: { readonly tokens: number; readonly sequences: number };
  readonly draining: boolean;
}

/** One step as an onlooker sees it. */
export interface StepEvent {
  readonly step: number;
  readonly tokens: number;
  readonly sequences: number;
  readonly admitted: readonly string[];
  readonly preempted: readonly string[];
  readonly finished: readonly string[];
  readonly times: StepTimes;
  readonly stats: SchedulerStats;
}

/** What was drawn for one item of a plan; no choice and no result where it ended during the step. */
interface Draw {
  readonly choice: Choice | undefined;
  readonly result: SampleResult | undefined;
  readonly siblings: readonly Sibling[];
}

/** Another choice of the same prompt, and its first draw. */
interface Sibling {
  readonly index: number;
  readonly result: SampleResult;
}

/** Everything that happened in one step, in order. */
export type ReportListener = (events: readonly RequestEvent[]) => void;

export class Engine {
  readonly #backend: Backend;
  readonly #options: EngineOptions;
  readonly #scheduler: Scheduler;
  readonly #report: ReportListener;
  /** Unfinished choices by request. */
  readonly #requests = new Map<string, Set<Choice>>();
  readonly #choices = new Map<Sequence, Choice>();
  readonly #cancelled = new Set<string>();
  readonly #clock = new StepClock();
  readonly #counts = { submitted: 0, direct: 0, stop: 0, length: 0, cancelled: 0, error: 0 };
  #steps = 0;
  #forwardPasses = 0;
  #generatedTokens = 0;
  #lastStep = { tokens: 0, sequences: 0 };
  readonly #watchers = new Set<(event: StepEvent) => void>();
  #wake: (() => void) | undefined;
  #whenIdle: (() => void)[] = [];
  #draining = false;
  #closed = false;

  constructor(backend: Backend, options: EngineOptions, report: ReportListener) {
    this.#backend = backend;
    this.#options = options;
    this.#report = report;
    this.#scheduler = new Scheduler(options.direct ? { ...options, maxBatchSize: 1 } : options);
  }

  /** For integrity checks: read it, never change it. */
  get scheduler(): Scheduler {
    return this.#scheduler;
  }

  /** Queues a request. One that cannot be served finishes at once, with the reason. */
  submit(request: EngineRequest): void {
    this.#counts.submitted++;
    if (this.#options.direct) this.#counts.direct++;
    const refusal = this.#refusal(request);
    const starts: readonly ResumedChoice[] = request.resumed ?? [{ choice: 0, tokens: [] }];
    const accepted: Choice[] = [];
    for (const start of starts) {
      const result = refusal ?? this.#enqueue(request, start);
      if (result instanceof Choice) {
        accepted.push(result);
        continue;
      }
      // A request is taken whole or not at all.
      for (const choice of accepted) this.#scheduler.finish(choice.sequence);
      this.#counts.error++;
      this.#report(failedEvents(request, result));
      return;
    }
    for (const choice of accepted) this.#choices.set(choice.sequence, choice);
    this.#requests.set(request.id, new Set(accepted));
    this.#wake?.();
  }

  /** Ends a request before the next step, whatever its state. Unknown ids are ignored: it may just have ended. */
  cancel(id: string): void {
    if (!this.#requests.has(id)) return;
    this.#cancelled.add(id);
    this.#wake?.();
  }

  /** Runs until `close`. */
  async run(): Promise<void> {
    while (!this.#closed) {
      this.#applyCancellations();
      const started = performance.now();
      const plan = this.#scheduler.plan();
      if (plan.items.length > 0) {
        await this.#step(plan, started);
      } else {
        this.#scheduler.commit(plan, [], 0);
        await this.#sleep();
      }
    }
  }

  /** Refuses new requests and resolves when the running ones have ended. */
  drain(): Promise<void> {
    this.#draining = true;
    if (this.#requests.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  stats(nowMs: number): EngineStats {
    return {
      ...this.#scheduler.stats(nowMs),
      steps: this.#steps,
      forwardPasses: this.#forwardPasses,
      requests: { ...this.#counts },
      generatedTokens: this.#generatedTokens,
      times: { total: this.#clock.total, last: this.#clock.last },
      lastStep: this.#lastStep,
      draining: this.#draining,
    };
  }

  /** Calls the watcher after every step until the returned function is called. */
  watch(watcher: (event: StepEvent) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  async #step(plan: StepPlan, started: number): Promise<void> {
    if (plan.copies.length > 0) throw new Error('a shared block would be written');
    const batch = planBatch(plan);
    const planned = performance.now();
    const { logits } = await this.#backend.step(batch);
    this.#forwardPasses++;
    const computed = performance.now();
    // Whatever was cancelled during the step draws nothing.
    this.#applyCancellations();
    const draws = this.#draw(plan, logits);
    const sampled = performance.now();
    const failed = this.#failed(draws);
    this.#emit(failed);
    const tokens = draws.map(({ result }) => (result?.ok ? result.token : 0));
    this.#scheduler.commit(plan, tokens, sampled - started);
    const advanced = this.#advanced(draws);
    this.#emit(advanced);
    this.#steps++;
    this.#lastStep = { tokens: plan.load.tokens, sequences: plan.load.sequences };
    this.#clock.add({
      scheduleMs: planned - started,
      computeMs: computed - planned,
      sampleMs: sampled - computed,
      emitMs: performance.now() - sampled,
    });
    if (this.#watchers.size > 0) this.#tell(plan, [...failed, ...advanced]);
  }

  #tell(plan: StepPlan, events: readonly RequestEvent[]): void {
    const ids = (sequences: readonly Sequence[]) => sequences.map(({ id }) => id);
    const event: StepEvent = {
      step: this.#steps,
      ...this.#lastStep,
      admitted: ids(plan.admitted),
      preempted: ids(plan.preempted),
      finished: events.filter(({ kind }) => kind === 'finish').map(({ id, choice }) => `${id}/${choice}`),
      times: this.#clock.last,
      stats: this.#scheduler.stats(Date.now()),
    };
    for (const watcher of this.#watchers) watcher(event);
  }

  /** One draw for each item that samples, in order. */
  #draw(plan: StepPlan, logits: Float32Array): Draw[] {
    const { vocabSize } = this.#options;
    const choices = plan.items
      .filter(({ samples }) => samples)
      .map(({ sequence }) => this.#choices.get(sequence));
    const rows = choices.map((choice) => choice?.sampleRow());
    const sample = (index: number, row: SampleRow): SampleResult => {
      const [result] = this.#backend.sampleRows(logits.subarray(index * vocabSize), vocabSize, [row]);
      if (result === undefined) throw new Error('the sampler gave no result');
      return result;
    };
    const whole = rows.every((row) => row !== undefined);
    const results = whole
      ? this.#backend.sampleRows(logits, vocabSize, rows)
      : rows.map((row, index) => (row === undefined ? undefined : sample(index, row)));
    return choices.map((choice, index) => ({
      choice,
      result: results[index],
      // The prompt was just computed: its other choices draw their first token from the same logits.
      siblings: (choice?.siblings() ?? []).map((n) => ({
        index: n,
        result: sample(index, choice?.sampleRow(n) as SampleRow),
      })),
    }));
  }

  /** Ends the choices for which nothing could be drawn. */
  #failed(draws: readonly Draw[]): FinishEvent[] {
    return draws.flatMap(({ choice, result }) => {
      if (choice === undefined || result === undefined || result.ok) return [];
      return [this.#finish(choice, 'error', samplingError(result.error))];
    });
  }

  /** After the commit: tells the tokens, starts further choices, ends what ends. */
  #advanced(draws: readonly Draw[]): RequestEvent[] {
    const events: RequestEvent[] = [];
    for (const { choice, result, siblings } of draws) {
      if (choice === undefined || !result?.ok) continue;
      // Siblings share the parent's blocks, so they start before it can end.
      const started = siblings.map((sibling) => ({
        ...sibling,
        choice: this.#startSibling(choice, sibling),
      }));
      this.#accept(choice, result, events);
      for (const sibling of started) {
        if (sibling.choice !== undefined && sibling.result.ok)
          this.#accept(sibling.choice, sibling.result, events);
        else events.push(...endedSibling(choice, sibling));
      }
    }
    return events;
  }

  #accept(choice: Choice, { token, logprobs }: SampledToken, events: RequestEvent[]): void {
    const { id } = choice.request;
    events.push({ kind: 'token', id, choice: choice.index, token, ...(logprobs ? { logprobs } : {}) });
    this.#generatedTokens++;
    const reason = choice.accept(token);
    if (reason !== undefined) events.push(this.#finish(choice, reason));
  }

  /** Undefined for a sibling that ends with its first token, or could not draw one: it needs no sequence. */
  #startSibling(parent: Choice, { index, result }: Sibling): Choice | undefined {
    if (!result.ok || parent.reasonToEnd(result.token, 1) !== undefined) return undefined;
    const { request, sequence } = parent;
    const child = this.#scheduler.fork(sequence, `${request.id}/${index}`, result.token);
    const choice = new Choice(request, index, child, this.#options.endIds);
    this.#choices.set(child, choice);
    this.#requests.get(request.id)?.add(choice);
    return choice;
  }

  #applyCancellations(): void {
    const events: FinishEvent[] = [];
    for (const id of this.#cancelled) {
      for (const choice of this.#requests.get(id) ?? []) events.push(this.#finish(choice, 'cancelled'));
    }
    this.#cancelled.clear();
    this.#emit(events);
  }

  #finish(choice: Choice, reason: FinishReason, error?: RequestError): FinishEvent {
    const event = choice.finished(reason, error);
    this.#scheduler.finish(choice.sequence);
    this.#choices.delete(choice.sequence);
    const { id } = choice.request;
    const open = this.#requests.get(id);
    open?.delete(choice);
    if (open?.size === 0) {
      this.#requests.delete(id);
      this.#counts[reason]++;
    }
    if (this.#requests.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    return event;
  }

  #emit(events: readonly RequestEvent[]): void {
    if (events.length > 0) this.#report(events);
  }

  #sleep(): Promise<void> {
    if (this.#closed || this.#cancelled.size > 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }

  #refusal({ id, prompt }: EngineRequest): RequestError | undefined {
    if (this.#draining) return drainingError;
    if (this.#requests.has(id)) return { code: 'invalid', message: `request ${id} is running already` };
    return promptError(prompt, this.#options.contextLength, this.#options.vocabSize);
  }

  #enqueue(request: EngineRequest, start: ResumedChoice): Choice | RequestError {
    const { prompt, parameters, priority, enqueuedMs, tenant, account = '' } = request;
    const tokens = new Int32Array(prompt.length + start.tokens.length);
    tokens.set(prompt);
    tokens.set(start.tokens, prompt.length);
    const sequence = new Sequence({
      id: `${request.id}/${start.choice}`,
      tokens,
      promptLength: prompt.length,
      maxTokens: this.#lengthLimit(prompt.length, parameters.maxTokens),
      priority,
      enqueuedMs,
      salt: tenant,
      account,
    });
    const result = this.#scheduler.add(sequence);
    if (!result.accepted) return { code: 'never-fits', message: result.reason };
    return new Choice(request, start.choice, sequence, this.#options.endIds, start.tokens);
  }

  /** Without a wish, an answer may fill the context, or the whole cache if that is smaller. */
  #lengthLimit(promptLength: number, maxTokens: number | undefined): number {
    const { contextLength, blockCount } = this.#options;
    if (maxTokens !== undefined) return Math.min(contextLength, promptLength + maxTokens);
    return Math.min(contextLength, Math.max(promptLength + 1, blockCount * BLOCK_TOKENS));
  }
}

/** All there is to tell of a choice that ends with its first draw. */
function endedSibling(parent: Choice, { index, result }: Sibling): RequestEvent[] {
  const { id } = parent.request;
  if (!result.ok)
    return [{ ...parent.finished('error', samplingError(result.error)), choice: index, generatedTokens: 0 }];
  const { token, logprobs } = result;
  const reason = parent.reasonToEnd(token, 1) ?? 'length';
  return [
    { kind: 'token', id, choice: index, token, ...(logprobs ? { logprobs } : {}) },
    { ...parent.finished(reason), choice: index, generatedTokens: 1 },
  ];
}
