// The tables of `chairlift bench offline`: one by one next to batched, and by number of streams.

import type {
  ComparisonReport,
  ComparisonResult,
  ServedSpeed,
} from '../bench/comparison/comparison-report.ts';
import type { OfflineReport, StreamsResult } from '../bench/offline/offline-bench.ts';
import { machineText } from '../bench/offline/target.ts';
import { formatBytes } from '../text/byte-size.ts';
import { type Cell, formatColumns, formatTable } from './terminal.ts';

export function comparisonText(report: ComparisonReport): string {
  const { results, outputTokens, repeats } = report;
  const rounds = repeats === 1 ? 'one round' : `medians of ${repeats} rounds`;
  return [
    formatTable(comparisonOverview(report)),
    `The same requests one by one and batched, answers of ${outputTokens} tokens, ${rounds}:`,
    formatColumns(headings, results.flatMap(rows)),
    verdict(report),
  ].join('\n\n');
}

function comparisonOverview({ model, machine, memory }: ComparisonReport): [string, string][] {
  const { beforeLoadingBytes, loadedBytes } = memory;
  return [
    [
      'model',
      `${model.name}, ${formatBytes(model.weightBytes)} in memory, loaded in ${model.loadSeconds.toFixed(2)} s`,
    ],
    ['machine', machineText(machine)],
    ['KV', `${model.kvType}, ${formatBytes(model.kvBytesPerToken)} a token`],
    [
      'this process',
      `${formatBytes(beforeLoadingBytes)} resident, ${formatBytes(loadedBytes)} with the model`,
    ],
  ];
}

const headings = [
  'prompt',
  'at once',
  'served',
  'latency ms: mean',
  'p50',
  'p99',
  'first token ms: mean',
  'p50',
  'p99',
  'tokens/s',
  'speed-up',
  'peak memory',
];

function rows({ promptTokens, concurrency, oneByOne, batched, speedUp }: ComparisonResult): Cell[][] {
  return [
    [
      promptTokens,
      concurrency,
      'one by one',
      ...figures(oneByOne),
      '',
      formatBytes(oneByOne.peakMemoryBytes),
    ],
    ['', '', 'batched', ...figures(batched), speedUp.toFixed(2), formatBytes(batched.peakMemoryBytes)],
  ];
}

function figures({ latencyMs, firstTokenMs, tokensPerSecond }: ServedSpeed): Cell[] {
  const values = [latencyMs, firstTokenMs].flatMap(({ mean, p50, p99 }) => [mean, p50, p99]);
  return [...values, tokensPerSecond].map((value) => Number(value.toPrecision(3)));
}

function verdict({ mismatches, results, repeats }: ComparisonReport): string {
  const [first] = mismatches;
  if (first === undefined) {
    const answers = results.reduce((sum, { requests }) => sum + 2 * repeats * requests, 0);
    return `All ${answers} answers: the same tokens one by one and batched.`;
  }
  const { promptTokens, concurrency, request } = first;
  return (
    `FAILED: ${mismatches.length} answers differ between one by one and batched, the first to request ${request} ` +
    `with a prompt of ${promptTokens}, ${concurrency} at once. Please report it with the JSON below.`
  );
}

export function offlineReportText(report: OfflineReport): string {
  const { results, promptTokens, outputTokens } = report;
  const sections = [
    formatTable(overview(report)),
    `Decoding ${outputTokens} tokens after prompts of ${promptTokens}:`,
    formatColumns(decodeHeadings, results.map(decodeCells)),
    'Prompts, all at once, and whole requests next to direct mode (one after the other):',
    formatColumns(requestHeadings, results.map(requestCells)),
    speculativeText(report),
    [...directNote(results), ...cacheNote(results)].join('\n'),
  ];
  return sections.filter((section) => section !== '').join('\n\n');
}

function overview({ model, machine, bandwidth, prefix }: OfflineReport): [string, string][] {
  const made = model.source === 'random' ? ' (made at random, not read)' : '';
  return [
    ['model', `${model.name}, ${formatBytes(model.weightBytes)} in memory`],
    ['machine', machineText(machine)],
    ['read bandwidth', `${formatBytes(bandwidth.bytesPerSecond)}/s, median of ${bandwidth.samples.length}`],
    ['KV', `${model.kvType}, ${formatBytes(model.kvBytesPerToken)} a token`],
    ['load time', `${model.loadSeconds.toFixed(2)} s${made}`],
    ...(prefix === undefined
      ? []
      : [
          [
            'cached prefix',
            `${prefix.tokens} tokens: first token after ${milliseconds(prefix.coldFirstTokenMs)} cold, ` +
              `${milliseconds(prefix.cachedFirstTokenMs)} with ${prefix.cachedTokens} cached: ` +
              `${prefix.ratio.toFixed(1)} times as fast`,
          ] as [string, string],
        ]),
  ];
}

function speculativeText({ results, acceptanceRate }: OfflineReport): string {
  const rows = results.flatMap(({ streams, speculative }): Cell[][] => {
    if (speculative === undefined) return [];
    const { tokensPerSecond, plainTokensPerSecond, ratio, accepted, rejected } = speculative;
    return [
      [
        streams,
        rounded(tokensPerSecond),
        rounded(plainTokensPerSecond),
        ratio.toFixed(2),
        accepted,
        rejected,
      ],
    ];
  });
  if (rows.length === 0 || acceptanceRate === undefined) return '';
  const headings = ['streams', 'tokens/s', 'without', 'ratio', 'accepted', 'rejected'];
  return `Decoding with drafts, ${percent(acceptanceRate)} of which are right:\n\n${formatColumns(headings, rows)}`;
}

const decodeHeadings = [
  'streams',
  'tokens/s',
  'direct',
  'speed-up',
  'step ms',
  'best',
  'of bandwidth',
  'compute',
  'sampling',
  'scheduling',
  'rest',
];

function decodeCells({ streams, batched, direct, speedUp, bandwidthShare }: StreamsResult): Cell[] {
  const { tokensPerSecond, stepMs, shares } = batched.decode;
  return [
    streams,
    rounded(tokensPerSecond),
    rounded(direct.decode.tokensPerSecond),
    rounded(speedUp.decode),
    rounded(stepMs.median),
    rounded(stepMs.best),
    percent(bandwidthShare),
    percent(shares.compute),
    percent(shares.sample),
    percent(shares.schedule),
    percent(shares.rest),
  ];
}

const requestHeadings = [
  'streams',
  'prompt tokens/s',
  'first token ms',
  'last first token ms',
  'direct first token ms',
  'seconds in all',
  'direct',
  'speed-up',
];

function requestCells({ streams, batched, direct, speedUp }: StreamsResult): Cell[] {
  const { prefill, seconds } = batched;
  return [
    streams,
    rounded(prefill.tokensPerSecond),
    rounded(prefill.firstTokenMs.median),
    rounded(prefill.firstTokenMs.last),
    rounded(direct.firstTokenMs),
    rounded(seconds),
    rounded(streams * direct.secondsPerRequest),
    rounded(speedUp.requests),
  ];
}

function directNote(results: readonly StreamsResult[]): string[] {
  const most = Math.max(...results.map(({ direct }) => direct.requests));
  if (results.every(({ streams, direct }) => direct.requests === streams)) return [];
  return [
    `Direct mode was measured on ${most} requests a line at most: one request at a time, its speed does not ` +
      'depend on how many there are.',
  ];
}

function cacheNote(results: readonly StreamsResult[]): string[] {
  if (results.every(({ bandwidthShare }) => bandwidthShare <= 1)) return [];
  return [
    "More than the memory's bandwidth: the weights lie in the processor's caches, or other work slowed the memory " +
      'down while it was measured.',
  ];
}

function rounded(value: number): number {
  return Number(value.toPrecision(3));
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`.padStart(6);
}

function milliseconds(ms: number): string {
  return `${ms.toFixed(ms < 100 ? 1 : 0)} ms`;
}
