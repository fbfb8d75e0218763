// Runs a small benchmark on this server.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { BenchProgress, BenchResult } from '../../../src/server/live/live-event.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { Problem } from '../shell/problem.tsx';
import { eventsOf } from '../stream/events.ts';
import { count } from '../text/format.ts';
import { BenchReport } from './bench-report.tsx';

/** Name, label, default and most. */
const fields = [
  ['streams', 'At once', 8, 64],
  ['requests', 'Requests', 32, 500],
  ['promptTokens', 'Prompt tokens', 64, 4096],
  ['answerTokens', 'Answer tokens', 64, 1024],
] as const;

const phases: Readonly<Record<BenchProgress['phase'], string>> = {
  calibrate: 'Measuring how long texts are in tokens',
  'warm-up': 'Warming up',
  load: 'Under load',
};

export function BenchView({ server }: { readonly server: Server }) {
  const [running, setRunning] = useState(false);
  const [progress, setProgress] = useState<BenchProgress>();
  const [result, setResult] = useState<BenchResult>();
  const [problem, setProblem] = useState<string>();
  const leaving = useRef<AbortController | undefined>(undefined);
  // Leaving the view ends it, at the server too.
  useEffect(() => () => leaving.current?.abort(), []);
  const run = async (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const numbers = fields.map(([name]) => [name, Number(given.get(name))] as const);
    const model = String(given.get('model') ?? '').trim();
    const body = { ...Object.fromEntries(numbers), ...(model === '' ? {} : { model }) };
    const leave = new AbortController();
    leaving.current = leave;
    setProblem(undefined);
    setResult(undefined);
    setRunning(true);
    try {
      const response = await server.ask('admin/bench', { body, signal: leave.signal });
      for await (const { event: kind, data } of eventsOf(response)) {
        if (kind === 'progress') setProgress(JSON.parse(data) as BenchProgress);
        else if (kind === 'result') setResult(JSON.parse(data) as BenchResult);
        else if (kind === 'error') throw new Error((JSON.parse(data) as WireError).error.message);
      }
    } catch (error) {
      if (!leave.signal.aborted) setProblem(wordsFor(error));
    }
    setRunning(false);
    setProgress(undefined);
  };
  return (
    <>
      <h1>Bench</h1>
      <section class="panel" aria-labelledby="load-title">
        <h2 id="load-title">Load</h2>
        <form class="fields" onSubmit={run}>
          <label>
            <span>Model</span>
            <input name="model" placeholder="default" autocomplete="off" />
          </label>
          {fields.map(([name, label, value, most]) => (
            <label key={name}>
              <span>{label}</span>
              <input
                name={name}
                type="number"
                min={1}
                max={most}
                step={1}
                required
                defaultValue={String(value)}
              />
            </label>
          ))}
          {running ? (
            <button type="button" class="primary" onClick={() => leaving.current?.abort()}>
              Stop
            </button>
          ) : (
            <button type="submit" class="primary">
              Run
            </button>
          )}
        </form>
        <Problem text={problem} />
        <div role="status">{running && <Going progress={progress} />}</div>
      </section>
      {result && <BenchReport result={result} />}
    </>
  );
}

interface WireError {
  readonly error: { readonly message: string };
}

function Going({ progress }: { readonly progress: BenchProgress | undefined }) {
  if (progress === undefined) return <p class="going">Beginning…</p>;
  const { phase, done, total, running, errors } = progress;
  return (
    <p class="going">
      {phases[phase]}: {count(done)} of {count(total)} answered, {count(running)} on their way
      {errors > 0 && `, ${count(errors)} failed`}
      <progress aria-label={phases[phase]} max={Math.max(1, total)} value={done} />
    </p>
  );
}
