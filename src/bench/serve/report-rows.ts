// A report as rows of text, for the terminal and the page.

import type { NamedValue, RowTable } from '../plot/page.ts';
import type { RequestMeasures } from './request-record.ts';
import type { ServeReport } from './serve-report.ts';
import type { FailureCount, Summary } from './summary.ts';

interface Metric {
  readonly short: string;
  readonly name: string;
  readonly field: 'ttftMs' | 'tpotMs' | 'itlMs' | 'e2elMs';
  readonly values: (measures: RequestMeasures) => readonly number[];
}

const given = (value: number | undefined) => (value === undefined ? [] : [value]);

export const metrics: readonly Metric[] = [
  { short: 'TTFT', name: 'Time to first token', field: 'ttftMs', values: ({ ttftMs }) => given(ttftMs) },
  { short: 'TPOT', name: 'Time per further token', field: 'tpotMs', values: ({ tpotMs }) => given(tpotMs) },
  { short: 'ITL', name: 'Gap between chunks', field: 'itlMs', values: ({ gapsMs }) => gapsMs },
  { short: 'E2EL', name: 'Whole answer', field: 'e2elMs', values: ({ e2elMs }) => [e2elMs] },
];

export function formatNumber(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

function share(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}

export function headlines({ summary }: ServeReport): NamedValue[] {
  const { completed, sent, ttftMs, tpotMs, goodput } = summary;
  return [
    ['output tokens/s', formatNumber(summary.outputTokensPerSecond)],
    ['requests/s', formatNumber(summary.requestsPerSecond)],
    ['TTFT p50', ttftMs === undefined ? '–' : `${formatNumber(ttftMs.p50)} ms`],
    ['TTFT p99', ttftMs === undefined ? '–' : `${formatNumber(ttftMs.p99)} ms`],
    ['TPOT p50', tpotMs === undefined ? '–' : `${formatNumber(tpotMs.p50)} ms`],
    ...(goodput === undefined ? [] : [['goodput', share(goodput.share)] as const]),
    ['completed', `${count(completed)} of ${count(sent)}`],
  ];
}

export function overviewRows({ summary, client, load }: ServeReport): NamedValue[] {
  const { promptTokens, cachedTokens, cachedShare, goodput } = summary;
  const failed = summary.failed - summary.rateLimited;
  return [
    ['completed', `${count(summary.completed)} of ${count(load.requests)}`],
    ['failed', count(failed)],
    ['refused with 429', count(summary.rateLimited)],
    ...(summary.cutOff > 0 ? [['cut off by the end of the run', count(summary.cutOff)] as const] : []),
    ['duration', `${formatNumber(summary.durationSeconds)} s`],
    ['peak concurrency', count(summary.peakConcurrency)],
    ['prompt tokens', promptTokens === undefined ? 'not told by the server' : count(promptTokens)],
    [
      'of them cached',
      cachedTokens === undefined || cachedShare === undefined
        ? 'not told by the server'
        : `${count(cachedTokens)} (${share(cachedShare)})`,
    ],
    [
      summary.outputTokensFrom === 'usage' ? 'output tokens' : 'output tokens (by chunks)',
      count(summary.outputTokens),
    ],
    ['requests/s', formatNumber(summary.requestsPerSecond)],
    ['output tokens/s', formatNumber(summary.outputTokensPerSecond)],
    ['total tokens/s', formatNumber(summary.totalTokensPerSecond)],
    ...(goodput === undefined
      ? []
      : [
          [
            'goodput',
            `${formatNumber(goodput.requestsPerSecond)} requests/s (${share(goodput.share)})`,
          ] as const,
        ]),
    ['client busy', share(client.busyShare)],
  ];
}

export function latencyTable(summary: Summary): RowTable {
  const rows = metrics.map(({ short, field }) => {
    const values = summary[field];
    const shown = values && [values.mean, values.p50, values.p90, values.p99, values.max].map(formatNumber);
    return [`${short} (ms)`, ...(shown ?? Array.from({ length: 5 }, () => '–'))];
  });
  return { headings: ['', 'mean', 'p50', 'p90', 'p99', 'max'], rows };
}

export function keyTable({ keys, load }: ServeReport): RowTable | undefined {
  if (keys.length < 2) return undefined;
  const hasGoodput = load.goodput !== undefined;
  const ms = (value: number | undefined) => (value === undefined ? '–' : formatNumber(value));
  return {
    headings: [
      'key',
      'completed',
      'failed',
      '429',
      'output tok/s',
      'cached',
      'TTFT p50',
      'TTFT p99',
      'TPOT p50',
      'E2EL p50',
      'E2EL p99',
      ...(hasGoodput ? ['goodput'] : []),
    ],
    rows: keys.map((key) => [
      key.name,
      `${count(key.completed)} of ${count(key.sent)}`,
      count(key.failed - key.rateLimited),
      count(key.rateLimited),
      formatNumber(key.outputTokensPerSecond),
      key.cachedShare === undefined ? '–' : share(key.cachedShare),
      ms(key.ttftMs?.p50),
      ms(key.ttftMs?.p99),
      ms(key.tpotMs?.p50),
      ms(key.e2elMs?.p50),
      ms(key.e2elMs?.p99),
      ...(key.goodput === undefined ? [] : [share(key.goodput.share)]),
    ]),
  };
}

export function failureTable({ failures }: Summary): RowTable | undefined {
  if (failures.length === 0) return undefined;
  return {
    headings: ['failure', 'count', 'Retry-After', 'first message'],
    rows: failures.map((one) => [nameOf(one), count(one.count), waitOf(one), one.message]),
  };
}

/** The status is shown only where it is the reason. */
function nameOf({ failure, status }: FailureCount): string {
  const isReason = failure === 'http' || failure === 'rate-limited';
  return isReason ? `${failure} ${status}` : failure;
}

function waitOf({ retryAfterSeconds: seconds }: FailureCount): string {
  if (seconds === undefined) return '–';
  const [min, max] = [seconds.min, seconds.max].map((value) => value.toLocaleString('en-US'));
  return min === max ? `${min} s` : `${min}–${max} s`;
}

export function loadRows({ load, calibration, startedAt }: ServeReport): NamedValue[] {
  const { requestsPerSecond, concurrency, prefixes, prefixTokens, keys } = load;
  const sending =
    requestsPerSecond === undefined
      ? `as soon as one of ${concurrency} places is free`
      : `Poisson, ${requestsPerSecond} a second${concurrency === undefined ? '' : `, at most ${concurrency} at once`}`;
  return [
    ['started', startedAt],
    ['endpoint', load.endpoint],
    ['requests', `${count(load.requests)}, after ${count(load.warmup)} to warm up`],
    ['sending', sending],
    ['prompt tokens', load.promptTokens],
    ...(prefixTokens > 0 && prefixes > 0
      ? [['shared beginnings', `${prefixes} of ${prefixTokens} tokens`] as const]
      : []),
    ['output tokens', `${load.outputTokens}${load.ignoreEos ? ', past the end token' : ' at most'}`],
    ['temperature', String(load.temperature)],
    ['seed', String(load.seed)],
    ['keys', keys.map(({ name, weight }) => (weight === 1 ? name : `${name} × ${weight}`)).join(', ')],
    [
      'calibration',
      `${formatNumber(calibration.tokensPerWord)} tokens a word, ${formatNumber(calibration.extraTokens)} around a prompt`,
    ],
  ];
}

const BUSY_SHARE = 0.8;
const LATE_MS = 100;

/** What a reader must know to trust the figures. */
export function notesOn({ summary, calibration, client, load }: ServeReport): string[] {
  const delayMs = client.sendDelayMs?.p99 ?? 0;
  return [
    ...(summary.outputTokensFrom === 'usage'
      ? []
      : [
          'The server did not send usage with every answer; there each chunk counts as one token, and prompts do not count.',
        ]),
    ...(calibration.isMeasured
      ? []
      : ['The server did not count prompt tokens, so prompts are of about the wanted length only.']),
    ...(client.busyShare > BUSY_SHARE
      ? [
          `This program itself was busy ${share(client.busyShare)} of the time: it may be what limits the figures.`,
        ]
      : []),
    ...(delayMs > LATE_MS
      ? [
          `Requests were sent up to ${formatNumber(delayMs)} ms (p99) after their time, which latencies do not show.`,
        ]
      : []),
    ...(summary.sent < load.requests
      ? [`The run was ended early: ${count(summary.sent)} of ${count(load.requests)} requests were sent.`]
      : []),
  ];
}
