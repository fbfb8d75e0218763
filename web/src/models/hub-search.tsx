// Finds models on the hub by words. The server asks the hub; here is what it found, and what of it fits this machine.

import { useRef, useState } from 'preact/hooks';
import type { FoundModel, HubFormat } from '../../../src/pool/hub-search.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { Problem } from '../shell/problem.tsx';
import { count, counted, day, parameterCount } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { HubFiles } from './hub-files.tsx';
import type { Pulls } from './pulls.ts';

interface Found {
  readonly words: string;
  readonly hub: string;
  readonly data: readonly FoundModel[];
}

const formats: Readonly<Record<HubFormat, string>> = { gguf: 'GGUF', safetensors: 'Safetensors' };

export function HubSearch({ server, pulls }: { readonly server: Server; readonly pulls: Pulls }) {
  const [found, setFound] = useState<Found>();
  const [problem, setProblem] = useState<string>();
  const [searching, setSearching] = useState(false);
  const asking = useRef<AbortController | undefined>(undefined);
  const search = async (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const words = String(given.get('words')).trim();
    if (words === '') return;
    asking.current?.abort();
    const leave = new AbortController();
    asking.current = leave;
    setSearching(true);
    setProblem(undefined);
    try {
      const query = new URLSearchParams({ search: words, format: String(given.get('format')) });
      const answer = await server.json<Found>(`admin/hub/models?${query}`, { signal: leave.signal });
      setFound({ ...answer, words });
    } catch (error) {
      if (leave.signal.aborted) return;
      setFound(undefined);
      setProblem(wordsFor(error));
    }
    setSearching(false);
  };
  return (
    <section class="panel" aria-labelledby="hub-title">
      <h2 id="hub-title">Search the hub</h2>
      <search>
        <form class="row grow" onSubmit={search}>
          <input
            name="words"
            type="search"
            aria-label="Words to search the hub for"
            placeholder="llama 3.2 instruct"
            spellcheck={false}
            autocapitalize="off"
          />
          <select name="format" aria-label="Format">
            {Object.entries(formats).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
          <button type="submit">Search</button>
        </form>
      </search>
      <Problem text={problem} />
      <p class="quiet found-count" role="status">
        {searching ? 'Searching…' : found && resultLine(found)}
      </p>
      {found && (
        <ul class="found">
          {found.data.map((model) => (
            <FoundRow key={model.name} model={model} server={server} pulls={pulls} />
          ))}
        </ul>
      )}
    </section>
  );
}

function resultLine({ data, words, hub }: Found): string {
  const host = new URL(hub).host;
  return data.length === 0
    ? `${host} has no model that is called ${words}.`
    : `${counted(data.length, 'model')} of ${host}, the most downloaded first. Open one to see its files and whether they fit.`;
}

interface FoundRowProps {
  readonly model: FoundModel;
  readonly server: Server;
  readonly pulls: Pulls;
}

function FoundRow({ model, server, pulls }: FoundRowProps) {
  const [open, setOpen] = useState(false);
  const { name, parameters, architecture, supported, downloads, changedSeconds, gated } = model;
  const facts = [
    parameters === undefined ? undefined : `${parameterCount(parameters)} parameters`,
    architecture,
    downloads === undefined ? undefined : `${count(downloads)} downloads`,
    changedSeconds === undefined ? undefined : `changed ${day(1000 * changedSeconds)}`,
  ].filter((fact) => fact !== undefined);
  return (
    <li>
      <details class="found-model" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary class="found-head">
          <span class="found-name">
            <SafeText text={name} most={120} />
          </span>
          {supported === false && <span class="badge">architecture not supported</span>}
          {gated && <span class="badge">gated</span>}
          <span class="found-facts">
            <SafeText text={facts.join(' · ')} most={200} />
          </span>
        </summary>
        {open && <HubFiles server={server} name={name} gated={gated} pulls={pulls} />}
      </details>
    </li>
  );
}
