// How to make a batch, as commands to copy.

import { generators, type ModelList, quotable } from '../access/model-list.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { baseUrl, Snippet } from '../text/snippet.tsx';

/** Questions, or texts to embed where no model writes any. */
interface Kind {
  readonly endpoint: string;
  readonly bodyOf: (model: string, text: string) => object;
}

const questions: Kind = {
  endpoint: '/v1/chat/completions',
  bodyOf: (model, content) => ({ model, messages: [{ role: 'user', content }], max_tokens: 50 }),
};
const texts: Kind = { endpoint: '/v1/embeddings', bodyOf: (model, input) => ({ model, input }) };

function commands(url: string, key: string | undefined, models: ModelList | undefined): string {
  const [first] = generators(models);
  const { endpoint, bodyOf } = first === undefined && models !== undefined ? texts : questions;
  const model = quotable(first ?? models?.data[0]?.id);
  const line = (id: string, text: string) =>
    JSON.stringify({ custom_id: id, method: 'POST', url: endpoint, body: bodyOf(model, text) });
  const authorization = key === undefined ? '' : ` -H "Authorization: Bearer ${key}"`;
  return `# One request a line, as many as you like.
cat > questions.jsonl <<'END'
${line('first', 'Hello!')}
${line('second', 'Who are you?')}
END
FILE=$(curl -s ${url}/files${authorization} -F purpose=batch -F file=@questions.jsonl |
  sed 's/.*"id": *"\\([^"]*\\)".*/\\1/')
curl ${url}/batches${authorization} -H "Content-Type: application/json" \\
  -d '{"input_file_id": "'$FILE'", "endpoint": "${endpoint}", "completion_window": "24h"}'`;
}

export function BatchExample({ server }: { readonly server: Server }) {
  const url = baseUrl();
  const { answer: models } = usePolled<ModelList>(server, 'v1/models');
  return (
    <>
      <p>
        A batch is a file of requests that are answered when there is time, and a file of answers. Upload one
        and ask for it:
      </p>
      <Snippet name="Shell" language="bash" apiKey={server.key} text={(key) => commands(url, key, models)} />
    </>
  );
}
