// The measurements: several requests at once, requests one after the other, and one prompt twice.

import { median, percentile, sort } from '../statistics.ts';
import type {
  MeasuredAnswer,
  MeasuredEngine,
  MeasuredRun,
  MeasuredStep,
  NextPrompt,
} from './measured-engine.ts';
import { OfflineError, type OfflineSettings } from './offline-settings.ts';
import type { KnownAnswers } from './simulated-drafter.ts';

/** One pair says little on a shared machine. */
const SPECULATIVE_REPEATS = 3;

export interface BatchedSpeed {
  readonly prefill: {
    readonly tokensPerSecond: number;
    readonly firstTokenMs: { readonly median: number; readonly last: number };
  };
  readonly decode: DecodeSpeed;
  readonly seconds: number;
}

export interface DirectSpeed {
  readonly requests: number;
  readonly firstTokenMs: number;
  readonly prefillTokensPerSecond: number;
  readonly decode: DecodeSpeed;
  readonly secondsPerRequest: number;
}

/** Decoding with draft tokens of a given acceptance rate, next to decoding without. */
export interface SpeculativeSpeed {
  readonly tokensPerSecond: number;
  readonly plainTokensPerSecond: number;
  /** With over without drafts: the median of repeats, each measured both ways in turn. */
  readonly ratio: number;
  readonly accepted: number;
  readonly rejected: number;
}

export interface PrefixSpeed {
  readonly tokens: number;
  readonly cachedTokens: number;
  readonly coldFirstTokenMs: number;
  readonly cachedFirstTokenMs: number;
  readonly ratio: number;
}

async function repeated<T>(repeats: number, once: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let repeat = 0; repeat < repeats; repeat++) results.push(await once());
  return results;
}

/**
 * Prefill all prompts; then the same requests continue with their KV in the cache, so that every stream decodes from
 * the first step to the last.
 */
export async function measureBatched(
  engine: MeasuredEngine,
  streams: number,
  settings: OfflineSettings,
  nextPrompt: NextPrompt,
): Promise<BatchedSpeed> {
  const { promptTokens, outputTokens, repeats } = settings;
  const runs = await repeated(repeats, async () => {
    const prompts = Array.from({ length: streams }, () => nextPrompt(promptTokens));
    const prefill = await engine.run(prompts.map((prompt) => ({ prompt, outputTokens: 1 })));
    const decode = await engine.run(
      prompts.map((prompt, n) => ({
        prompt,
        outputTokens,
        begun: (prefill.answers[n] as MeasuredAnswer).tokens,
      })),
    );
    const firstTokens = prefill.answers.map(({ firstTokenMs }) => firstTokenMs);
    return { prefillMs: prefill.ms, decode, firstTokens };
  });
  const prefillMs = median(runs.map((run) => run.prefillMs));
  return {
    prefill: {
      tokensPerSecond: (1000 * streams * promptTokens) / prefillMs,
      firstTokenMs: {
        median: median(runs.flatMap(({ firstTokens }) => firstTokens)),
        last: median(runs.map(({ firstTokens }) => Math.max(...firstTokens))),
      },
    },
    decode: decodeSpeed(requireSteps(runs.flatMap(({ decode }) => decodeSteps(decode, streams))), streams),
    seconds: (prefillMs + median(runs.map(({ decode }) => decode.ms))) / 1000,
  };
}

function requireSteps(steps: MeasuredStep[]): MeasuredStep[] {
  if (steps.length > 0) return steps;
  throw new OfflineError(
    'in no step did all streams decode: give more --tokens, or a --prompt of a multiple of 32 tokens',
  );
}

/** The same answers without and with draft tokens, from their second token on; a first run finds what they are. */
export async function measureSpeculative(
  plain: MeasuredEngine,
  speculating: MeasuredEngine,
  known: KnownAnswers,
  streams: number,
  settings: OfflineSettings,
  nextPrompt: NextPrompt,
): Promise<SpeculativeSpeed> {
  const { promptTokens, outputTokens, repeats } = settings;
  const prompts = Array.from({ length: streams }, () => nextPrompt(promptTokens));
  const whole = await plain.run(prompts.map((prompt) => ({ prompt, outputTokens })));
  const answers = whole.answers.map(({ tokens }) => tokens);
  for (const [n, prompt] of prompts.entries()) known.learn(prompt, answers[n] as readonly number[]);
  let runs = 0;
  const decode = async (engine: MeasuredEngine) => {
    // The engines share blocks: another salt for each run keeps them from finding earlier ones.
    const salt = `run ${runs++}`;
    await engine.run(prompts.map((prompt) => ({ prompt, outputTokens: 1, salt })));
    const begun = (n: number) => answers[n]?.slice(0, 1) as number[];
    const run = await engine.run(
      prompts.map((prompt, n) => ({ prompt, outputTokens, begun: begun(n), salt })),
    );
    for (const [n, { tokens }] of run.answers.entries()) {
      if ([...begun(n), ...tokens].join() !== answers[n]?.join()) throw new Error('an answer has changed');
    }
    return { speed: (1000 * streams * (outputTokens - 1)) / run.ms, answers: run.answers };
  };
  // Both engines measure their step costs and acceptance rates first.
  for (const engine of [plain, speculating]) await decode(engine);
  const pairs = await repeated(Math.max(SPECULATIVE_REPEATS, repeats), async () => ({
    without: await decode(plain),
    speculative: await decode(speculating),
  }));
  const count = (kind: 'accepted' | 'rejected') =>
    pairs.reduce(
      (sum, { speculative }) =>
        speculative.answers.reduce((all, { draftTokens }) => all + (draftTokens?.[kind] ?? 0), sum),
      0,
    );
  return {
    tokensPerSecond: median(pairs.map(({ speculative }) => speculative.speed)),
    plainTokensPerSecond: median(pairs.map(({ without }) => without.speed)),
    ratio: median(pairs.map(({ speculative, without }) => speculative.speed / without.speed)),
    accepted: count('accepted'),
    rejected: count('rejected'),
  };
}

export async function measureDirect(
  engine: MeasuredEngine,
  requests: number,
  { promptTokens, outputTokens, repeats }: OfflineSettings,
  nextPrompt: NextPrompt,
): Promise<DirectSpeed> {
  const runs = await repeated(repeats * requests, () =>
    engine.run([{ prompt: nextPrompt(promptTokens), outputTokens }]),
  );
  const firstTokenMs = median(runs.map(({ answers }) => answers[0]?.firstTokenMs as number));
  return {
    requests,
    firstTokenMs,
    prefillTokensPerSecond: (1000 * promptTokens) / firstTokenMs,
    decode: decodeSpeed(requireSteps(runs.flatMap((run) => decodeSteps(run, 1))), 1),
    secondsPerRequest: median(runs.map(({ ms }) => ms)) / 1000,
  };
}

export async function measurePrefix(
  engine: MeasuredEngine,
  tokens: number,
  repeats: number,
  nextPrompt: NextPrompt,
): Promise<PrefixSpeed> {
  const runs = await repeated(repeats, async () => {
    const request = { prompt: nextPrompt(tokens), outputTokens: 1 };
    const [cold] = (await engine.run([request])).answers as [MeasuredAnswer];
    const [cached] = (await engine.run([request])).answers as [MeasuredAnswer];
    return { cold, cached };
  });
  const coldFirstTokenMs = median(runs.map(({ cold }) => cold.firstTokenMs));
  const cachedFirstTokenMs = median(runs.map(({ cached }) => cached.firstTokenMs));
  return {
    tokens,
    cachedTokens: runs[0]?.cached.cachedTokens as number,
    coldFirstTokenMs,
    cachedFirstTokenMs,
    ratio: coldFirstTokenMs / cachedFirstTokenMs,
  };
}

export interface DecodeSpeed {
  readonly steps: number;
  readonly tokensPerSecond: number;
  readonly stepMs: { readonly median: number; readonly best: number; readonly worst: number };
  readonly shares: TimeShares;
}

interface TimeShares {
  readonly compute: number;
  readonly sample: number;
  /** Planning, packing the batch, and delivering tokens. */
  readonly schedule: number;
  /** Between steps: the event loop and this measurement. */
  readonly rest: number;
}

/** Steps in which exactly these streams decode. The first also admits the requests: it is left out. */
export function decodeSteps({ steps }: MeasuredRun, streams: number): MeasuredStep[] {
  return steps.slice(1).filter(({ tokens, sequences }) => tokens === streams && sequences === streams);
}

export function decodeSpeed(steps: readonly MeasuredStep[], streams: number): DecodeSpeed {
  const total = (value: (step: MeasuredStep) => number) => steps.reduce((sum, step) => sum + value(step), 0);
  const wallMs = total((step) => step.wallMs);
  const compute = total(({ times }) => times.computeMs) / wallMs;
  const sample = total(({ times }) => times.sampleMs) / wallMs;
  const schedule = total(({ times }) => times.scheduleMs + times.emitMs) / wallMs;
  const sorted = sort(steps.map((step) => step.wallMs));
  return {
    steps: steps.length,
    tokensPerSecond: (1000 * streams * steps.length) / wallMs,
    stepMs: { median: percentile(sorted, 50), best: percentile(sorted, 0), worst: percentile(sorted, 100) },
    shares: { compute, sample, schedule, rest: 1 - compute - sample - schedule },
  };
}
