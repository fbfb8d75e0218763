// A request to a route, to be written, sent and looked at.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { CopyButton } from '../text/code-block.tsx';
import { duration } from '../text/format.ts';
import { Highlighted } from '../text/highlight.tsx';
import { Snippet } from '../text/snippet.tsx';
import type { Operation } from './document.ts';
import { emptyOf, type Schema } from './schema.ts';
import { type Answer, curlOf, readable, send, type Written } from './send.ts';

const JSON_TYPE = 'application/json';

interface TryFormProps {
  readonly operation: Operation;
  readonly apiKey: string | undefined;
}

export function TryForm({ operation, apiKey }: TryFormProps) {
  const { method, path, parameters = [], requestBody } = operation;
  const given = requestBody?.content[JSON_TYPE];
  const form = requestBody?.content['multipart/form-data']?.schema;
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [query, setQuery] = useState('');
  const [body, setBody] = useState(() =>
    given === undefined ? '' : JSON.stringify(given.example ?? emptyOf(given.schema ?? {}), undefined, 2),
  );
  const [answer, setAnswer] = useState<Answer>();
  const [written, setWritten] = useState<Written>();
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const id = useId();
  const submit = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const filled = parameters.reduce(
      (text, { name }) => text.replace(`{${name}}`, encodeURIComponent(values[name] ?? '')),
      path.slice(1),
    );
    const request: Written = {
      method,
      path: query === '' ? filled : `${filled}?${query.replace(/^\?/, '')}`,
      key: apiKey,
      body: form ? new FormData(event.currentTarget) : given ? body : undefined,
    };
    running.current?.abort();
    const leave = new AbortController();
    running.current = leave;
    setWritten(request);
    void send(request, leave.signal, (one) => running.current === leave && setAnswer(one));
  };
  const isRunning = answer?.state === 'running';
  return (
    <form class="try" onSubmit={submit} aria-label={`Try ${method} ${path}`}>
      <h3>Try it</h3>
      {parameters.map(({ name }) => (
        <label key={name}>
          <span>{name}</span>
          <input
            required
            value={values[name] ?? ''}
            spellcheck={false}
            autocapitalize="off"
            onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      {method === 'GET' && (
        <label>
          <span>Query, such as limit=10; may be empty</span>
          <input
            value={query}
            spellcheck={false}
            autocapitalize="off"
            onInput={(event) => setQuery(event.currentTarget.value)}
          />
        </label>
      )}
      {given && (
        <label>
          <span>Body</span>
          <textarea
            class="mono"
            rows={Math.min(16, body.split('\n').length + 1)}
            value={body}
            spellcheck={false}
            autocapitalize="off"
            onInput={(event) => setBody(event.currentTarget.value)}
          />
        </label>
      )}
      {form && <FormFields schema={form} />}
      <div class="row">
        <button type="submit" class="primary" disabled={isRunning}>
          Send
        </button>
        {isRunning && (
          <button type="button" onClick={() => running.current?.abort()}>
            Stop
          </button>
        )}
        {given && !isJson(body) && <span class="notice">The body is no JSON.</span>}
      </div>
      {answer && <AnswerView answer={answer} id={id} />}
      {written && (
        <Snippet name="curl" language="bash" apiKey={written.key} text={(key) => curlOf(written, key)} />
      )}
    </form>
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Those without which it is refused. */
function FormFields({ schema: { properties = {}, required = [] } }: { readonly schema: Schema }) {
  const id = useId();
  return (
    <>
      {Object.entries(properties)
        .filter(([name]) => required.includes(name))
        .map(([name, field]) => (
          <div key={name}>
            <label for={`${id}-${name}`}>
              <span>{name}</span>
            </label>
            {field.enum !== undefined ? (
              <select id={`${id}-${name}`} name={name}>
                {field.enum.map((value) => (
                  <option key={String(value)}>{String(value)}</option>
                ))}
              </select>
            ) : field.format === 'binary' ? (
              <input id={`${id}-${name}`} name={name} required type="file" />
            ) : (
              <input id={`${id}-${name}`} name={name} required />
            )}
          </div>
        ))}
    </>
  );
}

function AnswerView({ answer, id }: { readonly answer: Answer; readonly id: string }) {
  const { state, status, type = '', ms } = answer;
  const text = readable(answer);
  const isGood = status !== undefined && status < 400;
  return (
    <figure class="code" aria-labelledby={`${id}-answer`}>
      <figcaption>
        <span id={`${id}-answer`} role="status">
          {status !== undefined && <b class={isGood ? 'good' : 'bad'}>{status}</b>} {words[state]}{' '}
          {duration(ms)}
          {type !== '' && ` · ${type}`}
        </span>
        <CopyButton text={() => text} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <pre tabIndex={0} class="answer-text">
        <code>
          <Highlighted text={text} language={type.includes(JSON_TYPE) ? 'json' : 'plaintext'} />
        </code>
      </pre>
    </figure>
  );
}

const words: Readonly<Record<Answer['state'], string>> = {
  running: 'since',
  done: 'in',
  stopped: 'stopped after',
  failed: 'failed after',
};
