// A comparison of policies as one page with plots.

import { figures, list, page, section, table } from '#src/bench/plot/page.ts';
import { barPlot, linePlot } from '#src/bench/plot/plots.ts';
import { cumulative } from '#src/bench/serve/report-page.ts';
import { type Distribution, sort } from '#src/bench/statistics.ts';
import { policyTable, settingRows } from './report-rows.ts';
import type { SimulationSettings } from './settings.ts';
import type { SimulationResult, TurnRecord } from './simulation.ts';
import type { PolicySummary } from './summary.ts';

export interface ComparedPolicy {
  readonly result: SimulationResult;
  readonly summary: PolicySummary;
}

const size = { width: 600, height: 340 };
const percent = (value: number) => `${Math.round(100 * value)} %`;

export function simulationPage(
  settings: SimulationSettings,
  compared: readonly ComparedPolicy[],
  turns: number,
): string {
  const summaries = compared.map(({ summary }) => summary);
  const subtitle = `${settings.workers} simulated workers, ${settings.gateways} gateways, the same arrivals for all`;
  return page('Ways to choose a worker', subtitle, [
    section('Figures', table(policyTable(summaries))),
    section(
      'Latency',
      figures([
        latencyPlot('Time to first token, cumulative', compared, (one) => one.firstTokenMs - one.arrivedMs),
        latencyPlot('Whole answer, cumulative', compared, (one) => one.endMs - one.arrivedMs),
        percentilePlot('Time to first token', summaries, ({ ttftMs }) => ttftMs),
        percentilePlot('Whole answer', summaries, ({ e2elMs }) => e2elMs),
      ]),
    ),
    section('Caches and decisions', figures([cachedPlot(summaries), decisionPlot(compared)])),
    section('Over time', figures([throughTimePlot(compared)])),
    section('What was simulated', list(settingRows(settings, turns))),
  ]);
}

function latencyPlot(
  title: string,
  compared: readonly ComparedPolicy[],
  measure: (record: TurnRecord) => number,
): string {
  return linePlot({
    ...size,
    title,
    x: { label: 'seconds', scale: 'log' },
    y: { label: 'share of requests', to: 1, format: percent },
    series: compared.map(({ result }) => ({
      name: result.policy,
      points: cumulative(sort(result.records.map((one) => measure(one) / 1000)), 0.001),
    })),
    shape: 'steps',
    marks: false,
  });
}

function percentilePlot(
  title: string,
  summaries: readonly PolicySummary[],
  distribution: (summary: PolicySummary) => Distribution | undefined,
): string {
  const shown = ['p50', 'p90', 'p99'] as const;
  return barPlot({
    ...size,
    title,
    x: { label: '' },
    y: { label: 'seconds' },
    groups: [...shown],
    series: summaries.map((summary) => ({
      name: summary.policy,
      values: shown.map((name) => {
        const ms = distribution(summary)?.[name];
        return ms === undefined ? undefined : ms / 1000;
      }),
    })),
  });
}

function cachedPlot(summaries: readonly PolicySummary[]): string {
  return barPlot({
    ...size,
    title: 'Prompt tokens found in caches',
    x: { label: '' },
    y: { label: 'share', to: 1, format: percent },
    groups: ['of all prompt tokens', 'of what one worker would have'],
    series: summaries.map(({ policy, cachedShare, shareOfIdeal }) => ({
      name: policy,
      values: [cachedShare, shareOfIdeal],
    })),
  });
}

function decisionPlot(compared: readonly ComparedPolicy[]): string {
  return linePlot({
    ...size,
    title: 'Decisions, in real time, cumulative',
    x: { label: 'microseconds', scale: 'log' },
    y: { label: 'share of decisions', to: 1, format: percent },
    series: compared.map(({ result }) => ({
      name: result.policy,
      points: cumulative(sort(result.decisionMs.map((ms) => 1000 * ms)), 0.1),
    })),
    shape: 'steps',
    marks: false,
  });
}

const PARTS = 60;

/** The mean time to the first token of requests by when they came. */
function throughTimePlot(compared: readonly ComparedPolicy[]): string {
  const lastMs = compared.reduce(
    (last, { result }) => result.records.reduce((most, one) => Math.max(most, one.arrivedMs), last),
    1,
  );
  const partMs = lastMs / PARTS;
  return linePlot({
    ...size,
    title: 'Time to first token through the run, means',
    x: { label: 'seconds since the start', from: 0 },
    y: { label: 'seconds' },
    series: compared.map(({ result }) => {
      const sums = Array.from({ length: PARTS + 1 }, () => ({ sum: 0, count: 0 }));
      for (const { arrivedMs, firstTokenMs } of result.records) {
        const part = sums[Math.floor(arrivedMs / partMs)] as { sum: number; count: number };
        part.sum += firstTokenMs - arrivedMs;
        part.count += 1;
      }
      return {
        name: result.policy,
        points: sums.flatMap(({ sum, count }, n) =>
          count === 0 ? [] : [[(n * partMs) / 1000, sum / count / 1000] as const],
        ),
      };
    }),
    marks: false,
  });
}
