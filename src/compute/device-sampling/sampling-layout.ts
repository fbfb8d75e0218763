// Sampling jobs of a GPU and their results, in words. native/cuda/kernels/args.h names the same words.
//
// Jobs: two for each wanted row, then the lists they name. The first prepares the sample; the second, where
// log-probabilities are wanted, reads the model's own logits.
//
// Results: a head for each job, those of all first jobs first; then in the same order lists of candidates, a logit and
// a token each.

export const JOBS_PER_ROW = 2;
export const JOB_WORDS = 16;
export const HEAD_WORDS = 8;
export const LIST_LENGTH = 1024;
export const LIST_WORDS = 2 * LIST_LENGTH;

export const jobKinds = { nothing: 0, likeliest: 1, candidates: 2 } as const;

/** The words of a job. A list is named by where it starts and, in the next word, how many tokens it has. */
export const jobWords = {
  kind: 0,
  /** log2(e) / temperature. */
  slope: 1,
  /** Where it starts; 0 where there is none. */
  mask: 2,
  /** Tokens, then their biases. */
  biased: 3,
  /** Tokens, then how often each was generated. */
  penalized: 5,
  forbidden: 7,
  repetition: 9,
  inverseRepetition: 10,
  presence: 11,
  frequency: 12,
  /** For WGSL: see webgpu/kernels/logit-weights.ts. */
  zero: 13,
  vocabSize: 14,
  /** The likeliest token weighs two to this power. */
  unitBits: 15,
} as const;

export const headWords = {
  /** How many are listed; where it is more than a list holds, others may be missing. */
  listed: 0,
  /** The likeliest token, and its logit. */
  token: 1,
  logit: 2,
  totalLow: 3,
  totalHigh: 4,
  /** Whether the GPU cannot compute with a logit of the row: NaN, infinity, and in WGSL what webgpu/kernels/logit-weights.ts says. */
  odd: 5,
} as const;

/** Where the result of a row's job lies among those of `rows` rows. */
export const headAt = (rows: number, job: number, row: number): number => HEAD_WORDS * (job * rows + row);
export const listAt = (rows: number, job: number, row: number): number =>
  HEAD_WORDS * JOBS_PER_ROW * rows + LIST_WORDS * (job * rows + row);
