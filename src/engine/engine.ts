// The loop: every step plans, computes, samples and commits for all running sequences at once. Requests and
// cancellations take effect between steps; with nothing to do it sleeps until the next request.

import { type Backend, BLOCK_TOKENS, type StepResult } from '../compute/backend.ts';
import type { Matcher } from '../grammar/matcher.ts';
import type { GrammarTables } from '../grammar/tables.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import { applyDense, type DenseLayer } from '../model/dense-layers.ts';
import type { SampleResult, SampleRow } from '../sampling/sample-row.ts';
import { blocksFor } from './cache/block-tables.ts';
import { Grammars, type Matching, noGrammars } from './grammars.ts';
import { LiveView } from './live/live-view.ts';
import type { EngineSnapshot } from './live/snapshot.ts';
import { OpenAnswer, OpenEmbedding, type OpenRequest } from './open-request.ts';
import { planBatch } from './plan-batch.ts';
import type {
  AnswerRequest,
  EndReason,
  EngineRequest,
  FinishEvent,
  RequestError,
  RequestEvent,
} from './request.ts';
import {
  deviceFullError,
  drainingError,
  failedEvent,
  notContinued,
  promptError,
  samplingError,
} from './request-errors.ts';
import { RETRY_MS, ResidentBlocks } from './resident-blocks.ts';
import type { Draft } from './scheduler/draft.ts';
import { Scheduler, type SchedulerOptions } from './scheduler/scheduler.ts';
import type { Sequence } from './scheduler/sequence.ts';
import type { BlockDemand, SchedulerStats } from './scheduler/stats.ts';
import type { StepPlan } from './scheduler/step-plan.ts';
import {
  type ModelDrafts,
  type SpeculationOptions,
  SpeculativeDecoding,
} from './speculation/speculative-decoding.ts';
import { type EngineRecord, StepRecorder } from './step-recorder.ts';
import type { PrefixLookup, StepReport, StepSummary } from './step-report.ts';
import { WaitEstimates } from './wait-estimates.ts';

export interface EngineOptions extends SchedulerOptions, SpeculationOptions {
  /** Maps of vectors, once they are pooled. Default none. */
  readonly dense?: readonly DenseLayer[];
  readonly vocabSize: number;
  /** Prompt and answer together never grow beyond it. */
  readonly contextLength: number;
  /** The model's own end tokens. */
  readonly endIds: readonly number[];
  /** Batching off: one request at a time. */
  readonly direct?: boolean;
  /** Speculative decoding. Answers are the same without it. Default true. */
  readonly speculation?: boolean;
}

export interface EngineStats extends SchedulerStats, EngineRecord {
  readonly draining: boolean;
}

/** A request that samples in this step, and how: the next token, and one after each draft token. */
interface Sampling {
  readonly open: OpenAnswer;
  readonly draft: Draft;
  readonly rows: readonly SampleRow[];
}

/** What was sampled for it; nothing where it ended during the step. */
interface Sample extends Sampling {
  readonly results: readonly SampleResult[];
}

/** What of that is part of the answer. */
interface Kept {
  readonly open: OpenAnswer;
  readonly draft: Draft;
  readonly tokens: readonly number[];
  readonly events: readonly RequestEvent[];
  readonly end: { readonly reason: EndReason; readonly error?: RequestError } | undefined;
}

/** Waiting sequences that may leave between two steps; ending one takes some microseconds. */
const MOST_CANCELLED_AT_ONCE = 2048;
/** Events in one report: whoever reads it does so in one go. */
const MOST_EVENTS_TOLD = 256;

/** How often those that wait are told where they are. */
const PLACES_MS = 500;
/** The same where one of them has not been told yet: in time for the headers of its stream. */
const FIRST_PLACES_MS = 100;

export type ReportListener = (report: StepReport) => void;

export class Engine {
  readonly #backend: Backend;
  readonly #options: EngineOptions;
  readonly #scheduler: Scheduler;
  readonly #recorder: StepRecorder;
  readonly #estimates = new WaitEstimates();
  readonly #nowMs: () => number;
  /** Since 1970, as requests tell when they came. */
  readonly #wallMs: () => number;
  /** When those that wait were last told where they are. */
  #placesMs = Number.NEGATIVE_INFINITY;
  /** Whether requests have come since. */
  #hasNewcomers = false;
  readonly #speculation: SpeculativeDecoding | undefined;
  /** Where the backend's memory of blocks is taken for many at once. */
  readonly #resident: ResidentBlocks | undefined;
  readonly #tell: ReportListener;
  readonly #requests = new Map<string, OpenRequest>();
  readonly #bySequence = new Map<Sequence, OpenRequest>();
  readonly #cancelled = new Set<string>();
  #grammars: Grammars | undefined;
  /** Set while snapshots are taken. */
  #live: LiveView | undefined;
  #reportsStats = false;
  /** Something has happened since the last step began. */
  #news = false;
  #wake: (() => void) | undefined;
  #whenIdle: (() => void)[] = [];
  #toldBlocks: BlockDemand | undefined;
  /** When a device that refused memory is asked again. */
  #retry: NodeJS.Timeout | undefined;
  #draining = false;
  /** Why it computes no more, once that is so. */
  #ended: RequestError | undefined;

  /** The clock is given by tests; otherwise steps are measured by one that never jumps, and ages by that of requests. */
  constructor(backend: Backend, options: EngineOptions, report: ReportListener, clock?: () => number) {
    const nowMs = clock ?? (() => performance.now());
    this.#backend = backend;
    this.#options = options;
    this.#tell = report;
    this.#scheduler = new Scheduler({
      ...options,
      stateSlots: backend.stateSlots,
      ...(options.direct ? { maxBatchSize: 1 } : {}),
    });
    this.#nowMs = nowMs;
    this.#wallMs = clock ?? Date.now;
    this.#recorder = new StepRecorder(nowMs);
    const { blockMemory } = backend;
    this.#resident = blockMemory && new ResidentBlocks(blockMemory, this.#scheduler, nowMs);
    if (options.speculation ?? true) {
      const { blockLimit = options.blockCount } = options;
      this.#speculation = new SpeculativeDecoding(options, blockLimit);
    }
  }

  /** For integrity checks: read it, never change it. */
  get scheduler(): Scheduler {
    return this.#scheduler;
  }

  /** Queues a request. One that cannot be served finishes at once, with the reason. */
  submit(request: EngineRequest): void {
    this.#recorder.submitted(this.#options.direct === true);
    const error = this.#refusal(request) ?? this.#enqueue(request);
    if (error !== undefined) {
      this.#recorder.ended('error');
      this.#report([failedEvent(request, error)]);
    } else this.#rouse();
  }

  /** Ends a request before the next step, whatever its state. Unknown ids are ignored: it may just have ended. */
  cancel(id: string): void {
    if (!this.#requests.has(id)) return;
    this.#cancelled.add(id);
    this.#rouse();
  }

  /** How many blocks may hold memory from the next step on; see Scheduler.allow. */
  allow(blocks: number): void {
    this.#scheduler.allow(blocks);
    this.#speculation?.allow(blocks);
    this.#rouse();
  }

  /** How many threads may compute from the next step on, where the backend has several. */
  useThreads(count: number): void {
    this.#backend.useThreads?.(count);
    this.#speculation?.useThreads(count);
  }

  /** What tokens spell; before the first request with a grammar. */
  setVocabulary(vocabulary: VocabularyTables): void {
    this.#grammars ??= new Grammars(vocabulary);
  }

  /** Those that a request came with; undefined where it has none by this key any more. */
  grammarTables(key: string): GrammarTables | undefined {
    return this.#grammars?.tablesOf(key);
  }

  /** Whether reports say what enters and leaves the prefix cache; all that is in it comes at once. */
  reportPrefixes(on: boolean): void {
    const { prefixes } = this.#scheduler.tables;
    if (!on) prefixes.endJournal();
    else this.#tell({ events: [], blocks: this.#scheduler.demand(), prefixes: prefixes.startJournal() });
  }

  /** Whether reports carry full stats. */
  reportStats(on: boolean): void {
    this.#reportsStats = on;
  }

  /** Runs until `end`. */
  async run(): Promise<void> {
    while (this.#ended === undefined) {
      this.#news = false;
      if (!(await this.step())) await this.#sleep();
    }
  }

  /** Advances all that runs; false where there is nothing to do until something happens. Steps never overlap. */
  async step(): Promise<boolean> {
    // A new limit is told of after the plan that goes by it, together with what that plan still wanted.
    const gone = this.#applyCancellations();
    if (gone.length > 0) this.#report(gone);
    const modelDrafts = await this.#speculation?.runDraftModel(this.#answers(), this.#nowMs);
    await this.#resident?.beforePlan();
    this.#recorder.begin();
    const plan = this.#plan(modelDrafts);
    const batch = planBatch(plan);
    const sampling = this.#sampling(plan);
    // From here on requests may end; the step is computed all the same.
    await this.#speculation?.planned(plan);
    await this.#resident?.afterPlan();
    if (plan.items.length === 0) return this.#skip(plan);
    this.#recorder.lap('scheduleMs');
    this.#estimates.beginning(this.#nowMs());
    const result = await this.#backend.step(
      batch,
      sampling.flatMap(({ rows }) => rows),
    );
    this.#recorder.computed();
    // Whatever was cancelled during the step samples nothing.
    const cancelled = this.#applyCancellations();
    const samples = this.#sample(sampling, result);
    this.#recorder.lap('sampleMs');
    const events = [...cancelled, ...this.#commit(plan, samples), ...this.#pool(plan, result)];
    this.#recorder.lap('emitMs');
    const tokens = events.reduce((count, { kind }) => count + Number(kind === 'token'), 0);
    this.#estimates.stepped(plan, tokens, this.#scheduler, this.#nowMs());
    this.#report(events, this.#summary(plan, events), lookupsOf(plan));
    this.#recorder.end(plan);
    this.#live?.stepped(plan, this.#recorder.lastStepAt(Date.now()));
    return true;
  }

  /** Refuses new requests and resolves when the running ones have ended. */
  drain(): Promise<void> {
    this.#draining = true;
    if (this.#requests.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  /** Computes no more: every request ends with the error, and so does every later one. */
  end(error: RequestError): void {
    this.#ended ??= error;
    this.#report([...this.#requests.values()].map((open) => this.#end(open, 'error', error)));
    this.#rouse();
  }

  stats(nowMs: number): EngineStats {
    return { ...this.#scheduler.stats(nowMs), ...this.#recorder.record, draining: this.#draining };
  }

  /** What it does now, and has done since the last snapshot; the first one makes it gather from then on. */
  snapshot(nowMs: number): EngineSnapshot {
    this.#live ??= new LiveView(this.#scheduler);
    return this.#live.snapshot(nowMs);
  }

  endSnapshots(): void {
    this.#live = undefined;
  }

  #plan(modelDrafts: ModelDrafts | undefined): StepPlan {
    const speculation = this.#speculation;
    const plan = this.#scheduler.plan(
      this.#wallMs(),
      speculation && ((decoding, load) => speculation.propose(this.#answers(decoding), load, modelDrafts)),
    );
    const dropped = this.#scheduler.tables.pool.takeDropped();
    if (dropped.length > 0) this.#backend.releaseBlocks(Int32Array.from(dropped));
    return plan;
  }

  /**
   * Nothing can be computed; if that is for want of blocks, or blocks were given back, it is told. Where sequences were
   * preempted, the next plan may find room for others.
   */
  #skip(plan: StepPlan): boolean {
    this.#scheduler.commit(plan, [], 0);
    this.#estimates.rested();
    this.#report(this.#resident?.refused ? this.#endUnplaceable(this.#resident) : []);
    return plan.preempted.length > 0;
  }

  #answers(sequences: readonly Sequence[] = this.#scheduler.running): OpenAnswer[] {
    return sequences.flatMap((sequence) => {
      const open = this.#bySequence.get(sequence);
      return open instanceof OpenAnswer ? [open] : [];
    });
  }

  /** The device is asked for memory again after a while; where it has refused for long, the next to run ends. */
  #endUnplaceable({ capacity, refusedForGood }: ResidentBlocks): FinishEvent[] {
    const { sequence, short } = this.#scheduler.next;
    if (sequence === undefined || !short) return [];
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#rouse(), RETRY_MS).unref();
    const open = this.#bySequence.get(sequence);
    if (!refusedForGood || open === undefined) return [];
    return [this.#end(open, 'error', deviceFullError(blocksFor(sequence.length), capacity))];
  }

  /** What is to be sampled, for each item that samples, in order. */
  #sampling(plan: StepPlan): Sampling[] {
    return plan.items
      .filter(({ samples }) => samples)
      .map(({ sequence, draft }) => {
        const open = this.#bySequence.get(sequence) as OpenAnswer;
        return { open, draft, rows: open.sampleRows(draft) };
      });
  }

  /** What ended during the step samples nothing. */
  #sample(sampling: readonly Sampling[], { logits, sampled }: StepResult): Sample[] {
    const { vocabSize } = this.#options;
    const isOpen = ({ open }: Sampling) => this.#bySequence.has(open.sequence);
    const whole =
      sampled ??
      (sampling.every(isOpen)
        ? this.#backend.sampleRows(
            logits,
            vocabSize,
            sampling.flatMap(({ rows }) => rows),
          )
        : undefined);
    let first = 0;
    return sampling.map((each) => {
      const [from, to] = [first, first + each.rows.length];
      first = to;
      if (!isOpen(each)) return { ...each, results: [] };
      const results =
        whole?.slice(from, to) ??
        this.#backend.sampleRows(logits.subarray(from * vocabSize, to * vocabSize), vocabSize, each.rows);
      return { ...each, results };
    });
  }

  /** Ends what could not sample, advances the rest, ends what is complete. */
  #commit(plan: StepPlan, samples: readonly Sample[]): RequestEvent[] {
    const kept = samples.map((sample) => this.#keep(sample));
    const events: RequestEvent[] = [];
    const finish = ({ open, end }: Kept) => {
      if (end !== undefined) events.push(this.#end(open, end.reason, end.error));
    };
    for (const one of kept) if (one.tokens.length === 0) finish(one);
    const { elapsedMs } = this.#recorder;
    this.#scheduler.commit(
      plan,
      kept.map(({ tokens }) => tokens),
      elapsedMs,
    );
    this.#speculation?.observe(plan, elapsedMs);
    for (const one of kept) {
      if (one.tokens.length === 0) continue;
      if (one.open.generated === one.tokens.length) this.#estimates.begun(one.open.request.id, this.#nowMs());
      this.#speculation?.commit(one.open.sequence, one.draft, one.tokens);
      events.push(...one.events);
      finish(one);
    }
    return events;
  }

  /** Up to the first draft token that is rejected, or the answer's end. */
  #keep({ open, draft, results }: Sample): Kept {
    const tokens: number[] = [];
    const events: RequestEvent[] = [];
    for (const [i, result] of results.entries()) {
      if (!result.ok) {
        return { open, draft, tokens, events, end: { reason: 'error', error: samplingError(result.error) } };
      }
      const { token, logprobs } = result;
      tokens.push(token);
      this.#recorder.generated();
      const last = open.accept(token, tokens.length);
      events.push({
        kind: 'token',
        id: open.request.id,
        token,
        ...(logprobs ? { logprobs } : {}),
        ...(last?.stop ? { stop: last.stop } : {}),
      });
      const end = endOf(open, last?.reason);
      if (end !== undefined) return { open, draft, tokens, events, end };
      if (draft.tokens[i] !== token) break;
    }
    return { open, draft, tokens, events, end: undefined };
  }

  /** Adds up states and ends what has all of them. */
  #pool({ items }: StepPlan, { states }: StepResult): FinishEvent[] {
    const events: FinishEvent[] = [];
    const rows = items.reduce((sum, { states: [from, to] }) => sum + to - from, 0);
    const size = rows === 0 ? 0 : states.length / rows;
    let row = 0;
    for (const { sequence, states: wanted } of items) {
      const count = wanted[1] - wanted[0];
      const own = states.subarray(row * size, (row + count) * size);
      row += count;
      const open = this.#bySequence.get(sequence);
      if (open === undefined || sequence.pooled === undefined) continue;
      if (count > 0) sequence.pooled.add(own, count);
      if (sequence.pooled.isComplete) events.push(this.#embedded(open, sequence.pooled.vector()));
    }
    return events;
  }

  #embedded(open: OpenRequest, pooled: Float32Array | undefined): FinishEvent {
    const vector = pooled && applyDense(this.#options.dense ?? [], pooled);
    return vector === undefined || !vector.every(Number.isFinite)
      ? this.#end(open, 'error', samplingError('numeric-error'))
      : { ...this.#end(open, 'stop'), vector };
  }

  /** Where thousands leave at once, those that wait go a part at a time, so that no step waits for all of them. */
  #applyCancellations(): FinishEvent[] {
    const events: FinishEvent[] = [];
    let left = MOST_CANCELLED_AT_ONCE;
    for (const id of this.#cancelled) {
      const open = this.#requests.get(id);
      if (open !== undefined && open.sequence.state !== 'running' && left-- <= 0) continue;
      this.#cancelled.delete(id);
      if (open !== undefined) events.push(this.#end(open, 'cancelled'));
    }
    if (this.#cancelled.size > 0) this.#rouse();
    return events;
  }

  #end(open: OpenRequest, reason: EndReason, error?: RequestError): FinishEvent {
    const draftTokens = this.#speculation?.end(open.sequence);
    const event = { ...open.ended(reason, error), ...(draftTokens === undefined ? {} : { draftTokens }) };
    this.#estimates.begun(event.id, undefined);
    if (reason === 'stop' || reason === 'length') this.#estimates.answered(event.generatedTokens);
    this.#scheduler.finish(open.sequence);
    this.#bySequence.delete(open.sequence);
    this.#requests.delete(open.request.id);
    this.#recorder.ended(reason);
    if (this.#requests.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    return event;
  }

  #summary(plan: StepPlan, events: readonly RequestEvent[]): StepSummary {
    const ids = (sequences: readonly Sequence[]) => sequences.map(({ id }) => id);
    return {
      step: this.#recorder.count(),
      tokens: plan.load.tokens,
      sequences: plan.load.sequences,
      admitted: ids(plan.admitted),
      preempted: ids(plan.preempted),
      finished: events.filter(({ kind }) => kind === 'finish').map(({ id }) => id),
      times: this.#recorder.times,
    };
  }

  /** Between steps there is something to tell where requests have ended, or blocks have been given back or are wanted. */
  #report(events: readonly RequestEvent[], step?: StepSummary, lookups?: readonly PrefixLookup[]): void {
    const blocks = this.#scheduler.demand();
    const prefixes = this.#scheduler.tables.prefixes.takeNews();
    const isNews = step !== undefined || events.length > 0 || prefixes !== undefined;
    if (!isNews && isSame(blocks, this.#toldBlocks)) return;
    this.#toldBlocks = blocks;
    const last = Math.max(0, events.length - MOST_EVENTS_TOLD);
    for (let from = 0; from < last; from += MOST_EVENTS_TOLD) {
      this.#tell({ events: events.slice(from, Math.min(last, from + MOST_EVENTS_TOLD)), blocks });
    }
    this.#tell({
      events: events.slice(last),
      blocks,
      ...(prefixes === undefined ? {} : { prefixes }),
      ...(step === undefined ? {} : { step }),
      ...(lookups === undefined ? {} : { lookups }),
      ...(step === undefined ? {} : this.#places()),
      ...(step !== undefined && this.#reportsStats ? { stats: this.#scheduler.stats(Date.now()) } : {}),
    });
  }

  /** Now and then, while any wait. */
  #places(): Pick<StepReport, 'places'> {
    const nowMs = this.#nowMs();
    const pauseMs = this.#hasNewcomers ? FIRST_PLACES_MS : PLACES_MS;
    if (this.#scheduler.waitingCount === 0 || nowMs - this.#placesMs < pauseMs) return {};
    const places = this.#estimates.places(this.#scheduler, nowMs);
    // Nothing was measured yet.
    if (places.length === 0) return {};
    this.#placesMs = nowMs;
    this.#hasNewcomers = false;
    return { places };
  }

  #rouse(): void {
    this.#news = true;
    this.#wake?.();
  }

  async #sleep(): Promise<void> {
    if (this.#news) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }

  #refusal(request: EngineRequest): RequestError | undefined {
    if (this.#ended !== undefined) return this.#ended;
    if (this.#draining) return drainingError;
    const { id } = request;
    if (this.#requests.has(id)) return { code: 'invalid', message: `request ${id} is running already` };
    if (this.#options.wholeTexts && request.pooling === undefined) return notContinued;
    return promptError(request, this.#options.contextLength, this.#options.vocabSize);
  }

  #enqueue(request: EngineRequest): RequestError | undefined {
    const matching = this.#matching(request);
    if (!matching.ok) return matching.error;
    const open =
      request.pooling === undefined
        ? this.#openAnswer(request, matching.matcher)
        : new OpenEmbedding(request);
    if (open instanceof OpenAnswer && open.obstacle !== undefined) return open.obstacle;
    const result = this.#scheduler.add(open.sequence);
    if (!result.accepted) {
      const code = result.tooLong === 'prompt' ? 'never-fits' : 'answer-never-fits';
      return { code, message: result.reason };
    }
    this.#requests.set(request.id, open);
    this.#bySequence.set(open.sequence, open);
    this.#hasNewcomers = true;
    return undefined;
  }

  #matching(request: EngineRequest): Matching {
    if (request.pooling !== undefined) return { ok: true, matcher: undefined };
    return this.#grammars?.matcher(request) ?? noGrammars(request);
  }

  #openAnswer(request: AnswerRequest, matcher: Matcher | undefined): OpenAnswer {
    const maxTokens = this.#lengthLimit(request);
    return new OpenAnswer(request, { ...this.#options, maxTokens }, matcher);
  }

  /** Where nobody says, an answer may fill the context, or what the account may hold of the cache if that is smaller. */
  #lengthLimit({ prompt, parameters: { maxTokens }, kvShare = 1 }: AnswerRequest): number {
    const { contextLength, blockCount } = this.#options;
    if (maxTokens !== undefined) return Math.min(contextLength, prompt.length + maxTokens);
    const blocks = Math.max(1, Math.floor(kvShare * blockCount));
    return Math.min(contextLength, Math.max(prompt.length + 1, blocks * BLOCK_TOKENS));
  }
}

function endOf(open: OpenAnswer, reason: EndReason | undefined): Kept['end'] {
  if (reason !== undefined) return { reason };
  const { obstacle } = open;
  return obstacle === undefined ? undefined : { reason: 'error', error: obstacle };
}

/** Of those that run for the first time. */
function lookupsOf({ admitted }: StepPlan): PrefixLookup[] | undefined {
  if (admitted.length === 0) return undefined;
  return admitted.flatMap(({ id, promptLength: promptTokens, cachedTokens, preemptions, miss }) =>
    miss === undefined || preemptions > 0 ? [] : [{ id, promptTokens, cachedTokens, ...miss }],
  );
}

function isSame(a: BlockDemand, b: BlockDemand | undefined): boolean {
  return (
    a.limit === b?.limit &&
    a.held === b.held &&
    a.used === b.used &&
    a.wanted === b.wanted &&
    a.short === b.short &&
    a.required === b.required
  );
}
