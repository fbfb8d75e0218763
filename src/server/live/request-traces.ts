// Traces of the last requests: their events, and what each found in the prefix cache. Subscribes to the engines that they run
// on. The number of traces, and of events in each, is bounded.

import type { EngineClient } from '../../engine/engine-client.ts';
import type { EndReason } from '../../engine/request.ts';
import type { PrefixLookup as EngineLookup, StepSummary } from '../../engine/step-report.ts';
import type { EstimatedWait } from '../../engine/wait-estimates.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { Tier } from '../../store/key-record.ts';
import type { EndedRequest, RequestBrief, TraceEvent, UpstreamUse } from './live-event.ts';
import { ExpectedWaits } from './recent-measurements.ts';

const MOST_TRACES = 500;
const MOST_EVENTS = 200;
const MOST_CHOICES = 32;
const MOST_PROMPT_CHARACTERS = 4000;

export interface TracedRequest {
  readonly kind: RequestBrief['kind'];
  readonly requestId: string;
  readonly model: string;
  readonly upstream?: UpstreamUse;
  readonly tier: Tier;
  readonly keyId: string;
  readonly keyName: string | undefined;
  readonly address: string;
  readonly arrivedMs: number;
  readonly promptTokens: number;
  readonly prompt: string | undefined;
}

interface TraceEnd {
  readonly usage: TokenUsage;
  readonly outcome: string;
  readonly reasons: readonly EndReason[];
}

/** One choice of a request, which the engine knows as a request of its own. */
interface Choice {
  readonly trace: Trace;
  /** Undefined where an upstream answers. */
  readonly engine: EngineClient | undefined;
  readonly number: number;
  readonly submittedMs: number;
  admitted: boolean;
}

interface QueuePositions {
  readonly byId: ReadonlyMap<string, EstimatedWait>;
  readonly atMs: number;
}

export interface KeptLookup extends Omit<EngineLookup, 'id'> {
  readonly choice: number;
}

export class Trace {
  readonly of: TracedRequest;
  readonly arrivedMs: number;
  readonly events: TraceEvent[] = [{ atMs: 0, what: 'arrived' }];
  readonly lookups: KeptLookup[] = [];
  readonly engineIds: string[] = [];
  firstTokenMs: number | undefined;
  generatedTokens = 0;
  end: (TraceEnd & { readonly totalMs: number }) | undefined;

  constructor(of: TracedRequest, arrivedMs: number) {
    this.of = of.prompt === undefined ? of : { ...of, prompt: of.prompt.slice(0, MOST_PROMPT_CHARACTERS) };
    this.arrivedMs = arrivedMs;
  }

  note(what: TraceEvent['what'], nowMs: number, choice?: number): void {
    if (this.events.length >= MOST_EVENTS && what !== 'ended') return;
    const atMs = Math.max(0, nowMs - this.of.arrivedMs);
    this.events.push({ atMs, what, ...(choice === undefined ? {} : { choice }) });
  }

  found(choice: number, { id: _, ...lookup }: EngineLookup): void {
    // After a restart the new engine finds less in its cache; the first lookup counts.
    if (choice >= MOST_CHOICES || this.lookups.some((one) => one.choice === choice)) return;
    this.lookups.push({ choice, ...lookup });
  }

  brief(nowMs: number): RequestBrief {
    const { kind, requestId, model, upstream, tier, keyId, keyName, promptTokens, arrivedMs } = this.of;
    const { usage, totalMs = nowMs - arrivedMs, outcome = 'running' } = { ...this.end };
    const cachedTokens = usage?.cachedTokens ?? this.lookups.reduce((sum, one) => sum + one.cachedTokens, 0);
    return {
      kind,
      requestId,
      model,
      ...(upstream === undefined ? {} : { upstream }),
      tier,
      keyId,
      ...(keyName === undefined ? {} : { keyName }),
      arrivedMs: this.arrivedMs,
      running: this.end === undefined,
      outcome,
      promptTokens: usage?.promptTokens ?? promptTokens,
      cachedTokens,
      generatedTokens: usage?.completionTokens ?? this.generatedTokens,
      ...(this.firstTokenMs === undefined ? {} : { firstTokenMs: this.firstTokenMs }),
      totalMs,
    };
  }
}

export class RequestTraces {
  readonly #nowMs: () => number;
  readonly #traces: Trace[] = [];
  readonly #choices = new Map<string, Choice>();
  readonly #followed = new WeakMap<EngineClient, ExpectedWaits>();
  readonly #positions = new WeakMap<EngineClient, QueuePositions>();
  readonly #endListeners = new Set<(ended: EndedRequest) => void>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  begin(of: TracedRequest): Trace {
    const trace = new Trace(of, Date.now() - (this.#nowMs() - of.arrivedMs));
    this.#traces.push(trace);
    if (this.#traces.length > MOST_TRACES) this.#traces.shift();
    return trace;
  }

  submitted(trace: Trace, engineId: string, engine: EngineClient | undefined): void {
    if (engine !== undefined) this.#follow(engine);
    const nowMs = this.#nowMs();
    const number = trace.engineIds.push(engineId) - 1;
    this.#choices.set(engineId, { trace, engine, number, submittedMs: nowMs, admitted: false });
    trace.note('submitted', nowMs, number);
  }

  firstToken(trace: Trace): void {
    const nowMs = this.#nowMs();
    trace.firstTokenMs = nowMs - trace.of.arrivedMs;
    trace.note('first-token', nowMs);
  }

  ended(trace: Trace, end: TraceEnd): void {
    const nowMs = this.#nowMs();
    for (const id of trace.engineIds.splice(0)) this.#choices.delete(id);
    trace.end = { ...end, reasons: end.reasons.slice(0, MOST_CHOICES), totalMs: nowMs - trace.of.arrivedMs };
    trace.note('ended', nowMs);
    if (this.#endListeners.size === 0) return;
    const { kind: _, keyId, keyName, arrivedMs, running, ...ended } = trace.brief(nowMs);
    for (const listener of this.#endListeners) listener(ended);
  }

  onEnded(listener: (ended: EndedRequest) => void): () => void {
    this.#endListeners.add(listener);
    return () => this.#endListeners.delete(listener);
  }

  requestIdOf(engineId: string): string | undefined {
    return this.#choices.get(engineId)?.trace.of.requestId;
  }

  /** The foremost queue position of these requests; undefined where none is known to wait. */
  queuePositionOf(engine: EngineClient, engineIds: readonly string[]): Omit<EstimatedWait, 'id'> | undefined {
    const positions = this.#positions.get(engine);
    if (positions === undefined) return undefined;
    let first: EstimatedWait | undefined;
    for (const id of engineIds) {
      const place = positions.byId.get(id);
      if (place !== undefined && (first === undefined || place.position < first.position)) first = place;
    }
    if (first === undefined) return undefined;
    const waitMs = Math.max(0, first.waitMs - (this.#nowMs() - positions.atMs));
    return { position: first.position, waitMs };
  }

  all(): readonly Trace[] {
    return this.#traces.toReversed();
  }

  expectedMs(engine: EngineClient, tier: Tier, ahead: number): number | undefined {
    return this.#followed.get(engine)?.expectedMs(tier, ahead, this.#nowMs());
  }

  #follow(engine: EngineClient): void {
    if (this.#followed.has(engine)) return;
    const waits = new ExpectedWaits();
    this.#followed.set(engine, waits);
    engine.monitor?.subscribe({
      step: (step, lookups) => this.#stepped(step, lookups, waits),
      queuePositions: (positions) => {
        const byId = new Map(positions.map((one) => [one.id, one]));
        this.#positions.set(engine, { byId, atMs: this.#nowMs() });
      },
      lost: (died) => {
        if (!died) return;
        const nowMs = this.#nowMs();
        for (const { trace, number, engine: its } of this.#choices.values()) {
          if (its === engine) trace.note('engine-died', nowMs, number);
        }
      },
    });
  }

  #stepped(step: StepSummary, lookups: readonly EngineLookup[], waits: ExpectedWaits): void {
    if (step.admitted.length === 0 && step.preempted.length === 0) return;
    const nowMs = this.#nowMs();
    const { scheduleMs, computeMs, sampleMs, emitMs } = step.times;
    // The report of a step arrives when the step is over.
    const beganMs = nowMs - (scheduleMs + computeMs + sampleMs + emitMs);
    for (const id of step.preempted) {
      const choice = this.#choices.get(id);
      choice?.trace.note('preempted', beganMs, choice.number);
    }
    for (const id of step.admitted) {
      const choice = this.#choices.get(id);
      if (choice === undefined) continue;
      choice.trace.note(choice.admitted ? 'resumed' : 'admitted', beganMs, choice.number);
      if (!choice.admitted) {
        const { tier } = choice.trace.of;
        waits.begun({ atMs: nowMs, tier, waitedMs: Math.max(0, beganMs - choice.submittedMs) });
      }
      choice.admitted = true;
    }
    for (const lookup of lookups) {
      const choice = this.#choices.get(lookup.id);
      choice?.trace.found(choice.number, lookup);
    }
  }
}
