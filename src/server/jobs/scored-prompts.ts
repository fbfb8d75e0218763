// Log-probabilities of prompts: how many alternatives come with each token, and how many of them one answer may hold.

import { badRequest } from '../http/errors.ts';

/** About 200 MB as JSON; a text may not have more than 512 million characters. */
const MAX_LOGPROB_ENTRIES = 2_000_000;

export interface Scoring {
  /** Reported beside each token of the prompt. */
  readonly alternatives: number;
  /** The field that asks for it. */
  readonly field: string;
}

/** Throws where an answer would be too large. Each choice has the log-probabilities of its prompt. */
export function checkScoring(scoring: Scoring | undefined, promptTokens: number, choices: number): void {
  if (scoring === undefined) return;
  const { alternatives, field } = scoring;
  const entries = promptTokens * choices * (alternatives + 1);
  if (entries <= MAX_LOGPROB_ENTRIES) return;
  throw badRequest(
    field,
    `would return ${entries} log-probabilities (prompt tokens × choices × (alternatives + 1)); ${MAX_LOGPROB_ENTRIES} are possible: ask for fewer alternatives, choices or prompts in one request`,
  );
}
