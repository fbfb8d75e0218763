// The result of a benchmark. Plots are shown as images: nothing in them can act.

import type { BenchResult, BenchTable } from '../../../src/server/live/live-event.ts';
import { ScrollBox } from '../shell/table.tsx';
import { SafeText } from '../text/safe-text.tsx';

export function BenchReport({ result }: { readonly result: BenchResult }) {
  const { headlines, rows, latency, failures, notes, plots } = result;
  return (
    <>
      <dl class="figures">
        {headlines.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="figure-value">
              <SafeText text={value} />
            </dd>
          </div>
        ))}
      </dl>
      <div class="two-columns">
        <section class="panel" aria-labelledby="report-title">
          <h2 id="report-title">Report</h2>
          <table class="data">
            <tbody>
              {rows.map(([name, value]) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td class="number">
                    <SafeText text={value} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
        <section class="panel" aria-labelledby="latency-title">
          <h2 id="latency-title">Latencies</h2>
          <Table name="Latencies" table={latency} />
          {failures && (
            <>
              <h2>Failures</h2>
              <Table name="Failures" table={failures} />
            </>
          )}
          {notes.map((note) => (
            <p key={note} class="quiet">
              <SafeText text={note} most={600} />
            </p>
          ))}
        </section>
      </div>
      <div class="bench-plots">
        {plots.map((svg) => (
          <img
            key={svg}
            alt={titleIn(svg)}
            src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`}
          />
        ))}
      </div>
    </>
  );
}

function Table({ name, table }: { readonly name: string; readonly table: BenchTable }) {
  return (
    <ScrollBox name={name}>
      <table class="data">
        <thead>
          <tr>
            {table.headings.map((heading, at) => (
              <th key={heading} scope="col" class={at === 0 ? undefined : 'number'}>
                {heading === '' ? <span class="offscreen">What</span> : heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map(([first = '', ...cells]) => (
            <tr key={first}>
              <th scope="row">{first}</th>
              {cells.map((cell, at) => (
                <td key={table.headings[at + 1]} class="number">
                  <SafeText text={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}

/** Not parsed: that would apply the plot's styles, which the page's policy refuses. */
function titleIn(svg: string): string {
  return /aria-label="([^"]*)"/.exec(svg)?.[1] ?? 'Plot';
}
