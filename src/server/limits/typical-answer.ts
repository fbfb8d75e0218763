// How long the answers of a key usually are, which a request that sets no limit is expected to use. The mean is weighted
// towards the newest answers, so that it follows a key whose use changes.

/** Expected before there are answers: a few paragraphs, */
const PRIOR_TOKENS = 256;
/** or this share of a small daily limit, so that expectations alone do not use it up. */
const PRIOR_SHARE = 0.1;
/** The least weight of the newest answer: about the last twenty count. */
const NEWEST_SHARE = 0.05;

interface Known {
  readonly meanTokens: number;
  readonly answers: number;
}

export class TypicalAnswer {
  readonly #known = new Map<string, Known>();

  expect(keyId: string, roomTokens: number, dailyTokens = Number.POSITIVE_INFINITY): number {
    const prior = Math.min(PRIOR_TOKENS, PRIOR_SHARE * dailyTokens);
    const { meanTokens } = this.#known.get(keyId) ?? { meanTokens: prior };
    return Math.max(1, Math.min(Math.ceil(meanTokens), roomTokens));
  }

  /** Records an answer to a request that set no limit; answers that a limit cut say nothing about these. */
  record(keyId: string, tokens: number): void {
    // The prior counts as one answer, so the first ones move the mean most.
    const { meanTokens, answers } = this.#known.get(keyId) ?? { meanTokens: PRIOR_TOKENS, answers: 1 };
    const share = Math.max(NEWEST_SHARE, 1 / (answers + 1));
    this.#known.set(keyId, {
      meanTokens: meanTokens + share * (tokens - meanTokens),
      answers: answers + 1,
    });
  }
}
