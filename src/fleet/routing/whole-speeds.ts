// Speeds of a worker that has not measured all of them. It is taken to be as fast as the fastest: thought to be slow, it would
// get nothing to do, and never be measured.

import type { KnownSpeeds, Speeds } from './heartbeat.ts';

/** Where nobody has measured anything: of a small model on a small machine. */
const FIRST = { promptTokenMs: 1, stepBaseMs: 20, stepRowMs: 1 } as const;

/** `others`: of those with the same model. */
export function wholeSpeeds(
  { stepTokens, promptTokenMs, stepBaseMs, stepRowMs }: KnownSpeeds,
  others: () => readonly Speeds[],
): Speeds {
  const isWhole = promptTokenMs !== undefined && stepBaseMs !== undefined && stepRowMs !== undefined;
  if (isWhole) return { stepTokens, promptTokenMs, stepBaseMs, stepRowMs };
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

function oneStep({ stepBaseMs, stepRowMs }: Speeds): number {
  return stepBaseMs + stepRowMs;
}
