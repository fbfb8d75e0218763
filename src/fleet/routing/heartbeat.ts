// What a worker publishes about itself every half second, as plain JSON.

/** One figure for each priority: HIGH, NORMAL, LOW. */
export type ByPriority = readonly [high: number, normal: number, low: number];

/** Measured: ms = stepBaseMs + stepRowMs × decoding rows + promptTokenMs × prompt tokens. */
export interface Speeds {
  readonly promptTokenMs: number;
  readonly stepBaseMs: number;
  readonly stepRowMs: number;
  /** Prompt and answer tokens of a step, at most. */
  readonly stepTokens: number;
}

export type KnownSpeeds = Pick<Speeds, 'stepTokens'> & Partial<Speeds>;

/** The tiers below a worker's memory. A block is one of the model's KV blocks. */
export interface TierReport {
  /** Until a block of the machine's memory has come up; absent where none is used. */
  readonly hostBlockMs?: number | undefined;
  /** The same of the folder of blocks; equal names, the same blocks. */
  readonly disk?: { readonly folder: string; readonly blockMs: number } | undefined;
  /** Times that were not measured yet are those of 400 MB/s from the disk and 2 GB/s into memory. */
  readonly isAssumed: boolean;
}

export interface LoadedModelStatus {
  readonly modelKey: string;
  /** Of waiting and running sequences. */
  readonly queuedTokens: ByPriority;
  readonly waiting: ByPriority;
  readonly oldestMs: ByPriority;
  readonly running: number;
  readonly maxRunning: number;
  /** Includes cached blocks that no sequence holds. */
  readonly freeBlocks: number;
  readonly totalBlocks: number;
  readonly speeds: Speeds;
  /** A running mean. */
  readonly answerTokens: number;
  /** Absent where what leaves memory is lost. */
  readonly tiers?: TierReport | undefined;
}

/** With the speeds measured so far. */
export type ModelReport = Omit<LoadedModelStatus, 'speeds'> & { readonly speeds: KnownSpeeds };

export interface Heartbeat {
  readonly worker: string;
  /** Another one means that the worker restarted and has lost everything. */
  readonly epoch: string;
  /** 1, 2, 3, …: anything but the newest is ignored. */
  readonly number: number;
  readonly draining: boolean;
  readonly models: readonly ModelReport[];
  /**
   * The last assignment this heartbeat includes, for each gateway. One that is gone must not stay for long, since the
   * number of gateways counts. No clocks are compared.
   */
  readonly heard: Readonly<Record<string, number>>;
}

/** Before any measurement: a small model on a small machine. */
const FIRST = { promptTokenMs: 1, stepBaseMs: 20, stepRowMs: 1 } as const;

/**
 * A worker that has not measured a speed counts as the fastest of `others`: assumed slow, it would get no requests
 * and never be measured.
 */
export function wholeSpeeds(known: KnownSpeeds, others: () => readonly Speeds[]): Speeds {
  if (isWhole(known)) return known;
  const { stepTokens, promptTokenMs, stepBaseMs, stepRowMs } = known;
  const [first = { ...FIRST, stepTokens }, ...rest] = others();
  const fastest = rest.reduce((a, b) => (oneStep(b) < oneStep(a) ? b : a), first);
  const tokenMs = rest.reduce((least, one) => Math.min(least, one.promptTokenMs), first.promptTokenMs);
  return {
    stepTokens,
    promptTokenMs: promptTokenMs ?? tokenMs,
    stepBaseMs: stepBaseMs ?? fastest.stepBaseMs,
    stepRowMs: stepRowMs ?? fastest.stepRowMs,
  };
}

export function isWhole(known: KnownSpeeds): known is Speeds {
  const { promptTokenMs, stepBaseMs, stepRowMs } = known;
  return promptTokenMs !== undefined && stepBaseMs !== undefined && stepRowMs !== undefined;
}

export function oneStep({ stepBaseMs, stepRowMs }: Speeds): number {
  return stepBaseMs + stepRowMs;
}
