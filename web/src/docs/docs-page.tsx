// The API's reference: every route with its fields, and a form to try it with the key that the page holds, or another.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { storedKey } from '../access/server.ts';
import { type Column, DataTable } from '../shell/data-table.tsx';
import { Mark } from '../shell/marks.tsx';
import { Problem } from '../shell/problem.tsx';
import { ThemeChoice } from '../shell/theme.ts';
import { ThemeButton } from '../shell/theme-button.tsx';
import { type ApiDocument, groupsOf, type Operation } from './document.ts';
import { type Field, fieldsOf, type Schema } from './schema.ts';
import { TryForm } from './try-form.tsx';

const ASK_AGAIN_MS = 2000;

export function DocsPage() {
  const theme = useMemo(() => new ThemeChoice(), []);
  const [key, setKey] = useState(() => storedKey() ?? '');
  const [sought, setSought] = useState('');
  const { document: api, problem } = useDocument();
  const groups = api === undefined ? [] : groupsOf(api, sought);
  return (
    <>
      <header class="top">
        <a class="brand" href="./">
          <Mark />
          <span class="brand-name">Chairlift</span>
          <span class="brand-version">{api?.info.version}</span>
        </a>
        <div class="top-end">
          <a href="./">The page</a>
          <ThemeButton theme={theme} />
        </div>
      </header>
      <main class="view view-docs">
        <h1>API</h1>
        <p class="quiet">
          {api?.info.description} Programs read <a href="openapi.json">openapi.json</a>.
        </p>
        <Problem text={problem} />
        <section class="panel fields" aria-label="For all requests">
          <label>
            <span>API key to try with{storedKey() !== undefined && ': the one you are signed in with'}</span>
            <input
              type="password"
              autocomplete="off"
              spellcheck={false}
              placeholder="none"
              value={key}
              onInput={(event) => setKey(event.currentTarget.value.trim())}
            />
          </label>
          <label>
            <span>Search</span>
            <input
              type="search"
              placeholder="Path or words"
              value={sought}
              onInput={(event) => setSought(event.currentTarget.value)}
            />
          </label>
        </section>
        {groups.map(({ name, operations }) => (
          <section key={name} class="routes" aria-label={name}>
            <h2>{name}</h2>
            {operations.map((operation) => (
              <Route
                key={`${operation.method} ${operation.path}`}
                operation={operation}
                apiKey={key === '' ? undefined : key}
              />
            ))}
          </section>
        ))}
        {api !== undefined && groups.length === 0 && <p class="empty">No route is like that.</p>}
      </main>
    </>
  );
}

function useDocument(): { document?: ApiDocument; problem?: string } {
  const [known, setKnown] = useState<{ document?: ApiDocument; problem?: string }>({});
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      try {
        setKnown({ document: (await (await fetch('openapi.json')).json()) as ApiDocument });
      } catch {
        setKnown({ problem: 'the server does not answer; asking again…' });
        timer = setTimeout(ask, ASK_AGAIN_MS);
      }
    };
    void ask();
    return () => clearTimeout(timer);
  }, []);
  return known;
}

interface RouteProps {
  readonly operation: Operation;
  readonly apiKey: string | undefined;
}

/** What is in it is made when it is opened: there are hundreds of fields. */
function Route({ operation, apiKey }: RouteProps) {
  const [isOpen, setOpen] = useState(false);
  const { method, path, summary } = operation;
  return (
    <details class="panel route" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <b class="method" data-method={method}>
          {method}
        </b>{' '}
        <code>{path}</code> <span class="quiet">{summary}</span>
      </summary>
      {isOpen && <RouteBody operation={operation} apiKey={apiKey} />}
    </details>
  );
}

function RouteBody({ operation, apiKey }: RouteProps) {
  const { description, security, requestBody, responses } = operation;
  const asked = Object.values(requestBody?.content ?? {})[0]?.schema;
  const answered = responses['200']?.content?.['application/json']?.schema;
  return (
    <div class="route-body">
      {security === undefined && <p class="quiet">Needs no key.</p>}
      <TryForm operation={operation} apiKey={apiKey} />
      {description !== undefined && <p class="quiet">{description}</p>}
      {asked && <Fields title="Request" schema={asked} />}
      {answered && <Fields title="Answer" schema={answered} />}
    </div>
  );
}

function Fields({ title, schema }: { readonly title: string; readonly schema: Schema }) {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  if (fields.length === 0) return null;
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <DataTable caption={`Fields: ${title}`} columns={columns} rows={fields} keyOf={({ path }) => path} />
    </section>
  );
}

const columns: readonly Column<Field>[] = [
  {
    name: 'Field',
    cell: ({ path, isRequired }) => (
      <>
        <code>{path}</code>
        {isRequired && <span class="badge">required</span>}
      </>
    ),
  },
  { name: 'Type', cell: ({ type }) => <span class="sentence">{type}</span> },
  { name: 'Meaning', cell: ({ meaning }) => <span class="sentence">{meaning}</span> },
];
