// The loop: every step plans, computes, samples and commits for all running sequences at once. Requests and
// cancellations take effect between steps; with nothing to do it sleeps until the next request.

import type { BlockTier } from '../block-store/block-tier.ts';
import type { SlotFolder } from '../block-store/slot-files.ts';
import { ARITHMETIC_VERSION, type Backend, BLOCK_TOKENS, type StepResult } from '../compute/backend.ts';
import type { GrammarTables } from '../grammar/tables.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import { applyDense, type DenseLayer } from '../model/dense-layers.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { SampleResult } from '../sampling/sample-row.ts';
import { blocksFor } from './cache/block-tables.ts';
import { EngineReports, type ReportListener } from './engine-reports.ts';
import { DEFAULT_IMAGE_BYTES } from './images/feature-store.ts';
import type { ImageStats } from './images/image-stats.ts';
import { StoredFeatures } from './images/stored-features.ts';
import { Towers } from './images/towers.ts';
import type { EngineSnapshot } from './live/snapshot.ts';
import type { OpenRequest } from './open-request.ts';
import { imagesOf, OpenRequests, type RequestLimits } from './open-requests.ts';
import { planBatch } from './plan-batch.ts';
import { type PreparedStep, prepareNext } from './prepared-step.ts';
import type { EndReason, EngineRequest, FinishEvent, RequestError, RequestEvent } from './request.ts';
import { deviceFullError, drainingError, failedEvent, samplingError } from './request-errors.ts';
import { RETRY_MS, ResidentBlocks } from './resident-blocks.ts';
import { Scheduler, type SchedulerOptions } from './scheduler/scheduler.ts';
import type { SchedulerStats } from './scheduler/stats.ts';
import type { StepPlan } from './scheduler/step-plan.ts';
import { type SlotAction, type SlotResult, slotFailure } from './slots/slot-action.ts';
import { Slots } from './slots/slots.ts';
import type { ModelDrafts } from './speculation/drafter.ts';
import { MtpDrafter, type PredictingBackend } from './speculation/mtp-drafter.ts';
import { type SpeculationOptions, SpeculativeDecoding } from './speculation/speculative-decoding.ts';
import type { EngineRecord } from './step-recorder.ts';
import { type AcceptedTokens, acceptTokens, addScores, type StepRows, stepRows } from './step-samples.ts';
import type { ModelIdentity } from './tiers/block-keys.ts';
import { KvTiers } from './tiers/kv-tiers.ts';
import type { TierStats } from './tiers/tier-stats.ts';

export interface EngineOptions extends SchedulerOptions, SpeculationOptions, RequestLimits {
  readonly blockCount: number;
  /** Of encoders: a text is computed whole, in one step. */
  readonly wholeTexts?: boolean | undefined;
  /** Most bytes of images' features that are kept, unless what runs needs more. Default 1 GiB. */
  readonly imageBytes?: number | undefined;
  /** Memory of the machine for blocks that leave the engine's, 0 for none; absent: what leaves is lost. */
  readonly hostBytes?: number | undefined;
  /** Below that: a disk, for a model by its name and by what makes its blocks the same bits. */
  readonly openDisk?: (model: { readonly name: string; readonly identity: string }) => Promise<BlockTier>;
  /** Where the prefixes of slots are saved; absent: they are not. */
  readonly slots?: SlotFolder | undefined;
  /** Hears what operators should know. */
  readonly warn?: (message: string) => void;
  /** Maps of vectors, once they are pooled. Default none. */
  readonly dense?: readonly DenseLayer[];
  /** Batching off: one request at a time. */
  readonly direct?: boolean;
  /** Speculative decoding. Answers are the same without it. Default true. */
  readonly speculation?: boolean;
}

export interface EngineStats extends SchedulerStats, EngineRecord {
  readonly draining: boolean;
  /** Where the model has a vision tower. */
  readonly images?: ImageStats;
  /** Where blocks that leave memory are kept. */
  readonly tiers?: TierStats;
}

/** A step that is planned and, unless there is nothing to compute, under way. */
interface BegunStep {
  readonly plan: StepPlan;
  readonly rows: StepRows;
  readonly result: Promise<StepResult> | undefined;
}

/** Between plans while the next request waits for blocks to load into. */
const GRANT_POLL_MS = 25;
/** The part of a step's time that blocks may be copied for between two steps, and the time where none is computed. */
const MOVING_SHARE = 0.02;
const IDLE_MOVING_MS = 8;

/** Waiting sequences that may leave between two steps; ending one takes some microseconds. */
const MOST_CANCELLED_AT_ONCE = 2048;

/** Bytes of logits that a step may have of tokens that are scored. */
const SCORED_BYTES = 64 << 20;

function scoredTokensFor(vocabSize: number): number {
  const blocks = Math.floor(SCORED_BYTES / (4 * vocabSize * BLOCK_TOKENS));
  return BLOCK_TOKENS * Math.min(16, Math.max(1, blocks));
}

export class Engine {
  readonly #backend: Backend;
  readonly #options: EngineOptions;
  readonly #scheduler: Scheduler;
  readonly #requests: OpenRequests;
  readonly #reports: EngineReports;
  readonly #speculation: SpeculativeDecoding | undefined;
  /** Where the model has a vision tower. */
  readonly #towers: Towers | undefined;
  /** Where the backend takes memory for many blocks at once. */
  readonly #resident: ResidentBlocks | undefined;
  /** Where blocks that leave memory are kept. */
  readonly #tiers: KvTiers | undefined;
  /** Where prefixes are saved by name. */
  readonly #slots: Slots | undefined;
  #opening: Promise<void> | undefined;
  #ran: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  /** What the last step took. */
  #stepMs = 0;
  readonly #nowMs: () => number;
  /** Since 1970, as the ages of requests. */
  readonly #wallMs: () => number;
  readonly #cancelled = new Set<string>();
  /** Something has happened since the last step began. */
  #woken = false;
  #wakeUp: (() => void) | undefined;
  /** Begun before the last step was reported. */
  #next: BegunStep | undefined;
  #whenIdle: (() => void)[] = [];
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
    this.#nowMs = nowMs;
    this.#wallMs = clock ?? Date.now;
    this.#tiers = this.#tiersOf(backend, options);
    this.#scheduler = new Scheduler({
      ...options,
      lowerTiers: this.#tiers,
      scoredTokens: options.scoredTokens ?? scoredTokensFor(options.vocabSize),
      stateSlots: backend.stateSlots,
      ...(options.direct ? { maxBatchSize: 1 } : {}),
    });
    this.#tiers?.serve(this.#scheduler);
    this.#slots = this.#slotsOf(backend, options);
    this.#towers = towersOf(backend, options, nowMs);
    this.#requests = new OpenRequests({ ...options, vision: this.#towers && options.vision });
    this.#reports = new EngineReports(this.#scheduler, report, nowMs, {
      images: this.#towers,
      tiers: this.#tiers,
    });
    const { blockMemory } = backend;
    this.#resident = blockMemory && new ResidentBlocks(blockMemory, this.#scheduler, nowMs);
    if (options.speculation ?? true) {
      const { blockLimit = options.blockCount } = options;
      this.#speculation = new SpeculativeDecoding(options, blockLimit, this.#mtpOf(backend, options));
    }
  }

  /** For integrity checks: read it, never change it. */
  get scheduler(): Scheduler {
    return this.#scheduler;
  }

  /** Queues a request. One that cannot be served finishes at once, with the reason. */
  submit(request: EngineRequest): void {
    this.#reports.recorder.submitted(this.#options.direct === true);
    const error = this.#ended ?? (this.#draining ? drainingError : this.#enqueue(request));
    if (error !== undefined) {
      this.#reports.recorder.ended('error');
      this.#reports.report([failedEvent(request, error)]);
    } else this.#wake();
  }

  /** Ends a request before the next step, whatever its state. Unknown ids are ignored: it may just have ended. */
  cancel(id: string): void {
    if (this.#requests.get(id) === undefined) return;
    this.#cancelled.add(id);
    this.#wake();
  }

  /** How many blocks may hold memory from the next step on; see Scheduler.allow. */
  allow(blocks: number): void {
    this.#scheduler.allow(blocks);
    this.#slots?.allowed();
    this.#speculation?.allow(blocks);
    this.#wake();
  }

  /** How many threads may compute from the next step on, where the backend has several. */
  useThreads(count: number): void {
    this.#backend.useThreads?.(count);
    this.#speculation?.useThreads(count);
  }

  /** What tokens spell; before the first request with a grammar. */
  setVocabulary(vocabulary: VocabularyTables): void {
    this.#requests.setVocabulary(vocabulary);
  }

  /** Those that a request came with; undefined where it has none by this key any more. */
  grammarTables(key: string): GrammarTables | undefined {
    return this.#requests.grammarTables(key);
  }

  reportPrefixes(on: boolean): void {
    this.#reports.setPrefixes(on);
  }

  reportStored(on: boolean): void {
    this.#reports.setStored(on);
  }

  reportStats(on: boolean): void {
    this.#reports.setStats(on);
  }

  snapshot(nowMs: number): EngineSnapshot {
    return this.#reports.snapshot(nowMs);
  }

  endSnapshots(): void {
    this.#reports.endSnapshots();
  }

  stats(nowMs: number): EngineStats {
    const images = this.#towers && { images: this.#towers.stats() };
    const tiers = this.#tiers && { tiers: this.#tiers.stats() };
    const stats = this.#reports.stats(nowMs);
    const running = this.#slots === undefined ? stats.running : this.#withSlots(stats.running, this.#slots);
    return { ...stats, running, draining: this.#draining, ...images, ...tiers };
  }

  #withSlots(running: SchedulerStats['running'], slots: Slots): SchedulerStats['running'] {
    return running.map((one) => {
      const open = this.#requests.get(one.id);
      return { ...one, slot: open && slots.numberOf(open.sequence) };
    });
  }

  /** Which model it is: from here on what leaves memory is kept. */
  identify(name: string, identity: ModelIdentity): void {
    this.#opening = this.#openTiers(name, identity);
  }

  /** Saves, restores or erases what is known as a slot. Never rejects. */
  async actOnSlot(action: SlotAction): Promise<SlotResult> {
    if (this.#slots !== undefined) return this.#slots.act(action);
    return slotFailure('off', 'no slots are saved of this model');
  }

  /** Deletes what is kept of a tenant's blocks. */
  removeTenant(tenant: string): void {
    this.#towers?.removeTenant(tenant);
    this.#slots?.removeTenant(tenant);
    this.#tiers?.remove(tenant).catch((error: unknown) => this.#warn(messageOf(error)));
  }

  /** Writes down what is kept in memory alone, as far as there is time. Once it was ended. */
  closeTiers(withinMs: number): Promise<void> {
    this.#closing ??= this.#closeTiers(AbortSignal.timeout(withinMs));
    return this.#closing;
  }

  /** Resolves when it no longer reads from its backend, once it was ended. */
  async whenQuiet(): Promise<void> {
    await this.#closing;
    await this.#slots?.close();
  }

  async #closeTiers(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#ran, this.#opening]);
    await this.#slots?.close();
    await this.#tiers?.close(signal).catch((error: unknown) => this.#warn(messageOf(error)));
  }

  /** A disk that cannot be used is none. */
  async #openTiers(name: string, identity: ModelIdentity): Promise<void> {
    const { format } = this.#backend.content ?? {};
    if (format === undefined) return;
    const own = { ...identity, model: JSON.stringify([identity.model, format, ARITHMETIC_VERSION]) };
    if (this.#tiers !== undefined) await this.#openDisk(name, own, this.#tiers);
    this.#slots?.open({ ...identity, format, arithmetic: ARITHMETIC_VERSION }, own.model);
  }

  async #openDisk(name: string, own: ModelIdentity, tiers: KvTiers): Promise<void> {
    const { openDisk } = this.#options;
    const disk = await openDisk?.({ name, identity: own.model }).catch((error: unknown) => {
      this.#warn(messageOf(error));
      return undefined;
    });
    tiers.open(own, disk);
    const { vision } = this.#options;
    if (disk === undefined || vision === undefined) return;
    this.#towers?.open(new StoredFeatures(disk, own.model, vision), () => this.#wake());
  }

  #warn(message: string): void {
    this.#options.warn?.(message);
  }

  /** Runs until `end`. */
  run(): Promise<void> {
    // Whatever ended it, nothing waits for the next step any more.
    this.#ran = this.#run().finally(() => void this.#slots?.close());
    return this.#ran;
  }

  async #run(): Promise<void> {
    while (this.#ended === undefined) {
      this.#woken = false;
      if (!(await this.step())) await this.#sleep();
    }
  }

  /** Advances all that runs; false where there is nothing to do until something happens. Steps never overlap. */
  async step(): Promise<boolean> {
    const { recorder } = this.#reports;
    const { plan, rows, result: computing } = this.#next ?? (await this.#begin());
    this.#next = undefined;
    if (computing === undefined) return this.#skip(plan);
    // Towers compute between steps: a prepared one would leave no place for them.
    const prepared = this.#towers?.hasWork ? undefined : this.#prepareNext(plan);
    const result = await computing;
    recorder.computed();
    // What was cancelled during the step gets no token.
    const events: RequestEvent[] = this.#applyCancellations();
    const results =
      result.sampled ?? this.#backend.sampleRows(result.logits, this.#options.vocabSize, rows.rows);
    recorder.lap('sampleMs');
    this.#commit(plan, rows, results, events);
    this.#poolStates(plan, result, events);
    this.#score(plan, rows, results, events);
    const record = recorder.end(plan);
    this.#next = prepared && this.#beginPrepared(prepared);
    this.#reports.stepped(plan, events, record);
    return true;
  }

  /** Plans a step, with all that comes before, and lets the backend begin with it. */
  async #begin(): Promise<BegunStep> {
    const gone = this.#applyCancellations();
    if (gone.length > 0) this.#reports.report(gone);
    const towerMs = await this.#computeImages();
    const modelDrafts = this.#speculation?.hasModel
      ? await this.#speculation.runModel(this.#requests.answers(this.#scheduler.running), this.#nowMs)
      : undefined;
    this.#changeSlots();
    // Again where requests came while the device took memory: they need some, too.
    for (let growing = this.#resident?.beforePlan(); growing; growing = this.#resident?.beforePlan()) {
      await growing;
    }
    await this.#moveBlocks();
    this.#reports.recorder.begin();
    const plan = this.#plan(modelDrafts, towerMs);
    const batch = planBatch(plan);
    const rows = stepRows(plan, this.#requests);
    // From here on requests may end; the step is computed all the same.
    await this.#speculation?.planned(plan);
    await this.#resident?.afterPlan();
    return this.#compute(plan, rows, () => this.#backend.step(batch, rows.rows));
  }

  /** What was evicted for slots is kept, as what sequences take the place of is. */
  #changeSlots(): void {
    if (this.#slots?.hasWork !== true) return;
    this.#slots.runChanges();
    this.#tiers?.saveEvicted();
    this.#releaseUncommitted();
  }

  /** Blocks come up and go down for a small part of a step's time; with nothing to compute, until others should have their turn. */
  async #moveBlocks(): Promise<void> {
    const { running, loads, tables } = this.#scheduler;
    const tiers = this.#tiers?.hasWork === true ? this.#tiers : undefined;
    const slots = this.#slots?.hasCopies === true ? this.#slots : undefined;
    if (tiers === undefined && slots === undefined) return;
    // A device that has no memory for what is reserved takes nothing.
    if (this.#resident !== undefined && this.#resident.capacity < tables.pool.residentCount) return;
    const isBusy = running.length > loads;
    const budgetMs = isBusy ? MOVING_SHARE * this.#stepMs : IDLE_MOVING_MS;
    tiers?.advance(budgetMs);
    slots?.advance(budgetMs);
    if (!isBusy) await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** A part of what towers have to do, and how long it took; requests with all their images are queued. */
  async #computeImages(): Promise<number> {
    if (!this.#towers?.hasWork) return 0;
    const startedMs = this.#nowMs();
    const { ready, failed, spent } = await this.#towers.advance(this.#wallMs(), this.#scheduler.towerMs);
    for (const { sequence, ms } of spent) this.#scheduler.charge(sequence, ms);
    for (const sequence of ready) if (sequence.state === 'new') this.#scheduler.add(sequence);
    const events: FinishEvent[] = [];
    for (const { sequence, error } of failed) {
      const open = this.#requests.of(sequence);
      if (open !== undefined) events.push(this.#end(open, 'error', error));
    }
    this.#reports.report(events);
    return this.#nowMs() - startedMs;
  }

  #prepareNext(plan: StepPlan): PreparedStep | undefined {
    if (this.#speculation?.hasModel) return undefined;
    return prepareNext(plan, {
      backend: this.#backend,
      scheduler: this.#scheduler,
      requests: this.#requests,
    });
  }

  /** The same as `#begin`, at once, where nothing has to be waited for: the step that was prepared, or what is planned instead. */
  #beginPrepared(prepared: PreparedStep): BegunStep | undefined {
    const hasWork = this.#towers?.hasWork || this.#tiers?.hasWork || this.#slots?.hasWork;
    const isUnsettled = this.#resident?.isSettled === false || hasWork;
    if (isUnsettled || this.#cancelled.size > 0 || this.#ended !== undefined) return undefined;
    this.#reports.recorder.begin();
    const plan = this.#plan(undefined);
    const started = prepared.start(plan);
    const rows = stepRows(plan, this.#requests);
    const begun = this.#compute(plan, rows, () => started ?? this.#backend.step(planBatch(plan), rows.rows));
    // It is awaited by the next step, if there is one.
    begun.result?.catch(() => {});
    return begun;
  }

  #compute(plan: StepPlan, rows: StepRows, start: () => Promise<StepResult>): BegunStep {
    if (plan.items.length === 0) return { plan, rows, result: undefined };
    this.#reports.computing();
    return { plan, rows, result: start() };
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
    this.#reports.report(this.#requests.all().map((open) => this.#end(open, 'error', error)));
    this.#wake();
  }

  #enqueue(request: EngineRequest): RequestError | undefined {
    const opened = this.#requests.open(request);
    if (!opened.ok) return opened.error;
    const { sequence } = opened.open;
    const result = this.#scheduler.accepts(sequence);
    if (!result.accepted) {
      const code = result.tooLong === 'prompt' ? 'never-fits' : 'answer-never-fits';
      return { code, message: result.reason };
    }
    const images = imagesOf(request)?.images ?? [];
    const place = images.length === 0 ? 'ready' : this.#towers?.add(sequence, images, request.salt);
    if (typeof place === 'object') return place;
    if (place === 'ready') this.#scheduler.add(sequence);
    this.#requests.add(opened.open);
    this.#reports.queued();
    return undefined;
  }

  #plan(modelDrafts: ModelDrafts | undefined, towerMs = 0): StepPlan {
    const speculation = this.#speculation;
    const { usedCount, limit } = this.#scheduler.tables.pool;
    if (usedCount > limit) this.#slots?.giveWay();
    const plan = this.#scheduler.plan(
      this.#wallMs(),
      speculation &&
        ((sampling, load) => speculation.propose(this.#requests.answers(sampling), load, modelDrafts)),
      towerMs,
    );
    this.#tiers?.saveEvicted();
    this.#tiers?.begin(plan.loading);
    this.#releaseUncommitted();
    if (this.#slots !== undefined) this.#noteSlots(plan, this.#slots);
    return plan;
  }

  #noteSlots({ admitted, loading }: StepPlan, slots: Slots): void {
    for (const sequence of [...admitted, ...loading]) {
      slots.started(sequence, this.#requests.of(sequence)?.request.slot);
    }
  }

  #releaseUncommitted(): void {
    const uncommitted = this.#scheduler.tables.pool.takeUncommitted();
    if (uncommitted.length > 0) this.#backend.releaseBlocks(Int32Array.from(uncommitted));
  }

  /** Nothing can be computed but images. Where sequences were preempted, the next plan may find room for others. */
  #skip(plan: StepPlan): boolean {
    this.#scheduler.commit(plan, [], 0);
    this.#reports.rested(this.#resident?.refused ? this.#endUnplaceable(this.#resident) : []);
    if (this.#scheduler.waitsForGrant) this.#planAgainIn(GRANT_POLL_MS);
    const hasWork = this.#towers?.hasWork || this.#tiers?.hasWork || this.#slots?.hasWork;
    return plan.preempted.length > 0 || hasWork === true;
  }

  #planAgainIn(ms: number): void {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#wake(), ms).unref();
  }

  /** The device is asked for memory again after a while; where it has refused for long, the next to run ends. */
  #endUnplaceable({ capacity, refusedForGood }: ResidentBlocks): FinishEvent[] {
    const { sequence, short } = this.#scheduler.next;
    if (sequence === undefined || !short) return [];
    this.#planAgainIn(RETRY_MS);
    const open = this.#requests.of(sequence);
    if (!refusedForGood || open === undefined) return [];
    return [this.#end(open, 'error', deviceFullError(blocksFor(sequence.length), capacity))];
  }

  /** Ends what could not sample, advances the rest, ends what is complete. */
  #commit(
    plan: StepPlan,
    { answers }: StepRows,
    results: readonly SampleResult[],
    events: RequestEvent[],
  ): void {
    const finish = ({ open, end }: AcceptedTokens) => {
      if (end !== undefined) events.push(this.#end(open, end.reason, end.error));
    };
    const { recorder } = this.#reports;
    const accepted = answers.map((each) => acceptTokens(each, results, this.#requests));
    for (const one of accepted) if (one.tokens.length === 0) finish(one);
    const { elapsedMs } = recorder;
    this.#stepMs = elapsedMs;
    this.#scheduler.commit(
      plan,
      accepted.map(({ tokens }) => tokens),
      elapsedMs,
    );
    this.#speculation?.observe(plan, elapsedMs);
    for (const one of accepted) {
      const { open, draft, tokens } = one;
      if (tokens.length === 0) continue;
      recorder.generated(tokens.length);
      if (open.generated === tokens.length) this.#reports.begun(open.request.id);
      this.#speculation?.commit(open.sequence, draft, tokens);
      events.push(...one.events);
      finish(one);
    }
  }

  /** Adds up states and ends what has all of them. */
  #poolStates({ items }: StepPlan, { states }: StepResult, events: RequestEvent[]): void {
    const rows = items.reduce((sum, { states: [from, to] }) => sum + to - from, 0);
    const size = rows === 0 ? 0 : states.length / rows;
    let row = 0;
    for (const { sequence, states: wanted } of items) {
      if (sequence.pooled === undefined) continue;
      const count = wanted[1] - wanted[0];
      const own = states.subarray(row * size, (row + count) * size);
      row += count;
      const open = this.#requests.of(sequence);
      if (open === undefined) continue;
      if (count > 0) sequence.pooled.add(own, count);
      if (sequence.pooled.isComplete) events.push(this.#embedded(open, sequence.pooled.vector()));
    }
  }

  /** Gathers scores and ends what has all of them. */
  #score(
    { items }: StepPlan,
    { scored }: StepRows,
    results: readonly SampleResult[],
    events: RequestEvent[],
  ): void {
    for (const rows of scored) {
      if (this.#requests.of(rows.open.sequence) === undefined) continue;
      const error = addScores(rows, results);
      if (error !== undefined) events.push(this.#end(rows.open, 'error', error));
    }
    for (const { sequence } of items) {
      if (sequence.scored?.isComplete !== true) continue;
      const open = this.#requests.of(sequence);
      if (open !== undefined) events.push({ ...this.#end(open, 'stop'), scores: sequence.scored.scores });
    }
  }

  #embedded(open: OpenRequest, pooled: Float32Array | undefined): FinishEvent {
    // Maps after pooling are made for one vector.
    const maps = open.request.pooling === 'none' ? [] : (this.#options.dense ?? []);
    const vector = pooled && applyDense(maps, pooled);
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
    if (this.#cancelled.size > 0) this.#wake();
    return events;
  }

  #end(open: OpenRequest, reason: EndReason, error?: RequestError): FinishEvent {
    const draftTokens = this.#speculation?.end(open.sequence);
    const slot = this.#slots?.ended(open.sequence);
    const event = {
      ...open.ended(reason, error),
      ...(draftTokens === undefined ? {} : { draftTokens }),
      ...(slot === undefined ? {} : { slot }),
    };
    this.#towers?.remove(open.sequence);
    this.#scheduler.finish(open.sequence);
    this.#requests.remove(open);
    this.#reports.ended(event);
    if (this.#requests.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    return event;
  }

  #mtpOf(backend: Backend, { vocabSize }: EngineOptions): MtpDrafter | undefined {
    if (backend.predict === undefined || backend.draft === undefined) return undefined;
    return new MtpDrafter({
      backend: backend as PredictingBackend,
      tables: this.#scheduler.tables,
      vocabSize,
    });
  }

  /** Where texts are computed whole nothing is kept of them. */
  #tiersOf({ content }: Backend, { hostBytes, wholeTexts }: EngineOptions): KvTiers | undefined {
    if (content === undefined || hostBytes === undefined || wholeTexts === true) return undefined;
    return new KvTiers({ content, hostBytes, nowMs: this.#nowMs, wake: () => this.#wake() });
  }

  /** Texts that are computed whole leave nothing in the cache. */
  #slotsOf({ content }: Backend, { slots: files, wholeTexts }: EngineOptions): Slots | undefined {
    if (files === undefined || content === undefined || wholeTexts === true) return undefined;
    return new Slots({
      files,
      content,
      tables: this.#scheduler.tables,
      limits: this.#scheduler,
      stored: this.#tiers?.stored,
      nowMs: this.#nowMs,
      wake: () => this.#wake(),
      warn: (message) => this.#warn(message),
    });
  }

  #wake(): void {
    this.#woken = true;
    this.#wakeUp?.();
  }

  async #sleep(): Promise<void> {
    if (this.#woken) return;
    await new Promise<void>((resolve) => {
      this.#wakeUp = resolve;
    });
    this.#wakeUp = undefined;
  }
}

function towersOf(backend: Backend, options: EngineOptions, nowMs: () => number): Towers | undefined {
  const { vision, imageBytes: limitBytes = DEFAULT_IMAGE_BYTES } = options;
  if (vision === undefined || backend.beginImage === undefined) return undefined;
  return new Towers((image) => (backend as SeeingBackend).beginImage(image), { vision, limitBytes }, nowMs);
}

type SeeingBackend = Backend & Required<Pick<Backend, 'beginImage'>>;
