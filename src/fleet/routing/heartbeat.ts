// What a worker says about itself every half second, as plain JSON.

/** One figure for each priority: HIGH, NORMAL, LOW. */
export type ByPriority = readonly [high: number, normal: number, low: number];

/** How long steps take: ms = stepBaseMs + stepRowMs × decoding rows + promptTokenMs × prompt tokens. All measured. */
export interface Speeds {
  readonly promptTokenMs: number;
  readonly stepBaseMs: number;
  readonly stepRowMs: number;
  /** Tokens that a step takes at most, of prompts and answers together. */
  readonly stepTokens: number;
}

/** As far as they were measured. */
export type KnownSpeeds = Pick<Speeds, 'stepTokens'> & Partial<Speeds>;

/** Where one loaded model stands. */
export interface ModelStanding {
  readonly modelKey: string;
  /** Prompt tokens that are still to be computed, of waiting and of running sequences. */
  readonly queuedTokens: ByPriority;
  readonly waiting: ByPriority;
  /** For how long the oldest has been waiting; 0 where nothing waits. */
  readonly oldestMs: ByPriority;
  readonly running: number;
  readonly maxRunning: number;
  /** Blocks that can be taken now, cached ones that nobody holds included. */
  readonly freeBlocks: number;
  readonly totalBlocks: number;
  readonly speeds: Speeds;
  /** Tokens of an answer, a mean over the last ones. */
  readonly answerTokens: number;
}

/** The same as its worker tells it. */
export type ModelReport = Omit<ModelStanding, 'speeds'> & { readonly speeds: KnownSpeeds };

export interface Heartbeat {
  readonly worker: string;
  /** Of the worker's life; another one means that it has begun anew, and has forgotten everything. */
  readonly epoch: string;
  /** 1, 2, 3, ...: one that is not newer than the last is not heeded. */
  readonly number: number;
  /** It finishes what it has and wants nothing new. */
  readonly draining: boolean;
  readonly models: readonly ModelReport[];
  /**
   * The number of the last assignment that this heartbeat takes into account, for each gateway that is there: one that
   * is gone must not be named for long, as the number of gateways counts, too. No clocks are compared.
   */
  readonly heard: Readonly<Record<string, number>>;
}
