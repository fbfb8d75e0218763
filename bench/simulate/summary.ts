// The figures of one simulated policy, as data.

import { type Distribution, distributionOf } from '#src/bench/statistics.ts';
import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import type { PolicyName } from './policies.ts';
import type { SimulationResult } from './simulation.ts';
import { type Conversation, idealCachedTokens } from './traffic.ts';

export interface PolicySummary {
  readonly policy: PolicyName;
  readonly completed: number;
  readonly refused: number;
  /** Later turns of conversations that were refused. */
  readonly unsent: number;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly ttftMs: Distribution | undefined;
  readonly e2elMs: Distribution | undefined;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cachedShare: number;
  /** Of the tokens that one worker with memory without end would have found; meaningless where requests were refused. */
  readonly shareOfIdeal: number;
  /** Requests that had to go on elsewhere. */
  readonly moved: number;
  readonly deaths: number;
  readonly preemptions: number;
  /** Of real time. */
  readonly decisionUs: Distribution | undefined;
  readonly index: SimulationResult['index'];
  /** Published, a second; each heartbeat and batch goes to every gateway. */
  readonly messagesPerSecond: SimulationResult['messages'];
  readonly simulatedSeconds: number;
  readonly wallSeconds: number;
}

export function summarize(result: SimulationResult, conversations: readonly Conversation[]): PolicySummary {
  const { records, durationMs, promptTokens, cachedTokens, messages } = result;
  const seconds = durationMs / 1000;
  const ideal = idealCachedTokens(conversations, BLOCK_TOKENS);
  const perSecond = Object.fromEntries(
    Object.entries(messages).map(([kind, count]) => [kind, count / seconds]),
  ) as unknown as SimulationResult['messages'];
  return {
    policy: result.policy,
    completed: records.length,
    refused: result.refused,
    unsent: result.unsent,
    requestsPerSecond: records.length / seconds,
    outputTokensPerSecond: records.reduce((sum, { turn }) => sum + turn.answerTokens, 0) / seconds,
    ttftMs: distributionOf(records.map((one) => one.firstTokenMs - one.arrivedMs)),
    e2elMs: distributionOf(records.map((one) => one.endMs - one.arrivedMs)),
    promptTokens,
    cachedTokens,
    cachedShare: promptTokens === 0 ? 0 : cachedTokens / promptTokens,
    shareOfIdeal: ideal === 0 ? 0 : cachedTokens / ideal,
    moved: records.reduce((sum, { moves }) => sum + moves, 0),
    deaths: result.deaths,
    preemptions: result.preemptions,
    decisionUs: distributionOf(result.decisionMs.map((ms) => 1000 * ms)),
    index: result.index,
    messagesPerSecond: perSecond,
    simulatedSeconds: seconds,
    wallSeconds: result.wallMs / 1000,
  };
}
