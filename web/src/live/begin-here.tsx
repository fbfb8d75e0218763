// What a reader needs first, while the server has nothing to do: its address, requests to copy, and the way to the chat.

import { useState } from 'preact/hooks';
import type { ModelEntry } from '../../../src/pool/model-pool.ts';
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
}

const examples: readonly Example[] = [
  {
    name: 'curl',
    language: 'bash',
    text: (url, key, model) => `curl ${url}/chat/completions \\
${key === undefined ? '' : `  -H "Authorization: Bearer ${key}" \\\n`}  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello!"}]}'`,
  },
  {
    name: 'Python',
    language: 'python',
    text: (url, key, model) => `from openai import OpenAI  # pip install openai

client = OpenAI(base_url="${url}", api_key="${key ?? 'none'}")
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.choices[0].message.content)`,
  },
  {
    name: 'JavaScript',
    language: 'javascript',
    text: (url, key, model) => `import OpenAI from 'openai'; // npm install openai

const client = new OpenAI({ baseURL: '${url}', apiKey: '${key ?? 'none'}' });
const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Hello!' }],
});
console.log(answer.choices[0].message.content);`,
  },
];

export function BeginHere({ server, models }: BeginHereProps) {
  const [name, setName] = useState('curl');
  const { text, language } = examples.find((one) => one.name === name) as Example;
  const url = baseUrl();
  const model = quotable(models);
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
        <Snippet name={name} language={language} apiKey={key} text={(shown) => text(url, shown, model)} />
      </div>
    </section>
  );
}

/** Where a name could break out of the quotes of a shell or a program, the built-in one stands for it. */
function quotable(models: readonly ModelEntry[]): string {
  const first = models.find(({ state }) => state === 'loaded') ?? models[0];
  return first !== undefined && /^[\w.:@/+-]+$/.test(first.name) ? first.name : 'default';
}
