// The engine as the server runs it, in this process, with the times of tokens and steps. Several may share a backend, one
// running at a time.

import type { Backend } from '../../compute/backend.ts';
import { Engine, type EngineOptions } from '../../engine/engine.ts';
import type { DraftTokenCounts, EngineRequest, RequestEvent } from '../../engine/request.ts';
import { unloadedError } from '../../engine/request-errors.ts';
import type { StepReport, StepSummary, StepTimes } from '../../engine/step-report.ts';
import { type SamplingParameters, validateSampling } from '../../sampling/parameters.ts';
import { seedFrom } from '../../sampling/random.ts';

interface MeasuredRequest {
  readonly prompt: Int32Array;
  /** Includes those it begins with. */
  readonly outputTokens: number;
  readonly begun?: readonly number[];
  /** Blocks are shared only within a salt. Default: one for all. */
  readonly salt?: string;
}

/** Times count from the start of the run. */
export interface MeasuredAnswer {
  readonly submittedMs: number;
  readonly firstTokenMs: number;
  readonly endMs: number;
  readonly tokens: readonly number[];
  readonly cachedTokens: number;
  readonly draftTokens: DraftTokenCounts | undefined;
}

export interface MeasuredStep {
  readonly tokens: number;
  readonly sequences: number;
  /** From the end of the step before it, or from the start of the run. */
  readonly wallMs: number;
  readonly times: StepTimes;
}

export interface MeasuredRun {
  readonly ms: number;
  readonly answers: readonly MeasuredAnswer[];
  readonly steps: readonly MeasuredStep[];
}

interface OpenAnswer {
  readonly submitted: number;
  firstToken: number;
  readonly tokens: number[];
  readonly resolve: (answer: ClockedAnswer) => void;
  readonly reject: (error: Error) => void;
}

interface ClockedAnswer extends Pick<MeasuredAnswer, 'tokens' | 'cachedTokens' | 'draftTokens'> {
  readonly submitted: number;
  readonly firstToken: number;
  readonly end: number;
}

export type MeasuredEngineOptions = Pick<
  EngineOptions,
  | 'blockCount'
  | 'blockLimit'
  | 'budget'
  | 'vocabSize'
  | 'contextLength'
  | 'direct'
  | 'newDrafter'
  | 'rowTimes'
>;

export class MeasuredEngine {
  readonly #engine: Engine;
  readonly #running: Promise<void>;
  readonly #vocabSize: number;
  readonly #open = new Map<string, OpenAnswer>();
  #requests = 0;
  #onStep: (step: StepSummary) => void = () => {};

  constructor(backend: Backend, options: MeasuredEngineOptions) {
    this.#vocabSize = options.vocabSize;
    // Blocks are counted for the measurement, so all may be used.
    const engineOptions = {
      ...options,
      watermark: 1,
      endIds: [],
      // Random answers repeat themselves: drafts of them would be mistaken for speed.
      speculation: options.newDrafter !== undefined,
    };
    this.#engine = new Engine(backend, engineOptions, (report) => this.#hear(report));
    this.#running = this.#engine.run();
    // The caller of `run` gets the error.
    this.#running.catch(() => {});
  }

  /** `atOnce` requests run concurrently, the next as soon as one ends. */
  async run(requests: readonly MeasuredRequest[], atOnce = requests.length): Promise<MeasuredRun> {
    const steps: MeasuredStep[] = [];
    const answers: MeasuredAnswer[] = [];
    const started = performance.now();
    let stepEnd = started;
    this.#onStep = ({ tokens, sequences, times }) => {
      const now = performance.now();
      steps.push({ tokens, sequences, wallMs: now - stepEnd, times });
      stepEnd = now;
    };
    const queue = requests.entries();
    const client = async () => {
      for (const [place, request] of queue) answers[place] = since(started, await this.#ask(request));
    };
    const finished = Promise.all(Array.from({ length: atOnce }, client));
    await Promise.race([finished, this.#running]);
    return { ms: performance.now() - started, answers, steps };
  }

  async close(): Promise<void> {
    this.#engine.end(unloadedError);
    await this.#running;
  }

  #ask(request: MeasuredRequest): Promise<ClockedAnswer> {
    const id = String(this.#requests++);
    return new Promise((resolve, reject) => {
      const submitted = performance.now();
      this.#open.set(id, { submitted, firstToken: Number.NaN, tokens: [], resolve, reject });
      this.#engine.submit(this.#request(id, request));
    });
  }

  #hear({ events, step }: StepReport): void {
    const now = performance.now();
    for (const event of events) this.#note(event, now);
    if (step !== undefined) this.#onStep(step);
  }

  #note(event: RequestEvent, now: number): void {
    const answer = this.#open.get(event.id) as OpenAnswer;
    if (event.kind === 'token') {
      if (answer.tokens.length === 0) answer.firstToken = now;
      answer.tokens.push(event.token);
      return;
    }
    this.#open.delete(event.id);
    const { reason, error, cachedTokens, draftTokens } = event;
    if (reason === 'length') answer.resolve({ ...answer, cachedTokens, draftTokens, end: now });
    else answer.reject(new Error(error?.message ?? `ended by ${reason}`));
  }

  #request(id: string, { prompt, outputTokens, begun, salt = '' }: MeasuredRequest): EngineRequest {
    return {
      id,
      prompt,
      parameters: greedy(outputTokens, this.#vocabSize),
      priority: 1,
      salt,
      account: '',
      enqueuedMs: Date.now(),
      ...(begun === undefined ? {} : { answer: begun }),
    };
  }
}

function since(started: number, answer: ClockedAnswer): MeasuredAnswer {
  const { submitted, firstToken, end, tokens, cachedTokens, draftTokens } = answer;
  return {
    submittedMs: submitted - started,
    firstTokenMs: firstToken - started,
    endMs: end - started,
    tokens,
    cachedTokens,
    draftTokens,
  };
}

function greedy(maxTokens: number, vocabSize: number): SamplingParameters {
  const wanted = { temperature: 0, maxTokens, ignoreEos: true };
  const result = validateSampling(wanted, { vocabSize, freshSeed: seedFrom(0n) });
  if (!result.ok) throw new Error(`${result.parameter} ${result.problem}`);
  return result.parameters;
}

export type NextPrompt = (tokens: number) => Int32Array;

/** Deterministic; no two prompts begin alike, so none finds another's prefix in the cache. */
export function randomPrompts(vocabSize: number): NextPrompt {
  let state = 1;
  const randomToken = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * vocabSize);
  };
  return (tokens) => Int32Array.from({ length: tokens }, randomToken);
}
