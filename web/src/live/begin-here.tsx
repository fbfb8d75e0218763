// What a reader needs first, while the server has nothing to do: its address, requests to copy, and the way to the chat.

import { useState } from 'preact/hooks';
import type { ModelEntry } from '../../../src/pool/model-pool.ts';
import { quotable } from '../access/model-list.ts';
import type { Server } from '../access/server.ts';
import { hashOf } from '../shell/route.ts';
import { CopyButton } from '../text/code-block.tsx';
import { baseUrl, masked, Snippet } from '../text/snippet.tsx';

interface BeginHereProps {
  readonly server: Server;
  readonly models: readonly ModelEntry[];
}

interface Example {
  readonly name: string;
  readonly language: string;
  readonly text: (url: string, key: string | undefined, model: string) => string;
  /** With a model that writes no text. */
  readonly embedding: (url: string, key: string | undefined, model: string) => string;
}

const curl = (url: string, key: string | undefined, body: string) => `curl ${url} \\
${key === undefined ? '' : `  -H "Authorization: Bearer ${key}" \\\n`}  -H "Content-Type: application/json" \\
  -d '${body}'`;

const python = (url: string, key: string | undefined) => `from openai import OpenAI  # pip install openai

client = OpenAI(base_url="${url}", api_key="${key ?? 'none'}")
`;

const javaScript = (
  url: string,
  key: string | undefined,
) => `import OpenAI from 'openai'; // npm install openai

const client = new OpenAI({ baseURL: '${url}', apiKey: '${key ?? 'none'}' });
`;

const examples: readonly Example[] = [
  {
    name: 'curl',
    language: 'bash',
    text: (url, key, model) =>
      curl(
        `${url}/chat/completions`,
        key,
        `{"model": "${model}", "messages": [{"role": "user", "content": "Hello!"}]}`,
      ),
    embedding: (url, key, model) =>
      curl(`${url}/embeddings`, key, `{"model": "${model}", "input": "Hello!"}`),
  },
  {
    name: 'Python',
    language: 'python',
    text: (url, key, model) => `${python(url, key)}answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.choices[0].message.content)`,
    embedding: (
      url,
      key,
      model,
    ) => `${python(url, key)}answer = client.embeddings.create(model="${model}", input="Hello!")
print(answer.data[0].embedding)`,
  },
  {
    name: 'JavaScript',
    language: 'javascript',
    text: (url, key, model) => `${javaScript(url, key)}const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Hello!' }],
});
console.log(answer.choices[0].message.content);`,
    embedding: (
      url,
      key,
      model,
    ) => `${javaScript(url, key)}const answer = await client.embeddings.create({ model: '${model}', input: 'Hello!' });
console.log(answer.data[0].embedding);`,
  },
];

export function BeginHere({ server, models }: BeginHereProps) {
  const [name, setName] = useState('curl');
  const { text, embedding, language } = examples.find((one) => one.name === name) as Example;
  const url = baseUrl();
  const first = firstOf(models);
  const model = quotable(first?.name);
  const example = first?.headless ? embedding : text;
  const { key } = server;
  return (
    <section class="panel begin" aria-labelledby="begin-title">
      <div class="row spread">
        <h2 id="begin-title">Begin here</h2>
        <a class="button primary" href={hashOf({ view: 'chat' })}>
          Open the chat
        </a>
      </div>
      <dl class="begin-facts">
        <dt>Base URL</dt>
        <dd>
          <code>{url}</code> <CopyButton text={() => url} />
        </dd>
        <dt>API key</dt>
        <dd>
          {key === undefined ? (
            'none is needed from this machine'
          ) : (
            <>
              <code>{masked(key)}</code> <CopyButton text={() => key} />
            </>
          )}
        </dd>
        <dt>Model</dt>
        <dd>
          <code>{model}</code>
        </dd>
      </dl>
      <div class="row" role="tablist" aria-label="Languages">
        {examples.map((one) => (
          <button
            key={one.name}
            type="button"
            class="small"
            role="tab"
            id={`begin-${one.language}`}
            aria-selected={one.name === name}
            aria-controls="begin-snippet"
            onClick={() => setName(one.name)}
          >
            {one.name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="begin-snippet" aria-labelledby={`begin-${language}`}>
        <Snippet name={name} language={language} apiKey={key} text={(shown) => example(url, shown, model)} />
      </div>
    </section>
  );
}

/** One that writes text, where there is one; of these, one that is loaded. */
function firstOf(models: readonly ModelEntry[]): ModelEntry | undefined {
  const writing = models.filter(({ headless }) => headless !== true);
  const best = writing.length > 0 ? writing : models;
  return best.find(({ state }) => state === 'loaded') ?? best[0];
}
