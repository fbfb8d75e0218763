// Usage: of the reader's own key, or, for administrators, of all keys and each of them.

import type { UsageKey, UsageReport } from '../../../src/server/page/usage.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { FigureList } from '../shell/figure-list.tsx';
import { TierMark } from '../shell/marks.tsx';
import { Problem } from '../shell/problem.tsx';
import { hashOf } from '../shell/route.ts';
import { SeriesPlot } from '../shell/series-plot.tsx';
import type { ThemeChoice } from '../shell/theme.ts';
import { count, percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { KeysTable } from './keys-table.tsx';
import { LimitsPanel } from './limits-panel.tsx';
import { RefusalsPanel } from './refusals-panel.tsx';
import './usage.css';
import { type DaySum, lastDays, sumOf, sumsByDay, type UsageSum } from './usage-sums.ts';

const ASK_EVERY_MS = 5000;
const spans = { '7': '7 days', '30': '30 days', '90': '90 days' } as const;
const everybody = '';

interface UsageViewProps {
  readonly server: Server;
  readonly theme: ThemeChoice;
  readonly query: Readonly<Record<string, string>>;
}

export function UsageView({ server, theme, query }: UsageViewProps) {
  const { key: asked = everybody, days: span = '30' } = query;
  const days = lastDays(span in spans ? Number(span) : 30);
  const chosen = asked === everybody ? '' : `&key=${encodeURIComponent(asked)}`;
  const { answer, problem } = usePolled<UsageReport>(server, `usage?from=${days[0]}${chosen}`, ASK_EVERY_MS);
  const show = (change: Readonly<Record<string, string>>) => {
    location.hash = hashOf({ view: 'usage', query: { ...query, ...change } });
  };
  return (
    <>
      <div class="row spread">
        <h1>Usage</h1>
        <search class="row">
          {answer?.keys && <KeyChoice keys={answer.keys} chosen={asked} onChoose={(key) => show({ key })} />}
          <label class="inline">
            <span class="offscreen">Time</span>
            <select value={span} onChange={(event) => show({ days: event.currentTarget.value })}>
              {Object.entries(spans).map(([value, name]) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        </search>
      </div>
      <Problem text={problem} />
      {answer && <Report report={answer} days={days} span={span} theme={theme} />}
    </>
  );
}

interface KeyChoiceProps {
  readonly keys: readonly UsageKey[];
  readonly chosen: string;
  readonly onChoose: (key: string) => void;
}

function KeyChoice({ keys, chosen, onChoose }: KeyChoiceProps) {
  return (
    <label class="inline">
      <span class="offscreen">Key</span>
      <select value={chosen} onChange={(event) => onChoose(event.currentTarget.value)}>
        <option value={everybody}>All keys</option>
        {keys.map(({ id, name, revoked }) => (
          <option key={id} value={id}>
            {name ?? 'Without a key'}
            {revoked ? ' (revoked)' : ''}
          </option>
        ))}
      </select>
    </label>
  );
}

interface ReportProps {
  readonly report: UsageReport;
  readonly days: readonly string[];
  readonly span: string;
  readonly theme: ThemeChoice;
}

function Report({ report: { key, keys, data, limits, kvShare, refusals }, days, span, theme }: ReportProps) {
  const sums = sumsByDay(data, days);
  return (
    <>
      <p class="quiet">
        {key === undefined ? (
          'Of all keys together.'
        ) : (
          <>
            Of {key.name === undefined ? 'requests without a key' : <SafeText text={key.name} most={60} />},{' '}
            <TierMark tier={key.tier} />.
          </>
        )}{' '}
        Days are those of UTC; tokens count on the day their request ends.
      </p>
      <FigureList figures={figuresOf(sumOf(data))} />
      {key && <LimitsPanel limits={limits} {...(kvShare === undefined ? {} : { kvShare })} />}
      <SeriesPlot
        label="Tokens by day"
        theme={theme}
        bars
        times={days.map((day) => Date.parse(day) / 1000)}
        series={[
          { label: 'prompt', colour: '--series-1', values: sums.map(({ prompt }) => prompt) },
          { label: 'answer', colour: '--series-2', values: sums.map(({ answer }) => answer) },
        ]}
        unit="tokens"
      />
      {keys && key === undefined && (
        <KeysTable keys={keys} rows={data} today={days.at(-1) ?? ''} days={span} />
      )}
      <DaysTable sums={sums} />
      <RefusalsPanel refusals={refusals} />
    </>
  );
}

function figuresOf({ requests, errors, prompt, cached, answer }: UsageSum) {
  return [
    ['Requests', count(requests), `${count(errors)} failed`],
    ['Prompt tokens', count(prompt), prompt === 0 ? '' : `${percent(cached / prompt)} cached`],
    ['Cached tokens', count(cached), 'of the prompts'],
    ['Answer tokens', count(answer), ''],
  ] as const;
}

function DaysTable({ sums }: { readonly sums: readonly DaySum[] }) {
  const used = sums.filter(({ requests }) => requests > 0).toReversed();
  return (
    <section class="panel" aria-labelledby="days-title">
      <h2 id="days-title">By day</h2>
      {used.length === 0 ? (
        <p class="empty">Nothing was used in this time.</p>
      ) : (
        <DataTable caption="Usage by day" columns={dayColumns} rows={used} keyOf={({ day }) => day} isCut />
      )}
    </section>
  );
}

const dayColumns: readonly Column<DaySum>[] = [
  { name: 'Day', cell: ({ day }) => day },
  { name: 'Requests', isNumber: true, cell: ({ requests }) => count(requests) },
  { name: 'Failed', isNumber: true, cell: ({ errors }) => (errors === 0 ? NONE : count(errors)) },
  { name: 'Prompt tokens', isNumber: true, cell: ({ prompt }) => count(prompt) },
  { name: 'Cached tokens', isNumber: true, cell: ({ cached }) => count(cached) },
  { name: 'Answer tokens', isNumber: true, cell: ({ answer }) => count(answer) },
];
