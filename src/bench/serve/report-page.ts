// A report as one page: no script, nothing fetched, light or dark as the reader's system is.

import { escapeText } from '../plot/frame.ts';
import { cards, figures, list, page, section, table } from '../plot/page.ts';
import { barPlot, linePlot, type Point, type ScatterSeries, scatterPlot } from '../plot/plots.ts';
import { niceStep } from '../plot/scale.ts';
import { type Distribution, percentile, sort } from '../statistics.ts';
import {
  failureTable,
  headlines,
  keyTable,
  latencyTable,
  loadRows,
  metrics,
  notesOn,
  overviewRows,
} from './report-rows.ts';
import { isComplete, measureRequest, type RequestRecord } from './request-record.ts';
import type { ServeReport } from './serve-report.ts';
import { concurrencyOverTime, highestOverTime, outputOverTime, windowOf } from './summary.ts';

export function reportPage(report: ServeReport): string {
  const { model, url, summary } = report;
  const title = `${model} under load`;
  return page(title, url, [
    cards(headlines(report)),
    ...notesOn(report).map((note) => `<p class="note">${escapeText(note)}</p>`),
    section('Latency', table(latencyTable(summary))),
    section('By key', table(keyTable(report)) + figures(keyPlots(report))),
    section('Failures', table(failureTable(summary))),
    section('Distributions', figures(cumulativePlots(report))),
    section('Over time', figures([...timelinePlots(report), ...scatterPlots(report)])),
    `<div class="pair">${section('The run', list(overviewRows(report)))}${section('The load', list(loadRows(report)))}</div>`,
    section('What the words mean', definitions),
  ]);
}

const definitions = list([
  ['TTFT', 'from sending a request to its first output'],
  ['TPOT', '(E2EL − TTFT) / (output tokens − 1), of each request'],
  ['ITL', 'the gaps between chunks of output, of all requests together'],
  ['E2EL', 'from sending a request to the end of its answer'],
  [
    'throughput',
    'complete requests and their tokens over the duration, from the first sent to the last ended',
  ],
  ['goodput', 'complete requests that keep every stated limit'],
]);

/** As wide as the page shows them, so that their text is read at its own size. */
const size = { width: 600, height: 340 };

interface Group {
  readonly name: string;
  readonly records: readonly RequestRecord[];
}

export function cumulativePlots(report: ServeReport): string[] {
  const groups = groupsOf(report);
  return metrics.map(({ short, name, values }) => {
    const sorted = groups.map(({ records }) =>
      sort(records.flatMap((one) => [...values(measureRequest(one))])),
    );
    const all = sort(sorted.flatMap((one) => [...one]));
    const median = percentile(all, 50);
    const isWide = all.length > 0 && percentile(all, 100) > SKEW * median && median > 0;
    const least = isWide ? Math.max(percentile(all, 0), median / SKEW_BELOW) : 0;
    return linePlot({
      ...size,
      title: `${name} (${short}), cumulative`,
      x: { label: 'milliseconds', ...(isWide ? { scale: 'log' as const } : { from: 0 }) },
      y: { label: `share of ${short === 'ITL' ? 'gaps' : 'requests'}`, to: 1, format: percent },
      series: groups.map((group, n) => ({
        name: group.name,
        points: cumulative(sorted[n] as Float64Array, least),
      })),
      shape: 'steps',
      marks: false,
    });
  });
}

/** A tail of more than this many medians is sampled on a logarithmic axis. */
const SKEW = 8;
const SKEW_BELOW = 50;
const CURVE_POINTS = 250;

/** The share of values up to each one; long lists are thinned out. */
function cumulative(sorted: Float64Array, least: number): Point[] {
  if (sorted.length === 0) return [];
  const count = Math.min(sorted.length, CURVE_POINTS);
  const points = Array.from({ length: count }, (_, n): Point => {
    const rank = Math.round(((n + 1) / count) * sorted.length);
    return [Math.max(least, sorted[rank - 1] as number), rank / sorted.length];
  });
  const [first] = points as [Point];
  return [[first[0], 0], ...points];
}

const CONCURRENCY_PARTS = 300;
const OUTPUT_PARTS = 60;

export function timelinePlots({ records }: ServeReport): string[] {
  const window = windowOf(records);
  const x = { label: 'seconds since the start', from: 0 };
  const stepMs = niceStep(Math.max(100, window.toMs - window.fromMs) / OUTPUT_PARTS);
  return [
    linePlot({
      ...size,
      title: 'Requests under way',
      x,
      y: { label: 'requests' },
      series: [
        {
          name: 'requests',
          points: highestOverTime(concurrencyOverTime(records), window, CONCURRENCY_PARTS),
        },
      ],
      shape: 'steps',
      marks: false,
    }),
    linePlot({
      ...size,
      title: `Output, each ${(stepMs / 1000).toLocaleString('en-US')} s`,
      x,
      y: { label: 'tokens per second' },
      series: [{ name: 'output', points: outputOverTime(records, window, stepMs) }],
      marks: false,
    }),
  ];
}

export function scatterPlots(report: ServeReport): string[] {
  const groups = groupsOf(report);
  const x = { label: 'sent, seconds since the start', from: 0 };
  const seriesOf = (value: (record: RequestRecord) => number | undefined): ScatterSeries[] =>
    groups.map(({ name, records }) => ({
      name,
      points: records.flatMap((record): Point[] => {
        const ms = value(record);
        return ms === undefined ? [] : [[record.sentMs / 1000, ms]];
      }),
    }));
  const failed = report.records.filter(({ outcome }) => outcome.kind === 'failed');
  const failedSeries: ScatterSeries = {
    name: 'failed, at their end',
    mark: 'cross',
    points: failed.map(({ sentMs, endMs }) => [sentMs / 1000, endMs - sentMs]),
  };
  return [
    scatterPlot({
      ...size,
      title: 'Time to first token over the run',
      x,
      y: { label: 'milliseconds' },
      series: seriesOf((record) => measureRequest(record).ttftMs),
    }),
    scatterPlot({
      ...size,
      title: 'Whole answers over the run',
      x,
      y: { label: 'milliseconds' },
      series: [
        ...seriesOf((record) => measureRequest(record).e2elMs),
        ...(failed.length > 0 ? [failedSeries] : []),
      ],
    }),
  ];
}

function keyPlots({ keys }: ServeReport): string[] {
  if (keys.length < 2) return [];
  const shown = ['p50', 'p90', 'p99'] as const;
  const values = (of: Distribution | undefined) => shown.map((name) => of?.[name]);
  return metrics
    .filter(({ field }) => field === 'ttftMs' || field === 'e2elMs')
    .map(({ short, name, field }) =>
      barPlot({
        ...size,
        title: `${name} (${short}) by key`,
        x: { label: '' },
        y: { label: 'milliseconds' },
        groups: [...shown],
        series: keys.map((key) => ({ name: key.name, values: values(key[field]) })),
      }),
    );
}

function groupsOf({ keys, records }: ServeReport): Group[] {
  const complete = records.filter(isComplete);
  if (keys.length < 2) return [{ name: 'all', records: complete }];
  return keys.map(({ name }) => ({ name, records: complete.filter(({ keyName }) => keyName === name) }));
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
