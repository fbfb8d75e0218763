// What an engine publishes of its work: a report after each step and where something happened between steps, stats and
// snapshots. Measures steps and estimates waits.

import { type ImageStats, saysSame } from './images/image-stats.ts';
import { type ImageWaits, LiveView } from './live/live-view.ts';
import type { EngineSnapshot } from './live/snapshot.ts';
import type { FinishEvent, RequestEvent } from './request.ts';
import type { Scheduler } from './scheduler/scheduler.ts';
import type { Sequence } from './scheduler/sequence.ts';
import type { BlockDemand, SchedulerStats } from './scheduler/stats.ts';
import type { StepPlan } from './scheduler/step-plan.ts';
import { type EngineRecord, type RecordedStep, StepRecorder } from './step-recorder.ts';
import type { PrefixLookup, StepReport, StepSummary } from './step-report.ts';
import type { StoredKeys } from './tiers/stored-keys.ts';
import { figuresOf, saysSame as saysSameOfTiers, type TierStats } from './tiers/tier-stats.ts';
import { WaitEstimates } from './wait-estimates.ts';

/** Events in one report: they are read in one go. */
const MOST_EVENTS = 256;
/** How often positions in the queue are published. */
const POSITIONS_MS = 500;
/** The same where one of those that wait has just come: in time for the headers of its stream. */
const FIRST_POSITIONS_MS = 100;
/** How often counts of tiers are published while they change. */
const TIERS_MS = 500;
/** How often what tiers hold is published while it changes. */
const STORED_MS = 250;
/** How often it is published that towers compute, where nothing else is new: they take the place of steps then. */
const PIECES_MS = 500;

/** Where the model has a vision tower. */
interface Images extends ImageWaits {
  stats(): ImageStats;
}

/** Where blocks that leave memory are kept. */
interface Tiers {
  stats(): TierStats;
  followStored(onNews: (() => void) | undefined): void;
  takeStored(): StoredKeys[];
  readonly hasStoredNews: boolean;
}

interface Stepped {
  readonly plan: StepPlan;
  readonly recorded: RecordedStep;
}

export type ReportListener = (report: StepReport) => void;

export class EngineReports {
  readonly recorder: StepRecorder;
  readonly #scheduler: Scheduler;
  readonly #images: Images | undefined;
  readonly #tiers: Tiers | undefined;
  readonly #publish: ReportListener;
  readonly #nowMs: () => number;
  readonly #estimates = new WaitEstimates();
  /** Set while snapshots are taken. */
  #live: LiveView | undefined;
  #withStats = false;
  #publishedBlocks: BlockDemand | undefined;
  #publishedImages: ImageStats | undefined;
  #publishedTiers: TierStats | undefined;
  #tiersMs = Number.NEGATIVE_INFINITY;
  #imagesMs = Number.NEGATIVE_INFINITY;
  #later: NodeJS.Timeout | undefined;
  #storedLater: NodeJS.Timeout | undefined;
  #positionsMs = Number.NEGATIVE_INFINITY;
  /** Whether requests have come since positions were published. */
  #hasNewcomers = false;

  constructor(
    scheduler: Scheduler,
    publish: ReportListener,
    nowMs: () => number,
    { images, tiers }: { readonly images?: Images | undefined; readonly tiers?: Tiers | undefined } = {},
  ) {
    this.#images = images;
    this.#tiers = tiers;
    this.#scheduler = scheduler;
    this.#publish = publish;
    this.#nowMs = nowMs;
    this.recorder = new StepRecorder(nowMs);
  }

  stats(nowMs: number): SchedulerStats & EngineRecord {
    return { ...this.#scheduler.stats(nowMs, this.#images?.waiting()), ...this.recorder.record };
  }

  /** Whether reports carry full stats. */
  setStats(on: boolean): void {
    this.#withStats = on;
  }

  /** Whether reports say what enters and leaves the prefix cache; all that is in it comes at once. */
  setPrefixes(on: boolean): void {
    const { prefixes } = this.#scheduler.tables;
    if (!on) prefixes.endEvents();
    else this.#publish({ events: [], blocks: this.#scheduler.demand(), prefixes: prefixes.startEvents() });
  }

  /** The same of the tiers below its memory. */
  setStored(on: boolean): void {
    this.#tiers?.followStored(on ? () => this.#reportStored() : undefined);
  }

  /** Soon, whether steps are computed or not. */
  #reportStored(): void {
    this.#storedLater ??= setTimeout(() => {
      this.#storedLater = undefined;
      const stored = this.#tiers?.takeStored() ?? [];
      // An engine that has computed nothing yet says here for the first time what tiers it has.
      const tiers = this.#takeTiers();
      if (stored.length > 0 || tiers !== undefined) {
        const blocks = this.#scheduler.demand();
        this.#publish({ events: [], blocks, stored, ...(tiers === undefined ? {} : { tiers }) });
      }
      if (this.#tiers?.hasStoredNews === true) this.#reportStored();
    }, STORED_MS).unref();
  }

  /** What the engine does now, and has done since the last snapshot; the first one makes it gather from then on. */
  snapshot(nowMs: number): EngineSnapshot {
    const tiers = this.#tiers;
    this.#live ??= new LiveView(this.#scheduler, this.#images, tiers && (() => figuresOf(tiers.stats())));
    return this.#live.snapshot(nowMs);
  }

  endSnapshots(): void {
    this.#live = undefined;
  }

  /** A request waits. */
  queued(): void {
    this.#hasNewcomers = true;
  }

  /** The first token of a request has come. */
  begun(id: string): void {
    this.#estimates.begun(id, this.#nowMs());
  }

  ended({ id, reason, generatedTokens }: FinishEvent): void {
    this.#estimates.begun(id, undefined);
    if (reason === 'stop' || reason === 'length') this.#estimates.answered(generatedTokens);
    this.recorder.ended(reason);
  }

  /** A step is about to be computed. */
  computing(): void {
    this.recorder.lap('scheduleMs');
    this.#estimates.beginning(this.#nowMs());
  }

  /** Nothing could be computed. */
  rested(events: readonly RequestEvent[]): void {
    this.#estimates.rested();
    this.report(events);
  }

  /** A step is committed; the next one may be under way. */
  stepped(plan: StepPlan, events: readonly RequestEvent[], recorded: RecordedStep): void {
    const tokens = events.reduce((count, { kind }) => count + Number(kind === 'token'), 0);
    this.#estimates.stepped(plan, tokens, this.#scheduler, this.#nowMs());
    this.report(events, { plan, recorded });
    const { step, ms } = recorded;
    this.#live?.stepped(plan, { step, atMs: Date.now() - ms, ms });
  }

  /** Between steps there is something to say where requests have ended, or blocks have been given back or are wanted. */
  report(events: readonly RequestEvent[], stepped?: Stepped): void {
    const blocks = this.#scheduler.demand();
    const prefixes = this.#scheduler.tables.prefixes.takeEvents();
    const images = this.#takeImages();
    const tiers = this.#takeTiers();
    const isNews =
      stepped !== undefined ||
      events.length > 0 ||
      [prefixes, images, tiers].some((one) => one !== undefined);
    if (!isNews && isSame(blocks, this.#publishedBlocks)) return;
    this.#publishedBlocks = blocks;
    const parts = inParts(events);
    for (const part of parts.slice(0, -1)) this.#publish({ events: part, blocks });
    this.#publish({
      events: parts.at(-1) ?? [],
      blocks,
      ...(prefixes === undefined ? {} : { prefixes }),
      ...(images === undefined ? {} : { images }),
      ...(tiers === undefined ? {} : { tiers }),
      ...(stepped === undefined ? {} : this.#ofStep(stepped, events)),
    });
  }

  /** Where they say something new. */
  #takeImages(): ImageStats | undefined {
    const stats = this.#images?.stats();
    if (stats === undefined) return undefined;
    const nowMs = this.#nowMs();
    const isAlive = stats.pieces !== this.#publishedImages?.pieces && nowMs - this.#imagesMs >= PIECES_MS;
    if (saysSame(stats, this.#publishedImages) && !isAlive) return undefined;
    this.#publishedImages = stats;
    this.#imagesMs = nowMs;
    return stats;
  }

  /** The same, now and then. */
  #takeTiers(): TierStats | undefined {
    const stats = this.#tiers?.stats();
    if (stats === undefined || saysSameOfTiers(stats, this.#publishedTiers)) return undefined;
    // A disk goes on after the last step.
    this.#later ??= setTimeout(() => {
      this.#later = undefined;
      this.report([]);
    }, TIERS_MS).unref();
    const nowMs = this.#nowMs();
    if (nowMs - this.#tiersMs < TIERS_MS) return undefined;
    this.#tiersMs = nowMs;
    this.#publishedTiers = stats;
    return stats;
  }

  #ofStep(stepped: Stepped, events: readonly RequestEvent[]): Partial<StepReport> {
    const lookups = lookupsOf(stepped.plan);
    const places = this.#positions();
    return {
      step: summaryOf(stepped, events),
      ...(lookups === undefined ? {} : { lookups }),
      ...(places === undefined ? {} : { places }),
      ...(this.#withStats ? { stats: this.#scheduler.stats(Date.now(), this.#images?.waiting()) } : {}),
    };
  }

  /** Now and then, while any wait. */
  #positions(): StepReport['places'] {
    const nowMs = this.#nowMs();
    const pauseMs = this.#hasNewcomers ? FIRST_POSITIONS_MS : POSITIONS_MS;
    if (this.#scheduler.waitingCount === 0 || nowMs - this.#positionsMs < pauseMs) return undefined;
    const places = this.#estimates.places(this.#scheduler, nowMs);
    // Nothing was measured yet.
    if (places.length === 0) return undefined;
    this.#positionsMs = nowMs;
    this.#hasNewcomers = false;
    return places;
  }
}

function summaryOf({ plan, recorded }: Stepped, events: readonly RequestEvent[]): StepSummary {
  const ids = (sequences: readonly Sequence[]) => sequences.map(({ id }) => id);
  return {
    step: recorded.step,
    tokens: plan.load.tokens,
    sequences: plan.load.sequences,
    admitted: ids([...plan.admitted, ...plan.loaded]),
    preempted: ids(plan.preempted),
    finished: events.filter(({ kind }) => kind === 'finish').map(({ id }) => id),
    times: recorded.times,
  };
}

/** Of those that run for the first time. */
function lookupsOf({ admitted, loaded }: StepPlan): PrefixLookup[] | undefined {
  if (admitted.length + loaded.length === 0) return undefined;
  return [...admitted, ...loaded].flatMap(
    ({ id, promptLength: promptTokens, cachedTokens, loadedTokens, preemptions, miss }) =>
      miss === undefined || preemptions > 0
        ? []
        : [{ id, promptTokens, cachedTokens, ...(loadedTokens === 0 ? {} : { loadedTokens }), ...miss }],
  );
}

function isSame(a: BlockDemand, b: BlockDemand | undefined): boolean {
  return (
    a.limit === b?.limit &&
    a.held === b.held &&
    a.used === b.used &&
    a.shared === b.shared &&
    a.cached === b.cached &&
    a.wanted === b.wanted &&
    a.short === b.short &&
    a.required === b.required
  );
}

/**
 * The events of one request stay together, a few beyond the most: an engine that dies between two reports has then never
 * published a token that ends an answer without the end.
 */
function inParts(events: readonly RequestEvent[]): (readonly RequestEvent[])[] {
  const parts: (readonly RequestEvent[])[] = [];
  for (let from = 0; from < events.length; ) {
    let end = from + MOST_EVENTS;
    while (end < events.length && events[end]?.id === events[end - 1]?.id) end++;
    parts.push(events.slice(from, end));
    from = end;
  }
  return parts;
}
