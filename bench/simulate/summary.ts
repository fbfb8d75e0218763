// The figures of simulated policies, as data and as a table with one column for each policy.

import type { NamedValue, RowTable } from '#src/bench/plot/page.ts';
import { formatLengths } from '#src/bench/serve/load-plan.ts';
import { formatNumber } from '#src/bench/serve/report-rows.ts';
import { type Distribution, distributionOf } from '#src/bench/statistics.ts';
import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import type { PolicyName } from './policies.ts';
import type { SimulationSettings } from './settings.ts';
import type { SimulationResult } from './simulation.ts';
import { type Conversation, idealCachedTokens } from './traffic.ts';

interface PolicySummary {
  readonly policy: PolicyName;
  readonly completed: number;
  readonly refused: number;
  readonly unsent: number;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly ttftMs: Distribution | undefined;
  readonly e2elMs: Distribution | undefined;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cachedShare: number;
  /** Relative to one worker with unlimited memory; meaningless where requests were refused. */
  readonly shareOfIdeal: number;
  readonly moved: number;
  readonly deaths: number;
  readonly preemptions: number;
  readonly decisionUs: Distribution | undefined;
  readonly index: SimulationResult['index'];
  /** Each heartbeat and batch goes to every gateway. */
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

const whole = (value: number) => Math.round(value).toLocaleString('en-US');
const share = (value: number) => `${(100 * value).toFixed(1)} %`;
const seconds = (ms: number) => `${formatNumber(ms / 1000)} s`;

function three(values: Distribution | undefined, show: (value: number) => string): string {
  return values === undefined ? '–' : [values.p50, values.p90, values.p99].map(show).join(' / ');
}

type Row = readonly [name: string, value: (summary: PolicySummary) => string];

const rows: readonly Row[] = [
  ['completed', ({ completed }) => whole(completed)],
  ['refused', ({ refused }) => whole(refused)],
  ['never sent after a refusal', ({ unsent }) => whole(unsent)],
  ['requests/s', ({ requestsPerSecond }) => formatNumber(requestsPerSecond)],
  ['output tokens/s', ({ outputTokensPerSecond }) => whole(outputTokensPerSecond)],
  ['TTFT p50 / p90 / p99', ({ ttftMs }) => three(ttftMs, seconds)],
  ['E2EL p50 / p90 / p99', ({ e2elMs }) => three(e2elMs, seconds)],
  ['prompt tokens cached', ({ cachedShare }) => share(cachedShare)],
  ['of what one worker would have', ({ shareOfIdeal }) => share(shareOfIdeal)],
  ['went on elsewhere', ({ moved }) => whole(moved)],
  ['preemptions', ({ preemptions }) => whole(preemptions)],
  ['decision p50 / p90 / p99', ({ decisionUs }) => three(decisionUs, (us) => `${formatNumber(us)} µs`)],
  ['slowest decision', ({ decisionUs }) => `${formatNumber((decisionUs?.max ?? 0) / 1000)} ms`],
  ['index entries', ({ index }) => whole(index.entries)],
  ['index memory', ({ index }) => `${formatNumber(index.bytes / 2 ** 20)} MiB`],
  ['keys forgotten', ({ index }) => whole(index.forgotten)],
  ['heartbeats/s', ({ messagesPerSecond }) => whole(messagesPerSecond.heartbeats)],
  ['cache batches/s', ({ messagesPerSecond }) => whole(messagesPerSecond.cacheBatches)],
  ['keys in them/s', ({ messagesPerSecond }) => whole(messagesPerSecond.cacheKeys)],
  ['snapshots/s', ({ messagesPerSecond }) => formatNumber(messagesPerSecond.snapshots)],
  ['requests sent/s', ({ messagesPerSecond }) => whole(messagesPerSecond.requests)],
  ['answer messages/s', ({ messagesPerSecond }) => whole(messagesPerSecond.answers)],
  ['simulated / real time', (one) => `${whole(one.simulatedSeconds)} s / ${formatNumber(one.wallSeconds)} s`],
];

export function policyTable(summaries: readonly PolicySummary[]): RowTable {
  return {
    headings: ['', ...summaries.map(({ policy }) => policy)],
    rows: rows.map(([name, value]) => [name, ...summaries.map(value)]),
  };
}

/** The first column is aligned to the left, the others to the right. */
export function layOut({ headings, rows: lines }: RowTable): string {
  const all = [headings, ...lines];
  const widths = headings.map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0)));
  return all
    .map((line) =>
      line
        .map((cell, n) => (n === 0 ? cell.padEnd(widths[n] ?? 0) : cell.padStart(widths[n] ?? 0)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function settingRows(settings: SimulationSettings, turns: number): NamedValue[] {
  const { traffic, speeds, trace } = settings;
  return [
    ['fleet', `${whole(settings.workers)} workers, ${settings.gateways} gateways`],
    [
      'a step',
      `${speeds.stepBaseMs} ms + ${speeds.stepRowMs} ms a row + ${speeds.promptTokenMs} ms a prompt token, ± ${share(settings.spread)}; at most ${speeds.stepTokens} tokens`,
    ],
    ['a worker', `${whole(settings.blocks)} blocks, ${settings.maxRunning} sequences at once`],
    ['requests', `${whole(turns)}${trace === undefined ? '' : ' of a trace'}`],
    ...(trace === undefined
      ? ([
          ['arrivals', `Poisson, ${formatNumber(traffic.requestsPerSecond)} a second`],
          [
            'conversations',
            `${whole(traffic.conversations)} of ${traffic.turns} turns, ${traffic.thinkMs} ms between them`,
          ],
          ['system prompts', `${traffic.groups} of ${traffic.systemTokens} tokens, 1 / n^${traffic.hot}`],
          ['user tokens', formatLengths(traffic.userTokens)],
          ['answer tokens', formatLengths(traffic.answerTokens)],
        ] as const)
      : []),
    [
      'messages',
      `heartbeats every ${settings.heartbeatMs} ms, news of caches every ${settings.newsMs} ms, ${settings.delayMs} ms on their way, ${share(settings.loss)} of news lost`,
    ],
    ['failures', `${settings.failuresPerHour} an hour for each worker, ${settings.downMs} ms each`],
    ['refused beyond', `${settings.maxWaitMs} ms of expected waiting`],
    ['seed', `${traffic.seed}`],
  ];
}
