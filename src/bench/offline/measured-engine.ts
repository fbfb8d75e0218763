// The engine as the server runs it, in this process, with a clock beside it: runs requests together and tells when
// each token came and how long each step took. Several may share a backend, as long as one runs at a time.

import type { Backend } from '../../compute/backend.ts';
import { Engine, type EngineOptions } from '../../engine/engine.ts';
import type { EngineRequest, RequestEvent } from '../../engine/request.ts';
import type { StepTimes } from '../../engine/step-times.ts';
import { type SamplingParameters, validateSampling } from '../../sampling/parameters.ts';
import { seedFrom } from '../../sampling/random.ts';

export interface MeasuredRequest {
  readonly prompt: Int32Array;
  /** All tokens of the answer, those it begins with included. */
  readonly outputTokens: number;
  /** The beginning of the answer, where it is known already. */
  readonly begun?: readonly number[];
}

export interface MeasuredAnswer {
  /** From the start of the run to the first token of it. */
  readonly firstTokenMs: number;
  /** Those that came in this run. */
  readonly tokens: readonly number[];
  readonly cachedTokens: number;
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
  /** In the order of the requests. */
  readonly answers: readonly MeasuredAnswer[];
  readonly steps: readonly MeasuredStep[];
}

interface OpenAnswer {
  firstTokenMs: number;
  readonly tokens: number[];
  cachedTokens: number;
}

export type MeasuredEngineOptions = Pick<
  EngineOptions,
  'blockCount' | 'budget' | 'vocabSize' | 'contextLength' | 'direct'
>;

export class MeasuredEngine {
  readonly #engine: Engine;
  readonly #running: Promise<void>;
  readonly #vocabSize: number;
  #requests = 0;
  #listen: (events: readonly RequestEvent[]) => void = () => {};

  constructor(backend: Backend, options: MeasuredEngineOptions) {
    this.#vocabSize = options.vocabSize;
    // The blocks are counted for what is measured, so all of them may be used.
    const engineOptions = { ...options, watermark: 1, endIds: [] };
    this.#engine = new Engine(backend, engineOptions, (events) => this.#listen(events));
    this.#running = this.#engine.run();
    // A fault reaches whoever waits for a run.
    this.#running.catch(() => {});
  }

  /** Submits all at once and waits for the last. */
  async run(requests: readonly MeasuredRequest[]): Promise<MeasuredRun> {
    const engineRequests = requests.map((request) => this.#request(request));
    const answers = new Map<string, OpenAnswer>(
      engineRequests.map(({ id }) => [id, { firstTokenMs: Number.NaN, tokens: [], cachedTokens: 0 }]),
    );
    const steps: MeasuredStep[] = [];
    const started = performance.now();
    let stepEnd = started;
    const stopWatching = this.#engine.watch(({ tokens, sequences, times }) => {
      const now = performance.now();
      steps.push({ tokens, sequences, wallMs: now - stepEnd, times });
      stepEnd = now;
    });
    try {
      const finished = this.#collect(answers, started);
      for (const request of engineRequests) this.#engine.submit(request);
      await Promise.race([finished, this.#running]);
      return { ms: performance.now() - started, answers: [...answers.values()], steps };
    } finally {
      stopWatching();
    }
  }

  async close(): Promise<void> {
    this.#engine.close();
    await this.#running;
  }

  /** Resolves when every answer has its full length. */
  #collect(answers: ReadonlyMap<string, OpenAnswer>, started: number): Promise<void> {
    let open = answers.size;
    return new Promise((resolve, reject) => {
      this.#listen = (events) => {
        const ms = performance.now() - started;
        for (const event of events) {
          const answer = answers.get(event.id) as OpenAnswer;
          if (event.kind === 'token') {
            if (answer.tokens.length === 0) answer.firstTokenMs = ms;
            answer.tokens.push(event.token);
            continue;
          }
          answer.cachedTokens = event.cachedTokens;
          if (event.reason !== 'length')
            reject(new Error(event.error?.message ?? `ended by ${event.reason}`));
          if (--open === 0) resolve();
        }
      };
    });
  }

  #request({ prompt, outputTokens, begun }: MeasuredRequest): EngineRequest {
    return {
      id: String(this.#requests++),
      prompt,
      choices: 1,
      parameters: greedy(outputTokens, this.#vocabSize),
      priority: 1,
      tenant: '',
      enqueuedMs: Date.now(),
      ...(begun === undefined ? {} : { resumed: [{ choice: 0, tokens: begun }] }),
    };
  }
}

function greedy(maxTokens: number, vocabSize: number): SamplingParameters {
  const wish = { temperature: 0, maxTokens, ignoreEos: true };
  const result = validateSampling(wish, { vocabSize, freshSeed: seedFrom(0n) });
  if (!result.ok) throw new Error(`${result.parameter} ${result.problem}`);
  return result.parameters;
}
