// A report as one page: no script, nothing fetched, light or dark as the reader's system is.

import { cards, figures, list, page, section, table } from '../plot/page.ts';
import { escapeText } from '../plot/svg.ts';
import { cumulativePlots, keyPlots, scatterPlots, timelinePlots } from './report-plots.ts';
import {
  failureTable,
  headlines,
  keyTable,
  latencyTable,
  loadRows,
  notesOn,
  overviewRows,
} from './report-rows.ts';
import type { ServeReport } from './serve-report.ts';

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
