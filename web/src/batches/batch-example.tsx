// How to make a batch, as commands to copy.

import type { Server } from '../access/server.ts';
import { baseUrl, Snippet } from '../text/snippet.tsx';

const line = {
  custom_id: 'first',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 50 },
};

function commands(url: string, key: string | undefined): string {
  const authorization = key === undefined ? '' : ` -H "Authorization: Bearer ${key}"`;
  return `# One request a line, as many as you like.
cat > questions.jsonl <<'END'
${JSON.stringify(line)}
${JSON.stringify({ ...line, custom_id: 'second' }).replace('Hello!', 'Who are you?')}
END
FILE=$(curl -s ${url}/files${authorization} -F purpose=batch -F file=@questions.jsonl |
  sed 's/.*"id": *"\\([^"]*\\)".*/\\1/')
curl ${url}/batches${authorization} -H "Content-Type: application/json" \\
  -d '{"input_file_id": "'$FILE'", "endpoint": "/v1/chat/completions", "completion_window": "24h"}'`;
}

export function BatchExample({ server }: { readonly server: Server }) {
  const url = baseUrl();
  return (
    <>
      <p>
        A batch is a file of requests that are answered when there is time, and a file of answers. Upload one
        and ask for it:
      </p>
      <Snippet name="Shell" language="bash" apiKey={server.key} text={(key) => commands(url, key)} />
    </>
  );
}
