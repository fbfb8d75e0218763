// The comparison of one-by-one with batched serving as text for a terminal.

import type {
  ComparisonReport,
  ComparisonResult,
  ServedSpeed,
} from '../bench/comparison/comparison-report.ts';
import { machineText } from '../bench/offline/target.ts';
import { type Cell, formatColumns } from './columns.ts';
import { formatBytes, formatTable } from './table.ts';

export function comparisonText(report: ComparisonReport): string {
  const { results, outputTokens, repeats } = report;
  const rounds = repeats === 1 ? 'one round' : `medians of ${repeats} rounds`;
  return [
    formatTable(overview(report)),
    `The same requests one by one and batched, answers of ${outputTokens} tokens, ${rounds}:`,
    formatColumns(headings, results.flatMap(rows)),
    verdict(report),
  ].join('\n\n');
}

function overview({ model, machine, memory }: ComparisonReport): [string, string][] {
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

/** Two lines: prompt and concurrency stand on the first, the speed-up on the second. */
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
